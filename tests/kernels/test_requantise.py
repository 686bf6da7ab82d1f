"""Roundings written shorter: the same integers, ties and ends of the range among them."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building.kernel import build_kernel
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.requantise import requantised
from compiler.target.target import parse_cpu
from tests.kernels.harness import Array
from tests.kernels.template_cases import run_guarded

TYPES = {"uint8": 2, "int8": 3, "uint16": 4, "int16": 5}
X = numpy.array(
    [*numpy.arange(-1024, 1024) / 4, 1e9, -1e9, 3.4e38, -3.4e38, 65534.5, 65535.5, -32768.5, -0.0],
    "float32",
)


def quantising(dtype: str, zero: int, low: float, high: float, number: str = "float32") -> Group:
    """Round, add a zero point, clip and cast; and widen that again."""
    float_, whole = TensorInfo(number, X.shape), TensorInfo("int32", X.shape)
    scalars = [TensorInfo(number, ()), TensorInfo(number, ()), TensorInfo(number, ())]
    given = [numpy.array(n, number) for n in (zero, low, high)] + [numpy.array(zero, "int32")]
    results = [float_, float_, float_, TensorInfo(dtype, X.shape), whole, whole]
    values = (float_, *scalars, TensorInfo("int32", ()), *results, TensorInfo("float32", X.shape))
    operators = (
        Node("Round", {}, (0,), (5,)),
        Node("Add", {}, (5, 1), (6,)),
        Node("Clip", {}, (6, 2, 3), (7,)),
        Node("Cast", {"to": TYPES[dtype]}, (7,), (8,)),
        Node("Cast", {"to": 6}, (8,), (9,)),
        Node("Sub", {}, (9, 4), (10,)),
        Node("Cast", {"to": 1}, (10,), (11,)),
    )
    constants = dict(enumerate(given, 1))
    return Group("quantise", values, 1, (False,), constants, operators, (8, 11))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(list(TYPES)), st.integers(-130, 300))
def test_integers_are_those_of_the_plain_formula(dtype: str, zero: int) -> None:
    limits = numpy.iinfo(dtype)
    group = quantising(dtype, zero, limits.min, limits.max)
    assert [op.type for op in requantised(group).operators].count("Cast") < 4
    found = run(group)
    exact = numpy.rint(X.astype("float64")) + zero
    expected = numpy.clip(exact, limits.min, limits.max)
    numpy.testing.assert_array_equal(found[0], expected.astype(dtype))
    numpy.testing.assert_array_equal(found[1], (expected - zero).astype("float32"))


def quantising_by_operand(dtype: str, byte: str) -> Group:
    """The same, the zero point a byte that the kernel reads."""
    whole, scalar = TensorInfo("int32", X.shape), TensorInfo("float32", ())
    wide = TensorInfo("float32", X.shape)
    values = (wide, TensorInfo(byte, ()), scalar, scalar, TensorInfo("int32", ()), scalar)
    values += (wide, wide, wide, TensorInfo(dtype, X.shape), whole, whole, wide)
    operators = (
        Node("Cast", {"to": 6}, (1,), (4,)),
        Node("Cast", {"to": 1}, (1,), (5,)),
        Node("Round", {}, (0,), (6,)),
        Node("Add", {}, (6, 5), (7,)),
        Node("Clip", {}, (7, 2, 3), (8,)),
        Node("Cast", {"to": TYPES[dtype]}, (8,), (9,)),
        Node("Cast", {"to": 6}, (9,), (10,)),
        Node("Sub", {}, (10, 4), (11,)),
        Node("Cast", {"to": 1}, (11,), (12,)),
    )
    limits = numpy.iinfo(dtype)
    constants = {2: numpy.array(limits.min, "f4"), 3: numpy.array(limits.max, "f4")}
    return Group("quantise", values, 2, (False, True), constants, operators, (9, 12))


@pytest.mark.parametrize("byte", ["uint8", "int8"])
@pytest.mark.parametrize("dtype", list(TYPES))
def test_a_zero_point_may_be_an_operand(dtype: str, byte: str) -> None:
    group, limits = quantising_by_operand(dtype, byte), numpy.iinfo(dtype)
    assert [op.type for op in requantised(group).operators].count("Round") == 1
    spec = build_kernel(group, parse_cpu("cpu"))
    for zero in (0, 1, 117, numpy.iinfo(byte).min, numpy.iinfo(byte).max):
        found = run_guarded(spec, group, [X, numpy.array(zero, byte)], True)
        exact = numpy.rint(X.astype("float64")) + zero
        expected = numpy.clip(exact, limits.min, limits.max)
        numpy.testing.assert_array_equal(found[0], expected.astype(dtype))
        numpy.testing.assert_array_equal(found[1], (expected - zero).astype("float32"))


def run(group: Group) -> list[Array]:
    """The results of a group's kernel."""
    spec = build_kernel(group, parse_cpu("cpu"))
    return run_guarded(spec, group, [X], True)


@pytest.mark.parametrize(
    "group",
    [
        quantising("uint8", 3, 0, 254),
        quantising("uint8", 1 << 20, 0, 255),
        quantising("uint8", 0, 0, 255, "float64"),
    ],
    ids=["narrower", "far", "double"],
)
def test_what_is_no_plain_quantisation_stays(group: Group) -> None:
    assert requantised(group) is group
