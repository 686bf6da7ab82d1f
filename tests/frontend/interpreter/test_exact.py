"""Integers, and numbers out of range, against Python's numbers."""

from collections.abc import Callable
from math import trunc

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from compiler.frontend.interpreter import evaluate_node
from tests.operator_cases import Array

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def one(op_type: str, *inputs: Array | None, **attributes: object) -> Array:
    """The only result of an operator."""
    (result,) = evaluate_node(op_type, inputs, attributes)
    assert result is not None
    return result


def wrapped(value: int, dtype: str) -> int:
    """An integer as a type of fewer bits keeps it."""
    bits = np.dtype(dtype).itemsize * 8
    low = value % (1 << bits)
    return low - (1 << bits) if dtype[0] == "i" and low >> (bits - 1) else low


def _divided(a: int, b: int) -> int:
    """A quotient towards zero; 0 for the divisor 0."""
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: int, b: int) -> int:
    if b >= 0:
        return a**b
    return _divided(1, a**-b)


EXACT: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _divided,
    "Mod": lambda a, b: a % b if b else 0,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op_type", EXACT)
def test_integer_arithmetic_wraps_and_truncates(op_type: str, dtype: str):
    limits = np.iinfo(dtype)
    numbers = {
        limits.min,
        limits.max,
        limits.max - 1,
        0,
        1,
        2,
        3,
        7,
        *([-1, -2, -7] * (limits.min < 0)),
    }
    x = np.array(sorted(numbers), dtype)
    got = one(op_type, x[:, None], x)
    expected = [[wrapped(EXACT[op_type](a, b), dtype) for b in x.tolist()] for a in x.tolist()]
    assert got.dtype == dtype
    assert got.tolist() == expected


def test_the_remainder_of_c_has_the_sign_of_the_dividend():
    x = np.array([-7, -1, 0, 5], np.int32)
    got = one("Mod", x[:, None], np.array([-3, 0, 3], np.int32), fmod=1)
    assert got.tolist() == [[-1, 0, -1], [-1, 0, -1], [0, 0, 0], [2, 0, 2]]


def test_integer_powers():
    x, y = np.array([-3, -1, 0, 1, 2], np.int32), np.array([-3, -2, 0, 1, 5], np.int64)
    for a, row in zip(x.tolist(), one("Pow", x[:, None], y).tolist(), strict=True):
        assert row == [0 if a == 0 and b < 0 else _power(a, b) for b in y.tolist()]


def test_powers_of_infinity():
    x = np.array([-np.inf, np.inf, -0.0], np.float32)
    assert one("Pow", x, np.array(0.5, np.float32)).tolist() == [np.inf, np.inf, 0]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_a_shift_by_the_width_leaves_nothing(dtype: str):
    bits = np.dtype(dtype).itemsize * 8
    x, counts = np.array(5, dtype), np.array([0, 1, bits - 1, bits, bits + 1], dtype)
    numbers: list[int] = counts.tolist()
    shifted = one("BitShift", x, counts, direction="LEFT").tolist()
    assert shifted == [wrapped(5 << n, dtype) for n in numbers]
    assert one("BitShift", x, counts, direction="RIGHT").tolist() == [5 >> n for n in numbers]


