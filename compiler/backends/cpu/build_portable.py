"""Regenerates LLVM text from C: executor.ll from executor.c, say.

`python -m compiler.backends.cpu.build_portable SOURCE.c [CLANG]` needs clang 15 or newer (Debian:
`apt-get install clang-19`), which running Flowloom does not. What names a CPU, an object format or
an operating system is removed from the text, and no optimisation has run that could have used it,
so any LP64 POSIX host can optimise and load it.
"""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

FLAGS = (
    "-std=c11 -O0 -Xclang -disable-O0-optnone -ffreestanding -fno-stack-protector -fPIC "
    "-fno-asynchronous-unwind-tables -Wall -Wextra -Werror -S -emit-llvm -o -"
).split()

HOST_SPECIFIC = (
    r"^(?:; ModuleID|; Function Attrs|source_filename|target |attributes |!).*\n",
    r" #\d+\b",
    r", !llvm\.loop !\d+",
    r"(?<=define )dso_local ",
)


def source_digest(source: Path) -> str:
    """The line that says which source the checked-in code was made from."""
    return f"; {source.name} sha256 {hashlib.sha256(source.read_bytes()).hexdigest()}"


def portable(text: str) -> str:
    """LLVM IR without what names the host that made it."""
    for pattern in HOST_SPECIFIC:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def build(source: Path, clang: str = "clang-19") -> None:
    """Compile a C source and replace the LLVM text beside it."""
    text = subprocess.run(
        [clang, *FLAGS, str(source)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    temporary = source.with_suffix(".tmp")
    temporary.write_text(f"{source_digest(source)}\n\n{portable(text)}", encoding="utf-8")
    os.replace(temporary, source.with_suffix(".ll"))


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:3])
