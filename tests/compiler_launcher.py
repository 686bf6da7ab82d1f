"""A launcher of C++, HIP and CUDA compilers for CMake that keeps objects by what decides them.

    CMAKE_CXX_COMPILER_LAUNCHER='python;tests/compiler_launcher.py' cmake ...

A file is compiled only where FLOWLOOM_COMPILED has no object of the same source, headers in the
folders that the command includes, options and compiler: to preprocess it, for a GPU once for each
architecture, would take longer than to read them all.
Whatever does not make an object of one source, or keeps the paths of files in it, is run as it is.
"""

import hashlib
import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

CACHES = Path(__file__).parents[1] / "compiler" / "support" / "caches.py"
HOST_COMPILERS = ("g++", "c++", "clang++")
GPU_COMPILERS = ("hipcc", "nvcc")
PATHS = ("-I", "-MD", "-MMD", "-MT", "-MQ", "-MF")
"""The options that name files, whose content counts instead."""
WITH_WORD = {"-isystem", "-MT", "-MQ", "-MF", "-o", "-c"}
"""The options that the next word belongs to."""
REFUSED = ("-g", "@", "-include", "-fprofile", "-save-temps")
"""The options with which an object, or what is made besides, depends on more."""
LANGUAGES = {"c++", "hip", "cu"}
"""The languages after `-x` that make objects."""
SOURCES = {".c", ".cc", ".cpp", ".cu", ".hip"}
OTHER_FILE = re.compile(
    rb"^\s*#\s*include\s*[<\"](.*\.(c|cc|cpp|cu|hip)[>\"]|/|\.\./)|\.incbin", re.MULTILINE
)
"""The reading of a file that is neither the source nor a header below the folders."""


class Failed(Exception):
    """The compiler has said why."""


def expanded(words: Sequence[str]) -> Iterator[str]:
    """The words of a command, with those of the files of options that CMake writes for nvcc."""
    rest = iter(words)
    for word in rest:
        if word == "--options-file":
            yield from shlex.split(Path(next(rest)).read_text())
        else:
            yield word


def is_by(compilers: tuple[str, ...], command: Sequence[str]) -> bool:
    """Whether a command calls one of some compilers, for any target and of any version."""
    return Path(command[0]).name.rstrip("-.0123456789").endswith(compilers)


def is_kept(command: Sequence[str]) -> bool:
    """Whether a command makes an object that its options and its source's text decide."""
    languages = {word for option, word in pairwise(command) if option == "-x"}
    return (
        is_by((*HOST_COMPILERS, *GPU_COMPILERS), command)
        and command.count("-c") == command.count("-o") == 1
        and languages <= LANGUAGES
        and not any(word.startswith(REFUSED) or word.endswith("=native") for word in command)
    )


def value(command: Sequence[str], option: str) -> str:
    """The word after an option."""
    return command[command.index(option) + 1]


def deciding_options(command: Sequence[str]) -> list[str]:
    """The options of a command but those that name files."""
    options, words = list[str](), iter(command[1:])
    for word in words:
        if word in ("-o", "-c") or word.startswith(PATHS):
            if word in WITH_WORD:
                next(words)
        else:
            options.append(word)
    return options


def headers(command: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Every file but sources below the folders that a command includes, with its name there."""
    folders = [Path(word[2:]) for word in command if word.startswith("-I")]
    for folder in [*folders, Path(value(command, "-c")).parent]:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in SOURCES and path.is_file():
                yield str(path.relative_to(folder)), path


def with_headers(command: Sequence[str]) -> bytes | None:
    """A source and all that it may include, or None where sources include sources.

    What the compiler brings along goes by its version. Writes the file of dependencies.
    """
    source = Path(value(command, "-c"))
    if "-I" in command or not source.exists():
        return None
    contents = {path: path.read_bytes() for _, path in headers(command)}
    contents[source] = source.read_bytes()
    if any(map(OTHER_FILE.search, contents.values())):
        return None
    digest = hashlib.sha256()
    for name, path in (*headers(command), ("", source)):
        digest.update(f"{name}\0{len(contents[path])}\0".encode() + contents[path])
    if "-MF" in command:
        target = value(command, "-MT" if "-MT" in command else "-o")
        Path(value(command, "-MF")).write_text(f"{target}: {' '.join(map(str, contents))}\n")
    return digest.digest()


def versions(command: Sequence[str]) -> bytes:
    """The versions of a compiler, and of the host's whose headers a GPU's compiler reads."""
    programs = (command[0], "g++") if is_by(GPU_COMPILERS, command) else (command[0],)
    return b"".join(
        subprocess.run([program, "--version"], capture_output=True, check=False).stdout
        for program in programs
    )


def compiled(command: Sequence[str]) -> bytes:
    """The object that a command makes; raises Failed with the compiler's status."""
    ran = subprocess.run(command, check=False)
    if ran.returncode != 0:
        raise Failed(ran.returncode)
    return Path(value(command, "-o")).read_bytes()


def main(command: list[str]) -> int:
    """Run a command, or take what it made before; its exit status."""
    command, text = [*expanded(command)], None
    if is_kept(command):
        text = with_headers(command)
    if text is None:
        return subprocess.run(command, check=False).returncode
    # the package itself would be imported for longer than a file takes to compile
    spec = importlib.util.spec_from_file_location("caches", CACHES)
    assert spec is not None
    assert spec.loader is not None
    caches = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(caches)
    options = "\0".join(deciding_options(command))
    try:
        code = caches.compiled_once(lambda: compiled(command), (), versions(command), options, text)
    except Failed as failure:
        return int(failure.args[0])
    Path(value(command, "-o")).write_bytes(code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
