"""Hypothesis generators of operators that move, index and resample elements."""

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.tensors.dtypes import ELEMENT_BYTES
from tests.operator_cases import FLOATS, Array, Case, Draw, dtypes

ANY = tuple(dtype for dtype in ELEMENT_BYTES if not dtype.startswith("float8"))
"""The dtypes that all of these operators take; of float8s ONNX has some operators only."""


def _factors(d: Draw, size: int) -> list[int]:
    """A shape of so many elements."""
    sizes: list[int] = []
    while size > 1 and d.integer(0, 3):
        factor = d.one(*(n for n in range(2, size + 1) if size % n == 0))
        sizes.append(factor)
        size //= factor
    return [*sizes, size]


def views(d: Draw) -> Case:
    """Reshape, Flatten, Squeeze, Unsqueeze, Expand and Transpose."""
    op_type = d.one("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Transpose")
    shape = d.shape()
    x, rank = d.array(shape, d.one(*ANY)), len(shape)
    match op_type:
        case "Reshape":
            target = _factors(d, x.size)
            if x.size and d.flag():
                target[d.integer(0, len(target) - 1)] = -1
            return Case(op_type, [x, d.integral(target)], {"allowzero": int(0 in target)})
        case "Flatten":
            return Case(op_type, [x], {"axis": d.integer(-rank, rank)} if rank else {"axis": 0})
        case "Squeeze":
            axes = [a - d.one(0, rank) for a, n in enumerate(shape) if n == 1 and d.flag()]
            return Case(op_type, [x, d.integral(axes)] if axes else [x])
        case "Unsqueeze":
            axes = sorted({d.integer(0, rank + 1), rank})
            return Case(op_type, [x, d.integral(axes)])
        case "Expand":
            return Case(op_type, [d.array(d.narrower(shape), x.dtype.name), d.integral(shape)])
        case _:
            order = d.random.permutation(rank).tolist()
            return Case(op_type, [x], {"perm": order} if d.flag() and rank else {})


def parts(d: Draw) -> Case:
    """Concat, Split, Slice and Tile."""
    op_type, shape = d.one("Concat", "Split", "Slice", "Tile"), d.shape(1)
    dtype, axis = d.one(*ANY), d.integer(-len(shape), len(shape) - 1)
    x = d.array(shape, dtype)
    if op_type == "Tile":
        return Case(op_type, [x, d.integral(d.integers(len(shape), 0, 3))])
    if op_type == "Slice":
        return _slice(d, x)
    at = axis % len(shape)
    if op_type == "Concat":
        others = [(*shape[:at], d.integer(0, 3), *shape[at + 1 :]) for _ in range(d.integer(0, 3))]
        return Case(op_type, [x, *(d.array(s, dtype) for s in others)], {"axis": axis})
    count = d.integer(1, max(shape[at], 1))
    cuts = sorted(d.integers(count - 1, 0, shape[at]))
    sizes = np.diff([0, *cuts, shape[at]])
    if d.flag():
        return Case(op_type, [x, d.integral(sizes)], {"axis": axis}, count)
    return Case(op_type, [x], {"axis": axis, "num_outputs": count}, count)


def _slice(d: Draw, x: Array) -> Case:
    axes = [a - d.one(0, x.ndim) for a in range(x.ndim) if d.flag()]
    bounds = [d.integral(d.integers(len(axes), -6, 6)) for _ in range(2)]
    far = d.flag() and len(axes)
    if far:
        bounds[1][0] = d.one(-(2**63), 2**63 - 1, 2**31 - 1, -(2**31))
    steps = d.integral([d.one(-2, -1, 1, 2) for _ in axes])
    return Case("Slice", [x, *bounds, d.integral(axes), steps])


