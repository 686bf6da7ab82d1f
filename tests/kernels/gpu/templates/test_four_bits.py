"""Matmuls of a few rows by packed weights of four bits, on the emulator."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.net.four_bits import pack_nibbles
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run, run_twice
from tests.kernels.gpu.of_template import kernel_in
from tests.kernels.harness import Array, single
from tests.kernels.template_cases import expected, fused
from tests.strategies import FourBitMatmul, four_bit_matmuls, four_bit_operands

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
TARGET = parse_gpu("cuda:sm_90:fp32")


def kernel_of(matmul: FourBitMatmul) -> tuple[KernelSource, Group, list[Array]]:
    """The kernel of a matmul by constant weights."""
    result, count = matmul.expected, len(matmul.operands)
    info = TensorInfo("float32", result.shape)
    group, arrays = single(
        "MatMulNBits", matmul.operands, [info], matmul.attributes, weights=range(1, count)
    )
    kernel = kernel_in("four_bit_gemv", group, TARGET)
    assert kernel is not None
    return kernel, group, arrays


def operands_of_two_warps() -> FourBitMatmul:
    """A matmul whose chunks along K are shared by two warps."""
    return four_bit_operands([2], 1024, 6, 32, "uint8")


def check(result: Array, wanted: Array) -> None:
    """Fail where sums in float32 differ from those in float64 by more than rounding."""
    scale = float(numpy.abs(wanted).max())
    numpy.testing.assert_allclose(result, wanted, rtol=2e-6, atol=2e-6 * scale)


@settings(max_examples=8, deadline=None)
@given(four_bit_matmuls(), st.sampled_from([0, 16]))
def test_any_matmul(matmul: FourBitMatmul, offset: int):
    kernel, group, arrays = kernel_of(matmul)
    (result,) = run_twice(kernel, group, arrays, offset)
    check(result, matmul.expected)


@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
def test_every_integer_in_every_place_is_unpacked(zeros: str):
    matmul = four_bit_operands([1], 64, 16, 64, zeros)
    x, _, *others = matmul.operands
    packed = pack_nibbles(numpy.add.outer(numpy.arange(16), numpy.arange(64)) % 16)
    matmul = FourBitMatmul((x, packed.reshape(16, 1, 32), *others), matmul.attributes)
    kernel, group, arrays = kernel_of(matmul)
    check(run(kernel, group, arrays)[0], matmul.expected)


def test_several_warps_add_their_sums():
    matmul = four_bit_operands([3], 2048, 12, 32, "uint8")
    kernel, group, arrays = kernel_of(matmul)
    assert kernel.launches[0].block[0] == 4 * 32
    check(run_twice(kernel, group, arrays)[0], matmul.expected)


def test_the_epilogue_is_fused():
    matmul = four_bit_operands([4], 96, 20, 32)
    weights, result = matmul.operands[1:], matmul.expected
    addend = numpy.random.default_rng(3).standard_normal(result.shape).astype("float32")
    operands = [*matmul.operands]
    group = fused(
        "MatMulNBits", operands, result.shape, matmul.attributes, len(weights), False, True
    )
    kernel = kernel_in("four_bit_gemv", group, TARGET)
    assert kernel is not None
    found = run(kernel, group, [*operands, addend])
    for got, wanted in zip(found, expected(result, addend), strict=True):
        check(got, wanted)


@pytest.mark.parametrize("depth", [64, 50])
def test_a_matrix_of_16_bits_is_read_as_it_is(depth: int):
    matmul = four_bit_operands([2], depth, 9, 16)
    x, packed, scales = matmul.operands
    narrow = x.astype("float16")
    values = (
        *(TensorInfo(a.dtype.name, a.shape) for a in (narrow, packed, scales)),
        TensorInfo("float32", x.shape),
        TensorInfo("float32", (2, 9)),
    )
    operators = (
        Node("Cast", {"to": 1}, (0,), (3,)),
        Node("MatMulNBits", matmul.attributes, (3, 1, 2), (4,)),
    )
    group = Group("narrow", values, 3, (False, True, True), {}, operators, (4,))
    kernel = kernel_in("four_bit_gemv", group, TARGET)
    assert kernel is not None
    wide = FourBitMatmul((narrow.astype("float32"), packed, scales), matmul.attributes)
    check(run(kernel, group, [narrow, packed, scales])[0], wide.expected)


@pytest.mark.parametrize("weights", [(), (1,)])
def test_weights_of_the_run_are_left_to_the_generic_schedule(weights: tuple[int, ...]):
    matmul = four_bit_operands([2], 32, 8, 16)
    info = TensorInfo("float32", (2, 8))
    group, _ = single("MatMulNBits", matmul.operands, [info], matmul.attributes, weights=weights)
    assert kernel_in("four_bit_gemv", group, TARGET) is None


def test_many_rows_are_left_to_the_generic_schedule():
    matmul = four_bit_operands([17], 32, 8, 16)
    info = TensorInfo("float32", (17, 8))
    group, _ = single("MatMulNBits", matmul.operands, [info], matmul.attributes, weights=(1, 2))
    assert kernel_in("four_bit_gemv", group, TARGET) is None
