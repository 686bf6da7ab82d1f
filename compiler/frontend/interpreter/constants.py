"""Operators on constants only: their result shapes depend on data, or they have no kernel."""

from collections.abc import Callable, Sequence
from functools import cache
from math import ceil, prod
from typing import Any

import numpy as np
import onnx

from compiler.frontend.interpreter.suppression import non_maximum_suppression
from compiler.net.attributes import Attribute, Mismatch, Shape
from compiler.net.evaluation.registry import Array
from compiler.net.evaluation.rounding import converted_array, double
from compiler.net.facts import Facts
from compiler.net.node import Evaluation, TypedNode
from compiler.net.operators.shapes import axis_in
from compiler.net.spec import Kind, OpSpec

ON_CONSTANTS: dict[str, Evaluation] = {}
"""The evaluation of each operator of ONNX without kernels."""

Operations = Callable[[TypedNode, Sequence[Shape]], int]

_OPERATIONS: dict[str, Operations] = {}
"""How many operations the evaluation takes, where they grow faster than its operands."""


def is_constant_operator(op_type: str) -> bool:
    """Whether an operator without kernels can be evaluated."""
    return op_type in ON_CONSTANTS


def on_constants(*names: str, work: Operations | None = None) -> Callable[[Evaluation], Evaluation]:
    """Register the evaluation of operators of ONNX that have no kernel; see `Facts.work`."""

    def register(function: Evaluation) -> Evaluation:
        ON_CONSTANTS.update(dict.fromkeys(names, function))
        if work is not None:
            _OPERATIONS.update(dict.fromkeys(names, work))
        return function

    return register


def constant_operator(op_type: str) -> OpSpec:
    """The entry of an operator without kernels; raises KeyError for an unknown operator."""
    return OpSpec(
        kind=Kind.OPAQUE,
        inputs=(),
        outputs=(),
        types={},
        rule=_no_kernel,
        attributes=_attributes_of(op_type),
        evaluate=ON_CONSTANTS[op_type],
        facts=Facts(work=_OPERATIONS.get(op_type)),
    )


@cache
def _attributes_of(op_type: str) -> dict[str, Attribute]:
    """The attributes of the schemas; one that only old opsets have is None where it is not set."""
    newest: Any = onnx.defs.get_schema(op_type)
    opsets = [v for v in range(1, newest.since_version) if onnx.defs.has(op_type, v, "")]
    schemas: list[Any] = [*(onnx.defs.get_schema(op_type, v) for v in opsets), newest]
    attributes = {name: Attribute("string") for schema in schemas for name in schema.attributes}
    for name, attribute in newest.attributes.items():
        default: Any = attribute.default_value
        value = onnx.helper.get_attribute_value(default) if default.name else None
        value = value.decode() if isinstance(value, bytes) else value
        attributes[name] = Attribute("string", value)
    return attributes


def _no_kernel(node: TypedNode) -> list[Shape]:
    raise Mismatch(f"there is no kernel for {node.type}")


_CONSTANTS = [*onnx.defs.get_schema("Constant").attributes]


@on_constants("Constant")
def evaluate_constant(node: TypedNode) -> Array:
    """The tensor in the operator's only attribute."""
    given = [(name, node[name]) for name in _CONSTANTS if node[name] is not None]
    if not given:
        raise Mismatch(f"it has none of the attributes {', '.join(_CONSTANTS)}")
    name, value = given[0]
    if name.startswith("value_float"):
        return np.array(value, node.dtype_of(onnx.TensorProto.FLOAT))
    if name.startswith("value_int"):
        return np.array(value, np.int64)
    if name.startswith("value_string"):
        return np.array(value, object)
    return np.asarray(value)


@on_constants("ConstantOfShape")
def evaluate_constant_of_shape(node: TypedNode) -> Array:
    """One value broadcast to a shape, without a copy for each element."""
    value = np.zeros(1, np.float32) if node["value"] is None else node["value"]
    return np.broadcast_to(value.reshape(()), tuple(node.integers(0) or ()))


@on_constants("Range")
def evaluate_range(node: TypedNode) -> Array:
    """Numbers from a start, by a step, up to an exclusive limit."""
    start, limit, delta = (node.array(i).reshape(()) for i in range(3))
    exact = [double(array).item() for array in (start, limit, delta)]
    count = max(0, ceil((exact[1] - exact[0]) / exact[2]))
    steps = np.arange(count, dtype=np.float64 if isinstance(exact[0], float) else np.int64)
    return converted_array(np.asarray(exact[0] + steps * exact[2]), start.dtype)


