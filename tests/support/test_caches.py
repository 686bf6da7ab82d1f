"""Compiled code is kept by all that decides it, and by nothing else."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.emulator import compile as emulator
from compiler.kernels.cpu import codegen
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.gpu.compilers.hipcc import compile_hip
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.support.caches import (
    CHECKSUM,
    COMPILED_VARIABLE,
    compiled_once,
    remove_oldest,
    with_headers,
)
from compiler.target.target import parse_cpu, parse_gpu
from tests.tools import needs

CUDA = 'extern "C" __global__ void one(int* to) { to[0] = 1; }'
LLVM = "define i32 @one() {\n  ret i32 1\n}\n"


class Compiler:
    """Counts its calls, and returns another code each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return b"code %d" % self.calls


def options_of_old() -> str:
    """A function that calls a compiler."""
    return "-O2"


def options() -> str:
    """The same with another option."""
    return "-O3"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that FLOWLOOM_COMPILED names."""
    monkeypatch.setenv(COMPILED_VARIABLE, str(tmp_path / "compiled"))
    return tmp_path / "compiled"


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_same_inputs_are_compiled_once(folder: Path):
    make = Compiler()
    assert compiled_once(make, (options,), "g++ 14", b"text") == b"code 1"
    assert compiled_once(make, (options,), "g++ 14", b"text") == b"code 1"
    assert [path.parents[1] for path in files(folder)] == [folder]


@pytest.mark.parametrize(
    ("callers", "inputs"),
    [
        ((options,), ("g++ 15", "text")),
        ((options,), ("g++ 14", "texts")),
        ((options,), ("g++ 14t", "ext")),
        ((options,), ("g++ 14text",)),
        ((options, options), ("g++ 14", "text")),
        ((options_of_old,), ("g++ 14", "text")),
    ],
)
def test_all_inputs_count(
    folder: Path, callers: tuple[Callable[[], str], ...], inputs: tuple[str, ...]
):
    make = Compiler()
    compiled_once(make, (options,), "g++ 14", "text")
    assert compiled_once(make, callers, *inputs) == b"code 2"
    assert len(files(folder)) == 2


def test_only_headers_that_a_text_includes_count():
    headers = {"a.cuh": '#include "b.cuh"', "b.cuh": '#include "a.cuh"', "c.cuh": "int c;"}
    text = '#include "flowloom/kernel.h"\n  # include <a.cuh>\n// #include "c.cuh"\n'
    whole = with_headers(text, headers)
    assert with_headers(text, {**headers, "c.cuh": "int d;"}) == whole
    assert with_headers(text, {**headers, "b.cuh": "int b;"}) != whole
    assert with_headers(f"{text}int x;", headers) != whole


def test_nothing_is_kept_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(COMPILED_VARIABLE, raising=False)
    make = Compiler()
    assert [compiled_once(make, (), "text") for _ in range(2)] == [b"code 1", b"code 2"]
    assert not files(tmp_path)


@pytest.mark.parametrize("position", [0, 31, 32, -1])
def test_damaged_code_is_compiled_anew(folder: Path, position: int):
    make = Compiler()
    compiled_once(make, (), "text")
    (path,) = files(folder)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert compiled_once(make, (), "text") == b"code 2"
    assert compiled_once(make, (), "text") == b"code 2"
    path.write_bytes(b"")
    assert compiled_once(make, (), "text") == b"code 3"


def test_a_compiler_that_fails_leaves_nothing(folder: Path):
    def fail() -> bytes:
        raise ValueError("no such function")

    for _ in range(2):
        with pytest.raises(ValueError, match="no such function"):
            compiled_once(fail, (), "text")
    assert not files(folder)


def test_a_folder_that_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(COMPILED_VARIABLE, str(tmp_path / "file" / "compiled"))
    assert compiled_once(Compiler(), (), "text") == b"code 1"


def test_what_was_used_last_stays(tmp_path: Path):
    paths = [tmp_path / name for name in "abc"]
    for age, path in enumerate(paths):
        path.write_bytes(bytes(10))
        os.utime(path, (100 - age, 100 - age))
    remove_oldest([*paths, tmp_path / "gone"], 25)
    assert sorted(files(tmp_path)) == paths[:2]


def of_llvm(text: str) -> bytes:
    return codegen.optimise(text, host_target())


def of_the_emulator(text: str) -> bytes:
    kernel, _ = emulator.unpack(emulator.compile_kernels(text, ["one"])) or (b"", b"")
    return kernel


def of_cuda(text: str) -> bytes:
    return compile_cubin(text, parse_gpu("cuda:sm_80:fp32"))


def of_hip(text: str) -> bytes:
    return compile_hip(text, ["one"], parse_gpu("hip:gfx90a:fp32"))


@pytest.mark.parametrize(
    ("compiled", "text"),
    [
        pytest.param(of_llvm, LLVM, id="llvm"),
        pytest.param(of_the_emulator, CUDA, id="g++", marks=needs("g++")),
        pytest.param(of_cuda, CUDA, id="nvrtc", marks=needs("nvrtc")),
        pytest.param(of_hip, CUDA, id="hipcc", marks=needs("hipcc")),
    ],
)
def test_every_compiler_runs_once_for_a_text(
    folder: Path, compiled: Callable[[str], bytes], text: str
):
    code = compiled(text)
    (path,) = files(folder)
    assert path.read_bytes()[CHECKSUM:] == code
    path.write_bytes(hashlib.sha256(b"kept").digest() + b"kept")
    assert compiled(text) == b"kept"
    other = text.replace("1", "2")
    assert compiled(other) not in (code, b"kept")
    assert len(files(folder)) == 2
    path.unlink()
    assert compiled(text) == code


def test_the_target_is_an_input_of_llvms(folder: Path):
    body = "%y = fadd <16 x float> %x, %x ret <16 x float> %y"
    text = f"define <16 x float> @f(<16 x float> %x) {{ {body} }}"
    targets = [parse_cpu(f"cpu:x86-64-v{level}") for level in (2, 3, 4)]
    assert len({codegen.optimise(text, target) for target in targets}) == 3