def blocks(d: Draw) -> Case:
    """DepthToSpace, SpaceToDepth, Trilu and ReverseSequence."""
    op_type = d.one("DepthToSpace", "SpaceToDepth", "Trilu", "ReverseSequence")
    dtype, b = d.one(*dtypes(op_type)), d.integer(1, 3)
    n, c, h, w = d.integers(4, 1, 3)
    match op_type:
        case "DepthToSpace":
            mode = {"mode": d.one("DCR", "CRD")} if d.flag() else {}
            return Case(op_type, [d.array((n, c * b * b, h, w), dtype)], {"blocksize": b, **mode})
        case "SpaceToDepth":
            return Case(op_type, [d.array((n, c, h * b, w * b), dtype)], {"blocksize": b})
        case "Trilu":
            x, k = d.array(d.shape(2), dtype), np.array(d.integer(-5, 5))
            upper = {"upper": d.integer(0, 1)} if d.flag() else {}
            return Case(op_type, [x, k] if d.flag() else [x], upper)
        case _:
            time = d.integer(0, 1)
            x = d.array(d.shape(2, empty=False), dtype)
            lengths = d.integral(d.integers(x.shape[1 - time], 1, x.shape[time]))
            axes = {"time_axis": time, "batch_axis": 1 - time}
            return Case(op_type, [x, lengths], axes)


def pad(d: Draw) -> Case:
    """Pad in every mode, negative pads included for the constant."""
    mode, dtype = d.one("constant", "constant", "edge", "reflect", "wrap"), d.one(*ANY)
    shape = d.shape(1, empty=mode == "constant")
    x = d.array(shape, dtype)
    axes = [a for a in range(len(shape)) if d.flag()] or [0]
    axes = axes if d.flag() else list(range(len(shape)))
    least = -1 if mode == "constant" else 0
    pads = [d.integer(least if shape[a] > 1 else 0, max(shape[a] - 1, 0)) for a in axes * 2]
    value = d.array((), dtype) if mode == "constant" and d.flag() else None
    inputs = [x, d.integral(pads), value, d.integral([a - d.one(0, len(shape)) for a in axes])]
    if axes == list(range(len(shape))) and d.flag():
        inputs = inputs[: 2 + (value is not None)]
    return Case("Pad", inputs, {"mode": mode})


def _indices(d: Draw, shape: tuple[int, ...], extent: int) -> Array:
    return d.random.integers(-extent, extent, shape).astype(d.one(np.int32, np.int64))


def gather(d: Draw) -> Case:
    """Gather, GatherElements and GatherND."""
    op_type = d.one("Gather", "GatherElements", "GatherND")
    shape = d.shape(1, empty=False)
    x, axis = d.array(shape, d.one(*ANY)), d.integer(-len(shape), len(shape) - 1)
    extent = shape[axis]
    if op_type == "Gather":
        return Case(op_type, [x, _indices(d, d.shape(0, 2), extent)], {"axis": axis})
    if op_type == "GatherElements":
        at = axis % len(shape)
        places = tuple(d.integer(1, n if i != at else 4) for i, n in enumerate(shape))
        return Case(op_type, [x, _indices(d, places, extent)], {"axis": axis})
    batch = d.integer(0, len(shape) - 1)
    indices = _tuples(d, shape[batch:], (*shape[:batch], *d.shape(0, 2)))
    if indices.ndim <= batch:
        batch = 0
        indices = _tuples(d, shape, (2,))
    return Case(op_type, [x, indices], {"batch_dims": batch} if batch else {})


def _tuples(d: Draw, shape: tuple[int, ...], lead: tuple[int, ...]) -> Array:
    depth = d.integer(1, len(shape))
    columns = [d.random.integers(-n, n, lead) for n in shape[:depth]]
    return np.stack(columns, -1).astype(np.int64)


def scatter(d: Draw) -> Case:
    """ScatterElements and ScatterND, with repeated indices where the order does not matter."""
    op_type, shape = d.one("ScatterElements", "ScatterND"), d.shape(1, empty=False)
    dtype = d.one(*ANY)
    kinds = ("none", "add", "mul", "max", "min") if dtype != "bool" else ("none",)
    x, kind = d.array(shape, dtype), d.one(*kinds)
    attributes: dict[str, Any] = {"reduction": kind} if kind != "none" or d.flag() else {}
    if op_type == "ScatterND":
        indices = _tuples(d, shape, d.shape(1, 2))
        if kind == "none":
            indices = indices.reshape(-1, indices.shape[-1])[:1]
        places = (*indices.shape[:-1], *shape[indices.shape[-1] :])
        return Case(op_type, [x, indices, d.array(places, dtype)], attributes)
    axis = d.integer(0, len(shape) - 1)
    places = tuple(d.integer(1, n) for n in shape)
    indices = _indices(d, places, shape[axis])
    if kind == "none":
        order = np.argsort(
            d.random.random((*places[:axis], shape[axis], *places[axis + 1 :])), axis
        )
        indices = np.take(order, range(places[axis]), axis)
    attributes["axis"] = axis - d.one(0, len(shape))
    return Case(op_type, [x, indices, d.array(places, dtype)], attributes)