def cast(x: Array, dtype: str, **attributes: object) -> Array:
    """x as another type."""
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    return one("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)), **attributes)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_truncate_and_wrap(dtype: str):
    numbers = [2.9, -2.9, 255.0, 256.5, -129.0, 70000.0]
    got = cast(np.array(numbers, np.float32), dtype)
    assert got.tolist() == [wrapped(trunc(x), dtype) for x in numbers]


def test_floats_beyond_every_integer_are_the_least():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
    for dtype in ("int32", "int64"):
        assert cast(x, dtype).tolist() == [np.iinfo(dtype).min] * 5
    for dtype in ("int8", "uint8", "int16", "uint16"):
        assert not cast(x, dtype).any()


def test_nan_is_true():
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        x = np.array([np.nan, 0, -0.0, 1e-7], np.float32).astype(dtype)
        assert cast(x, "bool").tolist() == [True, False, False, True]


def test_bfloat16_rounds_to_even():
    x = np.array([0x3F808000, 0x3F818000, 0x3F808001], np.uint32).view(np.float32)
    assert cast(x, "bfloat16").view(np.uint16).tolist() == [0x3F80, 0x3F82, 0x3F81]


def test_float8_saturates_unless_it_may_not():
    x = np.array([1e9, -np.inf, 448, np.nan], np.float32)
    kept = cast(x, "float8_e4m3fn").astype(np.float32)
    lost = cast(x, "float8_e4m3fn", saturate=0).astype(np.float32)
    np.testing.assert_array_equal(kept, [448, -448, 448, np.nan])
    np.testing.assert_array_equal(lost, [np.nan, np.nan, 448, np.nan])


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_counts_as_the_largest(largest: int):
    x = np.array([3, np.nan, 2, 9, np.nan], np.float32)
    values, places = evaluate_node("TopK", [x, np.array([5])], {"largest": largest}, [True, True])
    assert places is not None
    assert places.tolist() == ([1, 4, 3, 0, 2] if largest else [2, 0, 3, 1, 4])
    np.testing.assert_array_equal(values, x[places])


def test_nan_is_no_extreme_position_unless_it_is_first():
    x = np.array([[3, np.nan, 9, 9], [np.nan, 1, 9, 9], [-np.inf, -np.inf, np.nan, -np.inf]])
    assert one("ArgMax", x, axis=1, keepdims=0).tolist() == [2, 0, 0]
    assert one("ArgMax", x, axis=1, keepdims=0, select_last_index=1).tolist() == [3, 0, 3]
    assert one("ArgMax", np.zeros((0, 0, 5), np.float32), axis=1).shape == (0, 1, 5)


def test_indices_outside_are_kept_inside():
    x = np.arange(5)
    assert one("Gather", x, np.array([9, -9, -1, 4])).tolist() == [4, 0, 4, 4]
    assert one("GatherElements", x, np.array([9, -9])).tolist() == [4, 0]
    assert one("GatherND", x, np.array([[1 << 33]])).tolist() == [4]
    assert one("ScatterND", x, np.array([[1 << 33]]), np.array([7])).tolist() == [0, 1, 2, 3, 7]
    assert one("OneHot", np.array([5, -6]), np.array(5), np.array([0, 1])).sum() == 0
    lengths = np.array([1 << 40, -3])
    got = one("ReverseSequence", np.arange(4).reshape(2, 2), lengths, time_axis=0, batch_axis=1)
    assert got.tolist() == [[2, 1], [0, 3]]


def test_integers_are_resized_to_the_nearest_and_saturate():
    x = np.array([[0, 255, 0, 255, 255, 0]], np.uint8)
    got = one("Resize", x[None], None, None, np.array([1, 1, 12]), mode="cubic")
    exact = one(
        "Resize", x[None].astype(np.float64), None, None, np.array([1, 1, 12]), mode="cubic"
    )
    assert exact.min() < 0
    assert exact.max() > 255
    np.testing.assert_array_equal(got, np.clip(np.rint(exact), 0, 255))


def test_pads_count_with_count_include_pad_but_what_ceil_mode_adds_does_not():
    x = np.full((1, 1, 4), 6.0, np.float32)
    options = {"kernel_shape": [3], "strides": [2], "count_include_pad": 1, "ceil_mode": 1}
    assert one("AveragePool", x, pads=[1, 0], **options).tolist() == [[[4, 6]]]
    assert one("AveragePool", x, pads=[0, 1], **options).tolist() == [[[6, 4]]]
    assert one("AveragePool", x, pads=[0, 0], **options).tolist() == [[[6, 6]]]
