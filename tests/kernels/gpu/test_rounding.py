"""Quantisation in CUDA kernels: the same integers as in numpy, by additions, of exact quotients."""

import numpy
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run
from tests.kernels.test_requantise import X, quantising

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("zero", [0, 131])
def test_integers_are_those_of_the_plain_formula(dtype: str, zero: int):
    limits = numpy.iinfo(dtype)
    group = quantising(dtype, zero, limits.min, limits.max)
    kernel = generate(group, TARGET)
    assert "nearbyint" not in kernel.text
    narrow, wide = run(kernel, group, [X])
    exact = numpy.clip(numpy.rint(X.astype("float64")) + zero, limits.min, limits.max)
    numpy.testing.assert_array_equal(narrow, exact.astype(dtype))
    numpy.testing.assert_array_equal(wide, (exact - zero).astype("float32"))


def divided(group: Group, scale: float) -> Group:
    """The group, whose input is divided by a constant first."""
    number, count = len(group.values), TensorInfo("float32", X.shape)
    values = (*group.values, TensorInfo("float32", ()), count)
    constants = {**group.constants, number: numpy.array(scale, "float32")}
    first, *rest = group.operators
    division = Node("Div", {}, (0, number), (number + 1,))
    moved = Node(first.type, first.attributes, (number + 1,), first.outputs)
    return Group(group.name, values, 1, (False,), constants, (division, moved, *rest), (8, 11))


def test_quotients_that_are_rounded_are_exact():
    scale = numpy.float32(0.3)
    group = divided(quantising("uint8", 3, 0, 255), float(scale))
    halves = (numpy.arange(-40, 520) / 2).astype("float32") * scale
    given = numpy.resize(halves, X.shape)
    narrow, _ = run(generate(group, TARGET), group, [given])
    expected = numpy.clip(numpy.rint(given / scale) + 3, 0, 255)
    assert (numpy.rint(given / scale) != numpy.rint(given * (1 / scale))).any()
    numpy.testing.assert_array_equal(narrow, expected.astype("uint8"))


def boundaries(scale: numpy.float32) -> numpy.ndarray:
    """Quotients by a scale of about halves and integers, one unit in the last place around them."""
    middle = (numpy.arange(-520, 521) / 2).astype("float32") * scale
    up, down = (numpy.nextafter(middle, numpy.float32(to)) for to in (numpy.inf, -numpy.inf))
    random = numpy.random.default_rng(3).uniform(-300, 300, 8000).astype("float32") * scale
    special = numpy.array([0, -0.0, 1e-45, -1e-40, 3e38, -3e38, numpy.inf, -numpy.inf], "float32")
    return numpy.concatenate([middle, up, down, random, special])


@pytest.mark.parametrize(
    "scale", [0.3, 1 / 255, 0.2109064, 16 - 2.0**-20, -1.0000001e-6, 2.0**-100, 3e-37]
)
def test_quotients_are_those_of_a_division_without_one(scale: float):
    divisor = numpy.float32(scale)
    given = boundaries(divisor)
    values = (TensorInfo("float32", given.shape), TensorInfo("float32", ()))
    values += (TensorInfo("float32", given.shape),) * 2
    steps = (Node("Div", {}, (0, 1), (2,)), Node("Round", {}, (2,), (3,)))
    group = Group("quotient", values, 1, (False,), {1: numpy.array(divisor)}, steps, (3,))
    kernel = generate(group, TARGET)
    assert ("flowloom_quotient(" in kernel.text) == (scale != 3e-37)
    (found,) = run(kernel, group, [given])
    with numpy.errstate(over="ignore"):
        numpy.testing.assert_array_equal(found, numpy.rint(given / divisor))


@pytest.mark.parametrize(
    "scale",
    [0.3, 1 / 255, 0.2109064, -1.0000001e-6, 2.0**-100, 3e-37, 1e-45, 3e38, numpy.inf, 0.0],
)
def test_quotients_by_an_operand_of_one_number_are_those_of_a_division(scale: float):
    divisor = numpy.float32(scale)
    with numpy.errstate(over="ignore"):
        given = boundaries(divisor if numpy.isfinite(divisor) else numpy.float32(1))
    values = (TensorInfo("float32", given.shape), TensorInfo("float32", ()))
    values += (TensorInfo("float32", given.shape),) * 2
    steps = (Node("Div", {}, (0, 1), (2,)), Node("Round", {}, (2,), (3,)))
    group = Group("quotient", values, 2, (False, True), {}, steps, (3,))
    kernel = generate(group, TARGET)
    assert "flowloom_shared_quotient(" in kernel.text
    (found,) = run(kernel, group, [given, numpy.array(divisor)])
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_array_equal(found, numpy.rint(given / divisor))


def test_a_number_of_any_size_is_rounded_by_the_function():
    limits = numpy.iinfo("uint8")
    group = quantising("uint8", 0, limits.min, limits.max)
    first = group.operators[0]
    alone = Group(
        "round", group.values, 1, (False,), group.constants, (first,), tuple(first.outputs)
    )
    kernel = generate(alone, TARGET)
    assert "nearbyint" in kernel.text
    (found,) = run(kernel, alone, [X])
    numpy.testing.assert_array_equal(found, numpy.rint(X))
