"""Matmuls by packed weights of four bits by template, against float64."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.group import TensorInfo
from compiler.net.four_bits import pack_nibbles
from compiler.target.target import parse_cpu
from tests.kernels.harness import evaluate, single
from tests.kernels.template_cases import (
    check,
    expected,
    fused,
    random_array,
    targets,
    template_kernel,
)
from tests.strategies import FourBitMatmul, four_bit_matmuls, four_bit_operands


@settings(max_examples=12, deadline=None)
@given(four_bit_matmuls(), targets, st.booleans(), st.booleans())
def test_any_matmul(matmul: FourBitMatmul, target: str, prologue: bool, residual: bool):
    x, *weights = matmul.operands
    if weights[1].size == 1:
        return  # one number is a constant of the kernel
    result = matmul.expected
    if prologue:
        matmul = FourBitMatmul((numpy.maximum(x, 0), *weights), matmul.attributes)
        result = matmul.expected
    group = fused(
        "MatMulNBits", [x, *weights], result.shape, matmul.attributes, len(weights),
        prologue, residual,
    )  # fmt: skip
    addend = random_array(7, result.shape) if residual else None
    given = [x, *weights, *([] if addend is None else [addend])]
    check(group, given, expected(result, addend), target)


@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_every_integer_in_every_place_is_unpacked(zeros: str, target: str):
    matmul = four_bit_operands([1], 16, 16, 16, zeros)
    packed = pack_nibbles(numpy.add.outer(numpy.arange(16), numpy.arange(16)) % 16)
    x, _, scales, *others = matmul.operands
    weights = [packed.reshape(16, 1, 8), scales, *others]
    matmul = FourBitMatmul((x, *weights), matmul.attributes)
    group = fused("MatMulNBits", [x, *weights], (1, 16), matmul.attributes, len(weights))
    check(group, [x, *weights], [matmul.expected], target)


@pytest.mark.parametrize("weights", [(), (1, 2)])
@pytest.mark.parametrize("zeros", ["", "uint8", "float32"])
def test_others_are_unpacked_by_the_generic_schedule(weights: tuple[int, ...], zeros: str):
    matmul = four_bit_operands([2, 3], 40, 7, 16, zeros or "uint8")
    group, arrays = single(
        "MatMulNBits", matmul.operands, [TensorInfo("float32", (2, 3, 7))], matmul.attributes,
        weights=weights,
    )  # fmt: skip
    assert template_kernel(group, parse_cpu("cpu")) is None
    (result,) = evaluate(group, arrays)
    numpy.testing.assert_allclose(result, matmul.expected, rtol=1e-4, atol=1e-5)