@on_constants("NonZero")
def evaluate_non_zero(node: TypedNode) -> Array:
    """The indices of all elements that are not zero, as a row for each axis."""
    return non_zero(node.array(0))


def non_zero(x: Array) -> Array:
    """The result of NonZero; a scalar has no axes, so its one index has none either."""
    found = np.array(np.nonzero(np.atleast_1d(x)), np.int64)
    return found if x.ndim else found[:0]


@on_constants("Compress")
def evaluate_compress(node: TypedNode) -> Array:
    """The slices along an axis, or the elements, whose condition is true."""
    return compressed(node.array(0), node.array(1), node["axis"])


def compressed(x: Array, condition: Array, axis: int | None = None) -> Array:
    """The result of Compress; a condition of any rank counts as flat, as onnxruntime reads it."""
    if axis is None:
        x = x.reshape(-1)
        axis = 0
    return np.compress(condition.reshape(-1)[: x.shape[axis_in(axis, x.ndim)]], x, axis)


def _sorting_work(node: TypedNode, results: Sequence[Shape]) -> int:
    """Comparisons, each of which takes a few operations; texts and rows take more."""
    elements = prod(node.shape())
    return 8 * elements * elements.bit_length()


@on_constants("Unique", work=_sorting_work)
def evaluate_unique(node: TypedNode) -> list[Array]:
    """Distinct elements or slices: sorted, or as they occur; first index, inverse and counts.

    As in numpy, to which the ONNX text points, NaN is one element, and equals none in a slice.
    """
    axis = node["axis"]
    x = node.array(0)
    numbers = double(x)
    texts = None
    if x.dtype.kind in "OUS":  # numpy has no slices of objects in order
        texts, numbers = np.unique(x.reshape(-1), return_inverse=True)
        numbers = numbers.reshape(x.shape)
    unique = np.unique(numbers, True, True, True, axis=axis)
    values, first, inverse, counts = unique
    inverse = inverse.reshape(-1)
    if not node["sorted"]:
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, axis or 0)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    others = [array.astype(np.int64) for array in (first, inverse, counts)]
    values = converted_array(values, x.dtype) if texts is None else texts[values]
    return [values, *others][: len(node.outputs)]


def _suppression_work(node: TypedNode, results: Sequence[Shape]) -> int:
    """Each box of a class is compared with those that are kept, at most its limit."""
    boxes = node.shape(1)[-1]
    classes = prod(node.shape(1)[:-1])
    limit = int(node.array(2).reshape(-1)[0]) if node.has(2) and node.array(2).size else 0
    return 16 * classes * boxes * max(0, min(limit, boxes))


@on_constants("NonMaxSuppression", work=_suppression_work)
def evaluate_non_max_suppression(node: TypedNode) -> Array:
    """Rows (batch, class, box) of the boxes that do not overlap a better one too much."""
    limits = [node.array(i) if node.has(i) else None for i in (2, 3, 4)]
    centred = node["center_point_box"]
    return non_maximum_suppression(node.array(0), node.array(1), *limits, center_point_box=centred)[
        0
    ]


@on_constants("Det", work=lambda node, results: prod(node.shape()) * node.shape()[-1])
def evaluate_determinant(node: TypedNode) -> Array:
    """The determinant of each matrix."""
    return converted_array(np.asarray(np.linalg.det(double(node.array(0)))), node.array(0).dtype)


_BLOCK = 512
"""The rows and columns that are computed at once, in float64: of large matrices only the result
takes memory."""


def _mel(frequency: float) -> float:
    return 2595 * np.log10(1 + np.float64(frequency) / 700)


