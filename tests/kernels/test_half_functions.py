"""Functions of numbers in 16 bits, of all 65,536: kernels against their meaning in NumPy.

Both round once, from float32 and from float64. So results differ by one unit in the last place at
most, and only where the number that is rounded is next to the middle between two others.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.kernels.group import Group, TensorInfo
from compiler.net.operators import OPERATORS, Kind
from tests.frontend.interpreter.comparison import evaluate as meaning
from tests.kernels import harness
from tests.kernels.gpu.emulator import COMPILER, emulate
from tests.operator_cases import Case

Array = np.ndarray

MOST_DIFFERENT = 16
"""The most of all numbers whose results may be rounded otherwise."""

MOVED = ("Cast", "Expand", "Identity")
"""Operators that compute nothing."""

FLUSHED = 2.0**-118
"""Results below it may be zero on a GPU, whose fast quotients have no subnormal numbers."""

TYPES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "Gelu": [{"approximate": "none"}, {"approximate": "tanh"}],
    "Elu": [{}, {"alpha": 0.3}],
    "Celu": [{"alpha": 0.3}, {"alpha": -2.0}],
    "Selu": [{}, {"alpha": 0.5, "gamma": 3.0}],
    "LeakyRelu": [{}, {"alpha": -0.3}],
    "HardSigmoid": [{}, {"alpha": 0.33, "beta": 0.7}],
    "ThresholdedRelu": [{"alpha": -0.5}],
    "Shrink": [{"lambd": 0.3, "bias": 0.7}],
}


def functions() -> list[tuple[str, dict[str, Any], np.dtype]]:
    """The elementwise operators of one float, with parameters, in each type of 16 bits."""
    names = [
        name
        for name, entry in OPERATORS.items()
        if entry.kind is Kind.ELEMENTWISE and len(entry.inputs) == 1 and name not in MOVED
    ]
    return [
        (name, parameters, dtype)
        for name in sorted(names)
        for parameters in PARAMETERS.get(name, [{}])
        for dtype in TYPES
        if dtype.name in OPERATORS[name].dtypes(0)
    ]


FUNCTIONS = functions()


def use(name: str, parameters: dict[str, Any], dtype: np.dtype) -> tuple[Group, list[Array], Array]:
    """The group of a function of all numbers of a type, its inputs and the meaning."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        wanted = np.asarray(meaning(Case(name, [x], parameters))[0])
    info = TensorInfo(wanted.dtype.name, wanted.shape)
    group, arrays = harness.single(name, [x], [info], parameters)
    return group, arrays, wanted


def ordered(numbers: Array) -> Array:
    """Numbers of 16 bits by their order, in units in the last place."""
    bits = numbers.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def check(result: Array, wanted: Array, least: float = 0.0) -> None:
    """Compare results in units in the last place, but for those below the least number."""
    if wanted.dtype not in TYPES:
        np.testing.assert_array_equal(result, wanted)
        return
    exact, got = wanted.astype(np.float32), result.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    compared = ~np.isnan(exact) & (np.maximum(np.abs(exact), np.abs(got)) >= least)
    units = np.abs(ordered(result) - ordered(wanted))[compared]
    assert units.max() <= 1
    assert (units > 0).sum() <= MOST_DIFFERENT


@pytest.mark.parametrize(("name", "parameters", "dtype"), FUNCTIONS)
def test_a_kernel_rounds_as_numpy_does(name: str, parameters: dict[str, Any], dtype: np.dtype):
    group, arrays, wanted = use(name, parameters, dtype)
    check(harness.evaluate_once(group, arrays)[0], wanted)


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["Gelu", "Mish", "Selu", "Sigmoid", "Softplus"])
def test_a_kernel_of_gpus_rounds_as_numpy_does(name: str, dtype: np.dtype):
    for parameters in PARAMETERS.get(name, [{}])[:2]:
        group, arrays, wanted = use(name, parameters, dtype)
        check(emulate(group, arrays)[0], wanted, FLUSHED)


def test_gelu_has_digits_far_below_zero():
    """1 + erf(x) and 1 + tanh(x) are zero there in float32 and in float64."""
    x = np.array([-8.375, -10.0], TYPES[1])
    for approximate, exact in (("none", [-2.312e-16, -7.62e-23]), ("tanh", [-8.22e-24, -1.2e-37])):
        result = np.asarray(meaning(Case("Gelu", [x], {"approximate": approximate}))[0])
        np.testing.assert_allclose(result.astype(float), exact, rtol=0.01)
