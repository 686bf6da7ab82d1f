"""Second entry points compute the same from the addresses of pointers."""

import dataclasses

import numpy
import pytest

from compiler.errors import KernelError
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.gpu.cubin import check_resources, read_resources
from compiler.kernels.gpu.entries.indirect import with_indirect_entries
from compiler.kernels.group import Group, TensorInfo
from compiler.target.target import parse_gpu, parse_target
from tests.kernels.gpu.emulator import COMPILER, Program
from tests.kernels.harness import single

DRAWN = numpy.random.default_rng(0).standard_normal((8, 300)).astype("float32")
RIGHT = numpy.random.default_rng(1).standard_normal((300, 40)).astype("float32")
CASES = {
    "Softmax": single("Softmax", [DRAWN], [TensorInfo("float32", (8, 300))]),
    "MatMul": single("MatMul", [DRAWN, RIGHT], [TensorInfo("float32", (8, 40))]),
    "TopK": single(
        "TopK",
        [DRAWN, numpy.array([5])],
        [TensorInfo("float32", (8, 5)), TensorInfo("int64", (8, 5))],
        {"axis": 1},
        constants=(1,),
    ),
}


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("name", CASES)
def test_both_entries_give_the_same(name: str):
    group, inputs = CASES[name]
    kernel = with_indirect_entries(generate(group, parse_gpu("cuda:sm_90:fp32")))
    program = Program(kernel)
    direct = program.run(kernel, group, inputs)
    for first, second in zip(
        direct, program.run(kernel, group, inputs, indirect=True), strict=True
    ):
        numpy.testing.assert_array_equal(first, second)


def test_kernels_at_the_boundary_have_two_entries_that_fit():
    group: Group = dataclasses.replace(CASES["MatMul"][0], boundary=True)
    spec = build_kernel(group, parse_target("cuda"))
    assert all(launch.indirect in read_resources(spec.code) for launch in spec.launches)
    lost = tuple(dataclasses.replace(launch, indirect="lost") for launch in spec.launches)
    with pytest.raises(KernelError, match="no kernel lost"):
        check_resources(spec.code, lost, parse_gpu("cuda"))
