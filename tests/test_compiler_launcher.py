"""Objects of projects are kept by what decides them, and rebuilt where it changes."""

import subprocess
import sys
from pathlib import Path

import pytest

from compiler.support.caches import CHECKSUM, COMPILED_VARIABLE
from tests import compiler_launcher
from tests.tools import needs

pytestmark = needs("g++")
LAUNCHER = (sys.executable, compiler_launcher.__file__)


def compile_source(folder: Path, *options: str, text: str = "int one() { return N; }") -> bytes:
    """The object of a source that includes a header, both in a new folder."""
    folder.mkdir(exist_ok=True)
    (folder / "one.cpp").write_text(f'#include "n.h"\n{text}\n')
    if not (folder / "n.h").exists():
        (folder / "n.h").write_text("#define N 1\n")
    made, depends = folder / "one.o", folder / "one.d"
    words = (f"-I{folder}", *options, "-MD", "-MT", made, "-MF", depends, "-o", made)
    command = (*LAUNCHER, "g++", *words, "-c", folder / "one.cpp")
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    assert str(folder / "n.h") in depends.read_text()
    return made.read_bytes()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that objects are kept in."""
    monkeypatch.setenv(COMPILED_VARIABLE, str(tmp_path / "store"))
    return tmp_path / "store"


def kept(store: Path) -> list[bytes]:
    return [path.read_bytes()[CHECKSUM:] for path in sorted(store.glob("*/*"))]


def test_another_folder_of_the_same_text_is_not_compiled_again(store: Path, tmp_path: Path):
    first = compile_source(tmp_path / "a", "-O2")
    assert kept(store) == [first]
    assert compile_source(tmp_path / "b", "-O2") == first
    assert len(kept(store)) == 1


def test_options_headers_and_definitions_are_compiled(store: Path, tmp_path: Path):
    compile_source(tmp_path / "a", "-O2")
    compile_source(tmp_path / "a", "-O1")
    compile_source(tmp_path / "a", "-O2", text="int one() { return N + 1; }")
    (tmp_path / "a" / "n.h").write_text("#define N 2\n")
    compile_source(tmp_path / "a", "-O2")
    compile_source(tmp_path / "b", "-O2", "-DM=3", text="int one() { return M; }")
    compile_source(tmp_path / "b", "-O2", "-DM=4", text="int one() { return M; }")
    assert len(kept(store)) == 6


def test_a_text_that_does_not_compile_fails_each_time(store: Path, tmp_path: Path):
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError) as failure:
            compile_source(tmp_path / "a", text="int one() { return none; }")
        assert b"was not declared in this scope" in failure.value.stderr
    assert not kept(store)


@pytest.fixture
def nvcc(tmp_path: Path) -> Path:
    """A compiler that counts its objects, as no machine need have CUDA's."""
    program = tmp_path / "bin" / "nvcc"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then cat "$0.version"; exit; fi\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'echo made >> "$0.log"\n'
        'wc -l < "$0.log" > "$2"\n'
    )
    program.chmod(0o755)
    (tmp_path / "bin" / "nvcc.version").write_text("13.0")
    return program


def compile_kernel(
    nvcc: Path, folder: Path, *options: str, text: str = "", header: str = ""
) -> int:
    """How many objects a compiler had made when it made that of a kernel."""
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    (folder / "kernels" / "tile.cuh").write_text(header)
    source = folder / "src" / "one.cu"
    source.parent.mkdir(exist_ok=True)
    source.write_text(f"#include <tile.cuh>\n{text}\n")
    (folder / "kernels" / "other.cu").write_text(str(folder))
    made, depends = folder / "one.o", folder / "one.d"
    (folder / "includes.rsp").write_text(f'-I"{folder / "kernels"}"')
    includes = ("--options-file", folder / "includes.rsp")
    words = (*includes, *options, "-MD", "-MT", made, "-MF", depends)
    command = (*LAUNCHER, nvcc, *words, "-x", "cu", "-c", source, "-o", made)
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return int(made.read_text())


def test_kernels_go_by_their_source_and_all_headers(store: Path, nvcc: Path, tmp_path: Path):
    a, b = tmp_path / "a", tmp_path / "b"
    assert compile_kernel(nvcc, a, "-DN=1") == 1
    assert compile_kernel(nvcc, b, "-DN=1") == 1
    assert str(b / "kernels" / "tile.cuh") in (b / "one.d").read_text()
    assert compile_kernel(nvcc, a, "-DN=2") == 2
    assert compile_kernel(nvcc, a, "-DN=1", text="int x;") == 3
    assert compile_kernel(nvcc, a, "-DN=1", header="int x;") == 4
    nvcc.with_suffix(".version").write_text("13.1")
    assert compile_kernel(nvcc, a, "-DN=1") == 5
    assert len(kept(store)) == 5


def test_a_kernel_with_another_source_in_it_is_always_compiled(
    store: Path, nvcc: Path, tmp_path: Path
):
    text = '#include "other.cu"'
    assert [compile_kernel(nvcc, tmp_path / "a", text=text) for _ in range(2)] == [1, 2]
    assert not kept(store)


@pytest.mark.parametrize(
    "command",
    [
        "g++ -g -o a.o -c a.cpp",
        "g++ -o program a.o b.o",
        "g++ -x c++-header -o a.gch -c a.h",
        "g++ -march=native -o a.o -c a.cpp",
        "nvcc -arch=native -o a.o -c a.cu",
        "nvcc -dlink -o a.o b.o",
    ],
)
def test_other_commands_are_run_as_they_are(command: str):
    assert not compiler_launcher.is_kept(command.split())


def test_cross_compilers_and_versions_are_compilers():
    for name in ("/usr/bin/aarch64-linux-gnu-g++", "clang++-19", "/usr/bin/c++", "hipcc", "nvcc"):
        assert compiler_launcher.is_kept([name, "-O2", "-o", "a.o", "-c", "a.cpp"])
