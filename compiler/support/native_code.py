"""C that is compiled once to LLVM IR, checked in next to its source, and optimised for each host.

`python -m compiler.support.native_code FILE.c [CLANG]` regenerates FILE.ll. It needs clang 15 or
newer (Debian: `apt-get install clang-19`), which running Flowloom does not. The names of a CPU, an
object format or an operating system are removed from the text, and no optimisation has run that
could have used them, so any LP64 POSIX host can optimise and load it.
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import llvmlite.binding

llvm: Any = llvmlite.binding  # its functions are untyped

FLAGS = (
    "-std=c11 -O0 -Xclang -disable-O0-optnone -ffreestanding -ffp-contract=off -fPIC "
    "-fno-stack-protector -fno-asynchronous-unwind-tables -Wall -Wextra -Werror -S -emit-llvm -o -"
).split()

HOST_SPECIFIC = (
    r"^(?:; ModuleID|; Function Attrs|source_filename|target |attributes |!).*\n",
    r" #\d+\b",
    r", !llvm\.loop !\d+",
    r"(?<=define )dso_local ",
)

_LINKING = Lock()
"""Held while IR is compiled, so that a thread waits for what another one compiles."""

LIBRARIES = ("libm.so.6", "libc.so.6")
"""Where undefined symbols may be; whatever the process has loaded already is searched."""


def source_digest(source: Path) -> str:
    """The line that says which source, with the headers next to it, code was made from."""
    text = source.read_bytes()
    headers = re.findall(rb'^#include "(.+)"', text, re.MULTILINE)
    contents = [text, *(source.with_name(name.decode()).read_bytes() for name in headers)]
    return f"; {source.name} sha256 {hashlib.sha256(b''.join(contents)).hexdigest()}"


def portable(text: str) -> str:
    """LLVM IR without what names the host that made it."""
    for pattern in HOST_SPECIFIC:
        text = re.sub(pattern, "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def regenerate(source: Path, clang: str = "clang-19") -> None:
    """Compile a C file and replace the IR next to it."""
    command = [clang, *FLAGS, str(source)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    code = source.with_suffix(".ll")
    temporary = code.with_suffix(".tmp")
    temporary.write_text(f"{source_digest(source)}\n\n{portable(text)}", encoding="utf-8")
    os.replace(temporary, code)


@cache
def host_cpu_for_linking() -> str:
    """LLVM's name of this host's CPU, once LLVM can compile for it and sees the C libraries."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for library in LIBRARIES:
        llvm.load_library_permanently(library)
    return llvm.get_host_cpu_name()


def target_machine() -> Any:
    """LLVM's description of this host, for code that is linked in process.

    Each engine takes one as its own.
    """
    cpu = host_cpu_for_linking()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, opt=2, reloc="pic", codemodel="small", jit=True
    )


def object_code(code: Path, more: str = "") -> bytes:
    """An object of checked-in IR, and more, optimised for this host."""
    machine = target_machine()
    module = llvm.parse_assembly(code.read_text(encoding="utf-8"))
    if more:
        module.link_in(llvm.parse_assembly(more))
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    passes.getModulePassManager().run(module, passes)
    return machine.emit_object(module)


class LinkedCode:
    """Objects linked into the process: the address of each of `symbols`, as long as this lives.

    JITLink keeps the sections of an object together: further apart than 2 GiB they could not be
    linked.
    """

    def __init__(self, objects: Iterable[bytes], symbols: Iterable[str]):
        names = tuple(symbols)
        library = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            library.add_object_img(code)
        for name in names:
            library.export_symbol(name)
        self._engine = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
        self._linked = library.link(self._engine, "linked")
        self.addresses: dict[str, int] = {name: self._linked[name] for name in names}


@cache
def native_function(code: Path, symbol: str, result: Any, *arguments: Any) -> Any:
    """A function of checked-in IR, by the ctypes of its result and its arguments.

    The IR is compiled once in a process; calls release the interpreter's lock.
    """
    with _LINKING:
        linked = _linked(code)
    return ctypes.CFUNCTYPE(result, *arguments)(linked.addresses[symbol])


@cache
def _linked(code: Path) -> LinkedCode:
    defined = re.findall(
        r"^define (?!internal).*?@(\w+)\(", code.read_text(encoding="utf-8"), re.MULTILINE
    )
    return LinkedCode([object_code(code)], defined)


if __name__ == "__main__":
    regenerate(Path(sys.argv[1]), *sys.argv[2:3])
