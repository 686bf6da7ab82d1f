"""The vectorised functions against float64, over the whole range of float32."""

import math
from collections.abc import Callable

import numpy
import pytest

from compiler.kernels.group import TensorInfo
from tests.kernels.harness import evaluate, single

Array = numpy.ndarray


def every_magnitude() -> Array:
    """Floats spread over all bit patterns, special values, and the ranges where they matter."""
    bits = numpy.arange(0, 2**32, 4999, dtype=numpy.uint64).astype(numpy.uint32)
    special = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45, -1e-45, 3.4e38, 1.17e-38]
    near = numpy.linspace(-110, 110, 60001)
    close = numpy.linspace(-4, 4, 60001)
    parts = [bits.view("float32"), *(numpy.asarray(p, "float32") for p in (special, near, close))]
    return numpy.concatenate(parts)


def sigmoid(x: Array) -> Array:
    power = numpy.exp(-numpy.abs(x))
    return numpy.where(x < 0, power, 1.0) / (1.0 + power)


REFERENCES: dict[str, Callable[[Array], Array]] = {
    "Exp": numpy.exp,
    "Log": numpy.log,
    "Tanh": numpy.tanh,
    "Sigmoid": sigmoid,
    "Erf": lambda x: numpy.array([math.erf(v) for v in x]),
    "Softplus": lambda x: numpy.logaddexp(0, x),
    "Elu": lambda x: numpy.where(x < 0, numpy.expm1(x), x),
}


def units_in_the_last_place(result: Array, exact: Array) -> Array:
    """The error in units of float32's last place; NaN where NaN is due counts as none."""
    nearest = exact.astype("float32")
    same = (result == nearest) | (numpy.isnan(result) & numpy.isnan(nearest))
    error = numpy.abs(result.astype("float64") - exact) / numpy.spacing(numpy.abs(nearest))
    return numpy.where(same, 0.0, numpy.nan_to_num(error, nan=numpy.inf))


@pytest.mark.parametrize("type", REFERENCES)
def test_error_is_below_four_units(type: str):
    x = every_magnitude()
    group, arrays = single(type, [x], [TensorInfo("float32", x.shape)])
    with numpy.errstate(all="ignore"):
        exact = REFERENCES[type](x.astype("float64"))
        error = units_in_the_last_place(evaluate(group, arrays)[0], exact)
    worst = int(error.argmax())
    assert error[worst] < 4, f"{type}({x[worst]!r}) is off by {error[worst]} units"


def test_gelu_keeps_rtol_1e_5_where_it_does_not_cancel():
    x = numpy.linspace(-2, 30, 10001, dtype="float32")
    group, arrays = single("Gelu", [x], [TensorInfo("float32", x.shape)])
    exact = numpy.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype("float64")])
    numpy.testing.assert_allclose(evaluate(group, arrays)[0], exact, rtol=1e-5, atol=1e-7)
