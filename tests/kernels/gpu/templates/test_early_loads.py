"""Before the wait for predecessors kernels touch no global memory, or weights alone."""

import re

import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin, compiler_version
from compiler.kernels.gpu.entries.indirect import with_indirect_entries
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from compiler.tools.explore.sources import disassembler, sass_of
from tests.kernels.gpu.mutation_cases import FAMILIES
from tests.kernels.gpu.ptx import ptx_of, read_before_the_wait
from tests.kernels.gpu.templates.test_contraction import draw
from tests.kernels.harness import single
from tests.tools import needs_nvrtc

TARGET = parse_gpu("cuda:sm_90:tf32")
WAIT = "ACQBULK"
"""The instruction that `griddepcontrol.wait` becomes."""
GLOBAL = re.compile(r"(LD|ST|LDG|STG|LDGSTS|ATOM|ATOMG|RED|REDG|UBLKCP|UTMA\w+)\b")
"""Instructions that touch global memory, or may; constants and shared memory have others."""


pytestmark = [
    pytest.mark.skipif(disassembler() is None, reason="needs nvdisasm: nvidia-cuda-nvdisasm"),
    pytest.mark.skipif(compiler_version() == "none", reason="needs NVRTC or nvcc"),
]


def functions(text: str) -> dict[str, list[str]]:
    """The instructions of each kernel of a text, in order, without predicates and operands."""
    listing = sass_of(compile_cubin(complete_text(text), TARGET))
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        if name := re.match(r"\s*\.text\.(\w+):", line):
            found[name[1]] = []
        elif code := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([\w.]+)", line):
            found[list(found)[-1]].append(code[1])
    return found


def early(instructions: list[str]) -> list[str]:
    """The instructions on global memory before the wait, or all of them without a wait."""
    end = instructions.index(WAIT) if WAIT in instructions else len(instructions)
    return [code for code in instructions[:end] if GLOBAL.match(code)]


def pointwise() -> KernelSource:
    """One thread an element."""
    group, _ = single("Erf", [draw(40, 50)], [TensorInfo("float32", (40, 50))])
    return generate(group, TARGET)


def kernel_of(family: str) -> KernelSource:
    """The first kernel of a family."""
    return pointwise() if family == "pointwise" else FAMILIES[family][0]().kernel


PREFETCHING = ("skinny", "squeeze and excitation", "recurrence")
"""Families whose first kernels load weights, which no launch writes, while they wait."""

KERNELS = (*(family for family in FAMILIES if family not in PREFETCHING), "pointwise")
QUICK = ("tiles", "wgmma tiles", "attention", "softmax")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.deep) for n in KERNELS]
)
def test_nothing_is_touched_before_the_wait(name: str):
    kernel = with_indirect_entries(kernel_of(name))
    found = functions(kernel.text)
    assert len(found) == 2 * len(kernel.launches)
    for instructions in found.values():
        assert instructions.count(WAIT) == 1
        assert any(GLOBAL.match(code) for code in instructions)
        assert not early(instructions)


def constant_inputs(group: Group) -> set[int]:
    """The inputs of a group that are weights."""
    return {number for number, is_weight in enumerate(group.weights) if is_weight}


@needs_nvrtc
@pytest.mark.parametrize("name", PREFETCHING)
def test_weights_alone_are_read_before_the_wait(name: str):
    case = FAMILIES[name][0]()
    buffers = case.kernel.launches[0].args
    weights = {i for i, buffer in enumerate(buffers) if buffer in constant_inputs(case.group)}
    accesses = read_before_the_wait(ptx_of(case.kernel))
    assert accesses
    assert all(len(origins) == 1 and origins <= weights for origins in accesses)


def test_a_load_before_the_wait_is_found():
    text = 'extern "C" __global__ void bad(float* to, const float* from) {{ {} }}\n'
    load, wait = "const float x = from[threadIdx.x];", "grid_dependency_wait();"
    store = "to[threadIdx.x] = x;"
    (wrong,) = functions(text.format(load + wait + store)).values()
    (right,) = functions(text.format(wait + load + store)).values()
    assert early(wrong)
    assert not early(right)