def selection(d: Draw) -> Case:
    """OneHot, TopK and CumSum."""
    op_type = d.one("OneHot", "TopK", "CumSum")
    if op_type == "OneHot":
        indices = d.array(d.shape(1, 3), d.one("int64", "int32", "float32", "uint8"))
        depth = np.array(d.integer(1, 6), d.one(np.int64, np.int32, np.float32))
        values = d.array((2,), d.one(*ANY))
        axis = {"axis": d.integer(-indices.ndim - 1, indices.ndim)} if d.flag() else {}
        return Case(op_type, [indices, depth, values], axis)
    shape = d.shape(1, empty=False)
    axis = d.integer(-len(shape), len(shape) - 1)
    x = d.array(shape, d.one(*dtypes(op_type)))
    if op_type == "TopK":
        k = d.integral([d.integer(1, shape[axis])])
        largest = {"largest": d.integer(0, 1)} if d.flag() else {}
        return Case(op_type, [x, k], {"axis": axis, **largest}, 2)
    flags = {n: d.integer(0, 1) for n in ("exclusive", "reverse") if d.flag()}
    return Case(op_type, [x, np.array(axis)], flags)


COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
)  # fmt: skip


def resize(d: Draw) -> Case:
    """Resize in every mode, by scales or by sizes."""
    mode, rank = d.one("nearest", "linear", "cubic"), d.integer(1, 4)
    rank = 4 if mode == "cubic" else rank
    shape = (*[1, 2][: max(rank - 2, 0)], *d.integers(min(rank, 2), 2, 6))
    first = max(rank - 2, 0)
    attributes: dict[str, Any] = {"mode": mode}
    attributes["coordinate_transformation_mode"] = d.one(*COORDINATES)
    dtype = d.one(*FLOATS, "uint8", "int8", "int32")
    match mode:
        case "nearest":
            kinds = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
            attributes["nearest_mode"] = d.one(*kinds)
        case _:
            attributes |= {"antialias": 1} if d.flag() else {}
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": -0.5} if d.flag() else {}
        attributes |= {"exclude_outside": 1} if d.flag() else {}
    if mode != "cubic" and rank == 4 and d.flag():
        return _cropped(d, shape, attributes, dtype)
    x = d.array(shape, dtype, dtype in ("uint8", "int8"))
    target = [n if a < first else d.integer(1, 12) for a, n in enumerate(shape)]
    scales = [1.0 if a < first else d.one(0.5, 0.6, 1.0, 1.5, 2.0, 2.3, 3.0) for a in range(rank)]
    if d.flag():
        return Case("Resize", [x, None, np.array(scales, np.float32)], attributes)
    if first and d.flag():
        attributes["axes"] = list(range(first, rank))
        target = target[first:]
        attributes |= _policy(d)
    return Case("Resize", [x, None, None, d.integral(target)], attributes)


def _cropped(d: Draw, shape: tuple[int, ...], attributes: dict[str, Any], dtype: str) -> Case:
    """Resize of a region of the image that may reach beyond it."""
    attributes["coordinate_transformation_mode"] = "tf_crop_and_resize"
    attributes.pop("antialias", None)
    attributes |= {"extrapolation_value": 2.75} if d.flag() else {}
    starts = [d.one(-0.25, 0.0, 0.25) for _ in range(2)]
    ends = [d.one(0.5, 1.0, 1.25) for _ in range(2)]
    roi = np.array([0, 0, *starts, 1, 1, *ends], np.float32)
    x, target = d.array(shape, dtype), d.integral([*shape[:2], *d.integers(2, 1, 9)])
    return Case("Resize", [x, roi, None, target], attributes)


def _policy(d: Draw) -> dict[str, str]:
    policy = d.one("stretch", "not_larger", "not_smaller")
    return {"keep_aspect_ratio_policy": policy} if d.flag() else {}


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    "views": views,
    "parts": parts,
    "blocks": blocks,
    "pad": pad,
    "gather": gather,
    "scatter": scatter,
    "top_k_one_hot_cumsum": selection,
    "resize": resize,
}
"""The generators of this module by name."""
