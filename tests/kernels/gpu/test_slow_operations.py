"""Replacements of slow operations, on the emulator: division by constants, GELU's erf(x) + 1."""

import math

import numpy
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
COUNT = 4000


def quotient(dtype: str, divisor: float, *after: str) -> tuple[bool, numpy.ndarray, numpy.ndarray]:
    """Whether a kernel divides, its results for whole numbers, and numpy's."""
    info, one = TensorInfo(dtype, (COUNT,)), TensorInfo(dtype, ())
    chain = [Node("Div", {}, (0, 1), (2,))]
    chain += [Node(type, {}, (2 + i,), (3 + i,)) for i, type in enumerate(after)]
    constants = {1: numpy.array(divisor, dtype)}
    values = (info, one, *[info] * len(chain))
    group = Group("quotient", values, 1, (False,), constants, tuple(chain), (len(values) - 1,))
    kernel = generate(group, parse_gpu("cuda"))
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
def test_divisors_without_a_normal_reciprocal(dtype: str, divisor: float):
    _, found, expected = quotient(dtype, divisor)
    numpy.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("type", "divisor"), [("Floor", 82), ("Ceil", 3.1), ("Round", 82)])
def test_rounded_quotients_are_exact_without_a_division(type: str, divisor: float):
    """By the reciprocal alone, some of these would be the next integer."""
    divides, found, expected = quotient("float32", divisor, type)
    function = {"Floor": numpy.floor, "Ceil": numpy.ceil, "Round": numpy.rint}[type]
    assert not divides
    numpy.testing.assert_array_equal(found, function(expected))


def error_function_and_one(type: str, x: numpy.ndarray) -> tuple[str, numpy.ndarray]:
    """The text of a kernel of `1 + type(x)`, and its result."""
    info, one = TensorInfo("float32", x.shape), TensorInfo("float32", ())
    chain = Node(type, {}, (0,), (2,)), Node("Add", {}, (1, 2), (3,))
    constants = {1: numpy.ones((), "float32")}
    group = Group("sum", (info, one, info, info), 1, (False,), constants, chain, (3,))
    kernel = generate(group, parse_gpu("cuda"))
    return kernel.text, run(kernel, group, [x])[0]


def test_the_error_function_and_one_are_computed_together():
    special = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45, 3e38, -3e38]
    x = numpy.concatenate([numpy.linspace(-12, 12, 40001), special]).astype("float32")
    text, found = error_function_and_one("Erf", x)
    assert "flowloom_erf_plus_one(" in text
    expected = numpy.array([math.erfc(-float(value)) for value in x])
    numpy.testing.assert_allclose(found, expected, rtol=0, atol=2e-7)


def test_other_functions_and_one_are_not():
    x = numpy.linspace(-2, 2, 100, dtype="float32")
    text, found = error_function_and_one("Tanh", x)
    assert "erf" not in text
    numpy.testing.assert_allclose(found, 1 + numpy.tanh(x), rtol=0, atol=2e-7)


def test_no_load_of_a_choice_waits_for_its_condition():
    mask, info = TensorInfo("bool", (COUNT,)), TensorInfo("float32", (COUNT,))
    chain = (Node("Where", {}, (0, 1, 2), (3,)),)
    group = Group("choice", (mask, info, info, info), 3, (False,) * 3, {}, chain, (3,))
    kernel = generate(group, parse_gpu("cuda"))
    generator = numpy.random.default_rng(0)
    one, other = generator.standard_normal((2, COUNT)).astype("float32")
    inputs = [generator.random(COUNT) < 0.5, one, other]
    (found,) = run(kernel, group, inputs)
    numpy.testing.assert_array_equal(found, numpy.where(*inputs))
    chosen = next(line for line in kernel.text.splitlines() if " ? " in line)
    assert "[" not in chosen.split(" ? ")[1], chosen
    assert "else" not in kernel.text
