"""Kernels keep nothing on the stack where it can be avoided, and are built alike in threads."""

import re
import threading
from dataclasses import replace
from typing import Any

import numpy
import pytest

from compiler.errors import KernelError
from compiler.kernels.building import cuda_kernel as building
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.building.module import build_groups
from compiler.kernels.building.parallel import build_in_threads
from compiler.kernels.gpu.compilers import nvrtc as compiling
from compiler.kernels.gpu.cubin import Resources
from compiler.kernels.group import Group, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.harness import single

TARGET = parse_gpu("cuda:sm_80:tf32")
TEXT = 'extern "C" __global__ void __launch_bounds__(128) f() {}'
ALONE = TEXT.replace("(128)", "(128, 1)")


def elementwise(size: int, kind: str = "Exp") -> Group:
    """An operator on a vector, with a unique name."""
    info = TensorInfo("float32", (size,))
    group = single(kind, [numpy.zeros(size, "float32")], [info])[0]
    return replace(group, name=f"{kind}_{size}")


def compiled(monkeypatch: pytest.MonkeyPatch, stack: dict[str, int]) -> tuple[str, list[str]]:
    """The text that is chosen, and those compiled, by the bytes of stack of each."""
    texts: list[str] = []

    def compile_cubin(text: str, _: object) -> bytes:
        texts.append(text)
        return text.encode()

    def check(cubin: bytes, *_: object) -> dict[str, Resources]:
        return {"f": Resources(96, 0, 0), "g": Resources(96, stack[cubin.decode()], 0)}

    monkeypatch.setattr(building, "compile_cubin", compile_cubin)
    monkeypatch.setattr(building, "check_resources", check)
    found = building.compile_text(TEXT, (), TARGET)
    assert found.cubin == found.source.encode()
    return found.source, texts


def test_a_kernel_without_a_stack_is_compiled_once(monkeypatch: pytest.MonkeyPatch):
    assert compiled(monkeypatch, {TEXT: 0}) == (TEXT, [TEXT])


def test_one_block_is_enough_where_more_need_the_stack(monkeypatch: pytest.MonkeyPatch):
    assert compiled(monkeypatch, {TEXT: 8, ALONE: 0}) == (ALONE, [TEXT, ALONE])


def test_bounds_that_do_not_help_are_not_taken(monkeypatch: pytest.MonkeyPatch):
    assert compiled(monkeypatch, {TEXT: 8, ALONE: 8}) == (TEXT, [TEXT, ALONE])


def test_threads_give_the_same_kernels_as_one_after_another():
    groups = [elementwise(size) for size in range(1, 9)]
    found = {group.name: spec for group, spec in build_groups(groups, TARGET, 4)}
    assert found == {group.name: build_kernel(group, TARGET) for group in groups}
    assert list(build_groups([], TARGET, 4)) == []


def test_kernels_are_handed_out_while_others_are_built(monkeypatch: pytest.MonkeyPatch):
    groups, original, lasts = [elementwise(1), elementwise(2)], building.compile_text, list[str]()
    handed_out = threading.Event()

    def compile_text(source: str, *others: Any) -> building.Compiled:
        lasts.append(re.findall(r"Exp_(\d)_0", source)[0])
        if lasts[-1] == "2":
            assert handed_out.wait(60), "the first kernel was not handed out"
        return original(source, *others)

    monkeypatch.setattr(building, "compile_text", compile_text)
    for group, _ in build_in_threads(groups, TARGET, 2):
        if group.name == "Exp_1":
            handed_out.set()
    assert sorted(lasts) == ["1", "2"]


@pytest.mark.parametrize("failing", ["generate", "compile_text"])
def test_errors_in_threads_name_the_kernel(monkeypatch: pytest.MonkeyPatch, failing: str):
    def fail(*_: object):
        raise KernelError("no room")

    monkeypatch.setattr(building, failing, fail)
    with pytest.raises(KernelError, match=r'Exp_3 \(Exp "node"\): no room'):
        list(build_in_threads([elementwise(3)], TARGET, 2))


class OldCompiler:
    """An NVRTC that knows no newer architecture than sm_90."""

    @staticmethod
    def nvrtcVersion() -> tuple[int, int, int]:
        return 0, 12, 4

    @staticmethod
    def nvrtcGetSupportedArchs() -> tuple[int, list[int]]:
        return 0, [80, 90]


def test_a_compiler_that_does_not_know_the_architecture_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "load_nvrtc", lambda: OldCompiler)
    monkeypatch.setattr(compiling, "compiler_version", lambda: "nvrtc 12.4")
    check = compiling.check_compiler.__wrapped__
    check(parse_gpu("cuda:sm_90"))
    message = r"nvrtc 12\.4 compiles for sm_80, sm_90, not for sm_100: .*pip install -U nvidia-cuda"
    with pytest.raises(KernelError, match=message):
        check(parse_gpu("cuda:sm_100"))
    monkeypatch.setattr(compiling, "load_nvrtc", lambda: None)
    check(parse_gpu("cuda:sm_100"))
