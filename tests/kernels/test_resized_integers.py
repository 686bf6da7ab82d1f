"""Interpolated integers are those of exact arithmetic with fractions, rounded to even at ties.

The thirds and sixths of scales such as 1.5 and 3 have no float: where rounding errors decide a tie,
ONNX's reference gives now one neighbour, now the other.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.frontend.interpreter import evaluate_node

Array = NDArray[Any]
HALF = Fraction(1, 2)
MODES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")


def _coordinate(mode: str, i: int, extent: int, size: int, scale: Fraction) -> Fraction:
    length = scale * extent
    match mode:
        case "asymmetric":
            return i / scale
        case "align_corners":
            return i * (extent - 1) / (length - 1) if length > 1 else Fraction(0)
        case "pytorch_half_pixel" if size == 1:
            return Fraction(0)
        case "half_pixel_symmetric":
            return Fraction(extent, 2) * (1 - size / length) + (i + HALF) / scale - HALF
        case _:
            return (i + HALF) / scale - HALF


def _weight(distance: Fraction, cubic: bool) -> Fraction:
    d, a = abs(distance), Fraction(-3, 4)
    if not cubic:
        return max(Fraction(0), 1 - d)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else Fraction(0)


def _resized(x: Array, axis: int, scale: float, mode: str, cubic: bool) -> Array:
    """One axis of an array of fractions, resized."""
    extent, exact = x.shape[axis], Fraction(scale)
    size, rows = floor(np.float32(extent) * np.float32(scale)), list[Any]()
    for i in range(size):
        at = _coordinate(mode, i, extent, size, exact)
        taps = range(floor(at) - 1, floor(at) + 3)
        parts = [
            np.take(x, min(max(tap, 0), extent - 1), axis) * _weight(tap - at, cubic)
            for tap in taps
        ]
        rows.append(sum(parts[1:], parts[0]))
    return np.stack(rows, axis)


def _rounded(x: Fraction, dtype: Any) -> int:
    limits = np.iinfo(dtype)
    return min(max(round(x), int(limits.min)), int(limits.max))  # Python rounds ties to even


def exact(x: Array, scales: Sequence[float], mode: str, cubic: bool) -> Array:
    """The result of Resize by rational arithmetic."""
    found: Array = np.array([Fraction(int(v)) for v in x.reshape(-1)], object).reshape(x.shape)
    for axis, scale in enumerate(scales):
        found = found if scale == 1 else _resized(found, axis, scale, mode, cubic)
    whole = [_rounded(v, x.dtype) for v in found.reshape(-1).tolist()]
    return np.array(whole, x.dtype).reshape(found.shape)


def compiled(x: Array, scales: Sequence[float], mode: str, cubic: bool) -> tuple[Array, Array]:
    """The results of a kernel and of the interpreter."""
    attributes = {"mode": "cubic" if cubic else "linear", "coordinate_transformation_mode": mode}
    factors = np.array(scales, np.float32)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "s"], ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(factors, "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    module = compiler.compile(model, budget=0, semantics="onnx")
    (interpreted,) = evaluate_node("Resize", [x, None, factors], attributes)
    assert interpreted is not None
    return module.run({"x": x})["y"], interpreted


@st.composite
def cases(draw: st.DrawFn) -> tuple[Array, list[float], str, bool]:
    """An image of integers, scales whose thirds make ties, a mode, and whether it is cubic."""
    dtype = draw(st.sampled_from([np.int8, np.uint8, np.int32]))
    limits = np.iinfo(np.uint8 if dtype is np.uint8 else np.int8)
    shape = draw(st.tuples(st.integers(2, 6), st.integers(2, 6)))
    seed = draw(st.integers(0, 2**32 - 1))
    x = np.random.default_rng(seed).integers(limits.min, limits.max, shape, endpoint=True)
    scale = st.sampled_from([0.5, 0.75, 1.0, 1.25, 1.5, 3.0])
    return (
        x.astype(dtype),
        [draw(scale), draw(scale)],
        draw(st.sampled_from(MODES)),
        draw(st.booleans()),
    )


@settings(max_examples=20, deadline=None)
@given(cases())
def test_integers_are_rounded_as_fractions(case: tuple[Array, list[float], str, bool]):
    wanted = exact(*case)
    for found in compiled(*case):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("values", "scale", "mode", "cubic"),
    [
        ([111, 27, 180, 9, 251, 66], 1.5, "asymmetric", True),
        ([-40, 13, -27, 50, 0, -1], 3.0, "pytorch_half_pixel", True),
        ([0, 1, 0, 3, 2, 2**30 + 1], 1.5, "half_pixel", False),
    ],
)
def test_ties_of_long_rows(values: list[int], scale: float, mode: str, cubic: bool):
    rng = np.random.default_rng(4)
    x = np.concatenate([np.array(values), rng.integers(-99, 99, 300)]).astype(np.int32)[None]
    wanted = exact(x, [1.0, scale], mode, cubic)
    for found in compiled(x, [1.0, scale], mode, cubic):
        np.testing.assert_array_equal(found, wanted)


def test_integers_that_are_beyond_ties_are_not_moved():
    """Of int64 the errors of interpolation are larger than the distance to a tie."""
    x = np.array([[[2**52 + 1, 2**52 + 1, -(2**45) - 1, -(2**45) - 1]]], np.int64)
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    infos = [helper.make_tensor_value_info(n, TensorProto.INT64, None) for n in "xy"]
    infos[0] = helper.make_tensor_value_info("x", TensorProto.INT64, x.shape)
    scales = numpy_helper.from_array(np.array([1, 1, 2], np.float32), "scales")
    model = helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:], [scales]))
    results = compiler.compile(model, target="cpu").run({"x": x})["y"].ravel()
    assert results[[0, 1, 2, 5, 6, 7]].tolist() == [*[2**52 + 1] * 3, *[-(2**45) - 1] * 3]
