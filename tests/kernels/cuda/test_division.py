"""Divisions by constants on the emulator: by multiplication, but where the last bit decides."""

import numpy
import pytest

from compiler.kernels.cuda.kernel import generate
from compiler.kernels.cuda.target import parse_cuda_target
from compiler.kernels.group import Group, Operator, TensorInfo
from tests.kernels.cuda.emulator import COMPILER, run

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
COUNT = 4000


def quotient(dtype: str, divisor: float, *after: str) -> tuple[bool, numpy.ndarray, numpy.ndarray]:
    """Whether a kernel divides, what it gives of whole numbers, and what numpy does."""
    info, one = TensorInfo(dtype, (COUNT,)), TensorInfo(dtype, ())
    chain = [Operator("Div", {}, (0, 1), (2,))]
    chain += [Operator(type, {}, (2 + i,), (3 + i,)) for i, type in enumerate(after)]
    constants = {1: numpy.array(divisor, dtype)}
    values = (info, one, *[info] * len(chain))
    group = Group("quotient", values, 1, (False,), constants, tuple(chain), (len(values) - 1,))
    kernel = generate(group, parse_cuda_target("cuda"))
    x = numpy.arange(1, COUNT + 1).astype(dtype)
    (found,) = run(kernel, group, [x])
    with numpy.errstate(over="ignore"):
        expected = x // constants[1] if dtype == "int32" else x / constants[1]
    body = kernel.text[kernel.text.index("{") :]
    return " / " in body, found, expected


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_constants_are_multiplied_by(dtype: str):
    divides, found, expected = quotient(dtype, 49)
    assert not divides
    assert (found != expected).any() == (dtype == "float32"), "nothing was multiplied"
    numpy.testing.assert_array_max_ulp(found, expected, 1)


@pytest.mark.parametrize(("dtype", "divisor"), [
    ("float64", 49), ("int32", 49), ("float32", 1e-40), ("float32", 3e38),
    ("float32", numpy.inf),
])  # fmt: skip
def test_what_has_no_such_reciprocal_is_divided(dtype: str, divisor: float):
    _, found, expected = quotient(dtype, divisor)
    numpy.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("type", ["Floor", "Ceil", "Round"])
def test_what_is_rounded_is_divided(type: str):
    divides, found, expected = quotient("float32", 49, type)
    function = {"Floor": numpy.floor, "Ceil": numpy.ceil, "Round": numpy.rint}[type]
    assert divides
    numpy.testing.assert_array_equal(found, function(expected))