@on_constants("MelWeightMatrix")
def evaluate_mel_weight_matrix(node: TypedNode) -> Array:
    """Triangular filters, evenly spaced in mel, as a matrix [spectrum bins, filters]."""
    bands, length = (int(node.array(i).reshape(())) for i in range(2))
    rate, low, high = (node.array(i).reshape(()).item() for i in range(2, 5))
    first, last = _mel(low), _mel(high)
    weights = np.empty((max(0, length // 2 + 1), bands), node.dtype_of(node["output_datatype"]))
    if not weights.size:
        return weights
    for band in range(0, bands, _BLOCK):
        numbers = np.arange(band, min(band + _BLOCK, bands) + 2)
        hertz = 700 * (10 ** ((first + numbers * ((last - first) / (bands + 2))) / 2595) - 1)
        edges = np.floor((length + 1) * hertz / rate).astype(np.int64)
        for bin in range(0, len(weights), _BLOCK):
            part = weights[bin : bin + _BLOCK, band : band + _BLOCK]
            part[...] = converted_array(_triangles(bin + np.arange(len(part)), edges), part.dtype)
    return weights


def _triangles(bins: Array, edges: Array) -> Array:
    """The weight of each bin in the bands that begin, peak and end at three edges in turn."""
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = bins[:, None]
    rising = (bins - left) / np.maximum(centre - left, 1)
    falling = (right - bins) / np.maximum(right - centre, 1)
    rising = np.where((bins >= left) & (bins < centre), rising, 0)
    weights = rising + np.where((bins >= centre) & (bins < right), falling, 0)
    return np.where(bins == centre, 1.0, weights)


@on_constants("TensorScatter")
def evaluate_tensor_scatter(node: TypedNode) -> Array:
    """A cache with an update written from an index of each batch entry on."""
    axis = node["axis"]
    cache, update = (np.moveaxis(node.array(i), axis, 1) for i in (0, 1))
    batch, size = cache.shape[:2]
    first = node.array(2) if node.has(2) else np.zeros(batch, np.int64)
    positions = first[:, None] + np.arange(int(update.shape[1]))
    if node["mode"] == "circular":
        positions %= size
    result = cache.copy()
    result[np.arange(batch)[:, None], positions] = update
    return np.ascontiguousarray(np.moveaxis(result, 1, axis))


@on_constants("OptionalHasElement")
def evaluate_has_element(node: TypedNode) -> Array:
    """Whether an optional holds a tensor."""
    return np.asarray(node.has(0))


@on_constants("OptionalGetElement")
def evaluate_get_element(node: TypedNode) -> Array:
    """The tensor that an optional holds."""
    return node.array(0)


@on_constants("StringConcat")
def evaluate_string_concat(node: TypedNode) -> Array:
    """Strings appended, broadcast."""
    text = np.char.add(node.array(0).astype(str), node.array(1).astype(str))
    return np.asarray(text).astype(object)


@on_constants("BitCast")
def evaluate_bit_cast(node: TypedNode) -> Array:
    """The same bits as another element type of the same size."""
    array = np.ascontiguousarray(node.array(0)).view(node.dtype_of(node["to"]))
    return array.reshape(node.shape())


@on_constants("MaxRoiPool")
def evaluate_max_region_pool(node: TypedNode) -> Array:
    """The maximum of the pixels of each bin of each region, 0 of an empty one.

    A region is [image, left, top, right, bottom], rounded to pixels, of which both ends belong to
    it; neighbouring bins share the pixels on their border.
    """
    x = node.array(0)
    regions = node.array(1).astype(np.float32)
    bins = node["pooled_shape"]
    scale = np.float32(node["spatial_scale"])
    if x.ndim != 4 or regions.ndim != 2 or regions.shape[1] != 5:
        raise ValueError(
            f"regions {regions.shape} of images {x.shape}, not [regions, 5] and 4 axes"
        )
    result = np.zeros((len(regions), x.shape[1], *bins), x.dtype)
    for row, (image, *ends) in zip(result, regions, strict=True):
        if not 0 <= image < len(x):
            raise ValueError(f"a region of image {image:g} of {len(x)}")
        left, top, right, bottom = (_rounded(end * scale) for end in ends)
        rows = _bins(top, bottom, bins[0], x.shape[2])
        columns = _bins(left, right, bins[1], x.shape[3])
        row[...] = _largest(_largest(x[int(image)], rows, 1), columns, 2)
    return result


def _largest(x: Array, parts: Sequence[slice], axis: int) -> Array:
    """The maximum of each part along an axis, 0 of an empty one."""
    moved = np.moveaxis(x, axis, 0)
    result = np.zeros((len(parts), *moved.shape[1:]), x.dtype)
    for row, part in zip(result, parts, strict=True):
        if part.start < part.stop:
            moved[part].max(0, out=row)
    return np.moveaxis(result, 0, axis)


def _rounded(value: np.float32) -> int:
    """The nearest integer, halves away from zero, as C rounds them."""
    return int(np.copysign(np.floor(np.abs(value) + np.float32(0.5)), value))


def _bins(first: int, last: int, count: int, size: int) -> list[slice]:
    """The pixels of each bin of a region along an axis, inside the image."""
    length = np.float32(max(last - first + 1, 1)) / np.float32(count)
    starts = [int(np.floor(np.float32(i) * length)) + first for i in range(count)]
    ends = [int(np.ceil(np.float32(i + 1) * length)) + first for i in range(count)]
    clipped = (np.clip([start, end], 0, size) for start, end in zip(starts, ends, strict=True))
    return [slice(int(start), int(end)) for start, end in clipped]
