"""The entry of Resize."""

from fractions import Fraction
from functools import cache
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.net.attributes import (
    Attribute,
    Mismatch,
    Shape,
    axes_attribute,
    flag,
    number,
    one_each,
    one_of,
)
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import axes_in, listed
from compiler.net.spec import Kind, onnx_form, operator
from compiler.tensors.dtypes import ALL
from compiler.tensors.extents import Undecided
from compiler.tensors.substitution import is_symbolic

EXACT_IN_FLOAT32 = 1 << 24
"""Whole numbers up to this one are exact in float32, and so are halves, quarters of them."""

LARGEST_ROUNDED = 1 << 16
"""The largest size whose products by a scale are compared with those by a fraction."""

DENOMINATORS = (1 << 6, 1 << 12)
"""The largest denominators of fractions that are tried for a scale."""

LARGEST_PRODUCT = (1 << 31) - 1
"""The largest number that kernels compute with sizes."""


def scaled_size(size: int, scale: float) -> int:
    """A dimension times a scale in float32, truncated, like onnxruntime and PyTorch."""
    if is_symbolic(size):
        factor, most = _factor_of(scale)
        if size > most:
            raise Undecided(f"{size} times {scale} is rounded")
        return size * factor.numerator // factor.denominator
    return int(np.float32(size) * np.float32(scale))


@cache
def _factor_of(scale: float) -> tuple[Fraction, int]:
    """A factor, and the largest size of those whose multiples by it are truncated as in float32.

    It is the scale if that is a fraction of few digits; 0.3 is 3 / 10, as float32 rounds products.
    """
    exact = Fraction(float(np.float32(scale)))
    sizes = np.arange(LARGEST_ROUNDED + 1)
    products = (sizes.astype(np.float32) * np.float32(scale)).astype(np.int64)

    def most_of(factor: Fraction) -> int:
        unequal = np.flatnonzero(sizes * factor.numerator // factor.denominator != products)
        agreeing = int(unequal[0]) - 1 if unequal.size else LARGEST_ROUNDED
        return min(agreeing, LARGEST_PRODUCT // max(1, factor.numerator))

    near = [exact.limit_denominator(largest) for largest in DENOMINATORS]
    known = [(EXACT_IN_FLOAT32 // exact.numerator, exact)]
    most, factor = max([*known, *((most_of(own), own) for own in near)], key=lambda pair: pair[0])
    return factor, most


def _check_length(what: str, values: list[float], axes: list[int], shape: Shape) -> None:
    if len(values) != len(axes):
        raise ShapeMismatch(
            f"its {what} {values} are {len(values)} numbers instead of {len(axes)} for the input"
            f" of shape {listed(shape)}"
        )


def _by_scales(shape: Shape, scales: list[float], axes: list[int]) -> Shape:
    _check_length("scales", scales, axes, shape)
    if not all(0 < scale < float("inf") for scale in scales):
        raise Mismatch(f"its scales {scales} must be positive numbers")
    result = list(shape)
    for axis, scale in zip(axes, scales, strict=True):
        result[axis] = scaled_size(shape[axis], scale)
    return tuple(result)


def _by_sizes(shape: Shape, sizes: list[int], axes: list[int], policy: str) -> Shape:
    _check_length("sizes", [*sizes], axes, shape)
    if any(size < 0 for size in sizes):
        raise Mismatch(f"its sizes {sizes} must not be negative")
    result = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        result[axis] = size
    if policy == "stretch":
        return tuple(result)
    ratios = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True) if shape[axis]]
    scale = (min if policy == "not_larger" else max)(ratios, default=1.0)
    for axis in axes:
        result[axis] = floor(shape[axis] * scale + 0.5)
    return tuple(result)


def _numbers_of_operands(node: TypedNode) -> dict[str, list[float] | list[int]]:
    """The region, scales and sizes as lists, which are empty if they are left out or not read."""
    roi, scales = node.known(1), node.known(2)
    crop = node["coordinate_transformation_mode"] == "tf_crop_and_resize"
    return {
        "roi": [] if roi is None or not crop else roi.astype(np.float32).reshape(-1).tolist(),
        "scales": [] if scales is None else scales.reshape(-1).tolist(),
        "sizes": node.integers(3) or [],
    }


def _operands_of_numbers(node: TypedNode) -> dict[str, NDArray[Any]]:
    """The lists as operands; ONNX has either scales or sizes."""
    floats = {name: np.array(node[name], np.float32) for name in ("roi", "scales") if node[name]}
    return floats | ({"sizes": np.array(node["sizes"], np.int64)} if node["sizes"] else {})


def _check_roi(node: TypedNode, axes: list[int]) -> None:
    count = len(node["roi"])
    if node["coordinate_transformation_mode"] != "tf_crop_and_resize":
        return
    if count != 2 * len(axes):
        raise ShapeMismatch(
            f"its region has {count} numbers instead of {2 * len(axes)} for the input of shape"
            f" {listed(node.shape())}"
        )


def _resize(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    axes = axes_in(node["axes"], len(shape))
    _check_roi(node, axes)
    scales, sizes = node["scales"], node["sizes"]
    if bool(scales) == bool(sizes):
        raise Mismatch("it needs either scales or sizes, and has both or neither")
    if scales:
        result = _by_scales(shape, scales, axes)
    else:
        result = _by_sizes(shape, sizes, axes, node["keep_aspect_ratio_policy"])
    if 0 in shape and 0 not in result:
        raise ShapeMismatch(f"it makes {listed(result)} of the input of shape {listed(shape)}")
    return [result]


COORDINATE_MODES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    "tf_crop_and_resize",
)
"""The modes of every version; the first with a region has one more."""

_ATTRIBUTES = {
    "antialias": flag(0),
    "axes": axes_attribute(lambda shapes: list(range(len(shapes[0] or ())))),
    "coordinate_transformation_mode": one_of(*COORDINATE_MODES),
    "cubic_coeff_a": number(-0.75),
    "exclude_outside": flag(0),
    "extrapolation_value": number(0.0),
    "keep_aspect_ratio_policy": one_of("stretch", "not_larger", "not_smaller"),
    "mode": one_of("nearest", "linear", "cubic"),
    "nearest_mode": one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
}

RESIZE = operator(
    Kind.INJECTIVE,
    "T -> T",
    _resize,
    {
        **_ATTRIBUTES,
        "roi": Attribute("floats", required=True),
        "scales": Attribute("floats", required=True),
        "sizes": one_each(),
    },
    facts=Facts(repeats=True),
    onnx=onnx_form(
        "T R? float32? int64?",
        {1: "roi", 2: "scales", 3: "sizes"},
        _numbers_of_operands,
        _ATTRIBUTES,
        _operands_of_numbers,
    ),
    T=ALL,
    R=frozenset({"float16", "float32", "float64"}),
)
"""The entry; a region is read by tf_crop_and_resize alone."""
