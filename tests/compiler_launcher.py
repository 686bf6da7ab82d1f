"""A launcher of C++ compilers for CMake that keeps objects by their preprocessed text.

    CMAKE_CXX_COMPILER_LAUNCHER='python;tests/compiler_launcher.py' cmake ...

The compiler preprocesses each file, as always, and compiles it only where FLOWLOOM_COMPILED has no
object of the same text, options and compiler. hipcc compiles a text once for each architecture, so
it is run as it is, and so is whatever does not make an object of one source, or keeps the paths of
files in it.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CACHES = Path(__file__).parents[1] / "compiler" / "support" / "caches.py"
PREPROCESSED = ("-I", "-D", "-U", "-isystem", "-MD", "-MMD", "-MT", "-MQ", "-MF")
"""The options whose effect is in the preprocessed text."""
WITH_WORD = {"-isystem", "-MT", "-MQ", "-MF"}
"""The options that the next word belongs to."""
REFUSED = ("-g", "-x", "@", "-include", "-fprofile", "-save-temps")
"""The options with which an object, or what is made besides, depends on more."""
COMPILERS = ("g++", "c++", "clang++")


class Failed(Exception):
    """The compiler has said why."""


def is_kept(command: Sequence[str]) -> bool:
    """Whether a command makes an object that its preprocessed text and its options decide."""
    name = Path(command[0]).name.rstrip("-.0123456789")
    return (
        name.endswith(COMPILERS)
        and command[-2:-1] == ["-c"]
        and command.count("-o") == 1
        and not any(word.startswith(REFUSED) or word.endswith("=native") for word in command)
    )


def deciding_options(command: Sequence[str]) -> list[str]:
    """The options of a command that matter after preprocessing, without paths."""
    options, words = list[str](), iter(command[1 : command.index("-c")])
    for word in words:
        if word in WITH_WORD or word == "-o":
            next(words)
        elif not word.startswith(PREPROCESSED):
            options.append(word)
    return options


def compiled(command: Sequence[str]) -> bytes:
    """The object that a command makes; raises Failed with the compiler's status."""
    ran = subprocess.run(command, check=False)
    if ran.returncode != 0:
        raise Failed(ran.returncode)
    return Path(command[command.index("-o") + 1]).read_bytes()


def main(command: list[str]) -> int:
    """Run a command, or take what it made before; its exit status."""
    if not is_kept(command):
        return subprocess.run(command, check=False).returncode
    target = command.index("-o")
    preprocess = [*command[:target], *command[target + 2 :], "-E", "-P"]
    preprocess.remove("-c")
    text = subprocess.run(preprocess, capture_output=True, check=False)
    if text.returncode != 0 or b".incbin" in text.stdout:
        return subprocess.run(command, check=False).returncode
    # the package itself would be imported for longer than a file takes to compile
    spec = importlib.util.spec_from_file_location("caches", CACHES)
    assert spec is not None
    assert spec.loader is not None
    caches = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(caches)
    options = "\0".join(deciding_options(command))
    version = subprocess.run([command[0], "--version"], capture_output=True, check=False).stdout
    try:
        code = caches.compiled_once(lambda: compiled(command), (), version, options, text.stdout)
    except Failed as failure:
        return int(failure.args[0])
    Path(command[target + 1]).write_bytes(code)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
