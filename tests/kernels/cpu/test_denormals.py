"""Kernels multiply nothing that they have not written: denormal numbers there are very slow."""

import ctypes
import platform
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numpy
import pytest

from compiler.backends.cpu.bound import BoundKernel
from compiler.backends.memory import aligned_bytes, aligned_copy
from compiler.graph.packing import apply_packing
from compiler.kernels.building.kernel import compile_scheduled
from compiler.kernels.cpu.machine import llvm_machine
from compiler.kernels.cpu.templates.conv_choices import IMAGE, ConvConfig
from compiler.target.target import parse_cpu
from tests.kernels.template_cases import candidate_of, template_kernel
from tests.kernels.test_templates_convolution import Case, convolution_group

llvm: Any = llvmlite.binding  # its functions are untyped

DENORMAL = 2
"""The flag of MXCSR that an operation on a denormal number sets."""

CONTROL = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
define void @load(ptr %word) {
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
define void @store(ptr %word) {
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  ret void
}
"""

ONES = (1, 1)

CASES = {
    "Winograd, all chunks transformed first": Case(
        1, 1, 5, 16, (38, 38), (3, 3), ONES, ONES, (1, 1, 1, 1)
    ),
    "Winograd, chunk by chunk": Case(2, 1, 5, 16, (70, 130), (3, 3), ONES, ONES, (1, 1, 1, 1)),
    "strides": Case(1, 1, 4, 16, (38, 38), (1, 1), (2, 2), ONES, (0, 0, 0, 0)),
    "groups that blocks fill": Case(1, 16, 4, 8, (11, 11), (3, 3), ONES, ONES, (1, 1, 1, 1)),
}


@pytest.fixture(scope="module")
def flags() -> Callable[[Callable[[], object]], int]:
    """The flags of MXCSR that a function sets."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86 says that an operand was denormal")
    machine = llvm_machine(parse_cpu("cpu"))
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(CONTROL), machine)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    load, store = (kind(engine.get_function_address(name)) for name in ("load", "store"))

    def raised(run: Callable[[], object]) -> int:
        before, after = ctypes.c_uint32(), ctypes.c_uint32()
        store(ctypes.addressof(before))
        load(ctypes.addressof(ctypes.c_uint32(before.value & ~0x3F)))
        run()
        store(ctypes.addressof(after))
        load(ctypes.addressof(before))
        return after.value & 0x3F if engine else 0

    return raised


@pytest.mark.parametrize("name", CASES)
def test_workspaces(name: str, flags: Callable[[Callable[[], object]], int]) -> None:
    group, arrays, results = convolution_group(CASES[name])
    target = parse_cpu("cpu")
    tunable = candidate_of(group, target)
    configs = tunable.by_fields.items()
    along_image = [f for f, c in configs if isinstance(c, ConvConfig) and c.lanes == IMAGE][:1]
    likeliest = next(iter(tunable.by_fields))
    for fields in {likeliest, *along_image}:
        scheduled = template_kernel(group, target, fields)
        assert scheduled is not None
        spec = compile_scheduled(group, scheduled, target)
        packed = zip(arrays, spec.packings, strict=True)
        reads = [aligned_copy(apply_packing(array, packing)) for array, packing in packed]
        writes = [aligned_bytes(4 * result.size) for result in results]
        kernel = BoundKernel(spec, reads, writes)
        for workspace in kernel.workspaces:
            workspace.view(numpy.uint32).fill(1)
        assert not flags(kernel.run) & DENORMAL, fields


def test_the_flag(flags: Callable[[Callable[[], object]], int]) -> None:
    denormal, one = (numpy.full(64, value, numpy.float32) for value in (1e-40, 1.0))
    assert flags(lambda: numpy.multiply(denormal, one, out=one)) & DENORMAL
