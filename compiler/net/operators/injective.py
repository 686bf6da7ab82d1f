"""Operators that move elements: each element of the result is one of an input."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from compiler.net.attributes import (
    Attribute,
    Mismatch,
    Shape,
    Shapes,
    axis_attribute,
    flag,
    integer,
    integers,
    one_each,
    one_of,
)
from compiler.net.facts import DERIVED, REPEATED, Facts
from compiler.net.maps import Algebra, Index, Map, Maps
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.gathers import (
    depth_of_one_hot,
    gather_elements_maps,
    gather_elements_shape,
    gather_maps,
    gather_nd_maps,
    gather_nd_shape,
    gather_shape,
    one_hot_shape,
)
from compiler.net.operators.pads import PAD
from compiler.net.operators.resize import RESIZE
from compiler.net.operators.shapes import (
    axes_in,
    axis_in,
    has_rank,
    has_shape,
    listed,
    without,
)
from compiler.net.spec import Kind, OpSpec, onnx_form, operator
from compiler.tensors.dtypes import ALL, INDICES, MOVABLE, WITHOUT_BFLOAT16


def _concat(node: TypedNode) -> list[Shape]:
    first = node.shape()
    has_rank("its input 0", first, 1)
    axis = axis_in(node["axis"], len(first))
    shapes = [value.shape for value in node.inputs if value is not None]
    for i, shape in enumerate(shapes):
        if len(shape) != len(first) or without(shape, axis) != without(first, axis):
            raise ShapeMismatch(
                f"its input {i} has the shape {listed(shape)}, which differs from {listed(first)}"
                f" in more than axis {axis}"
            )
    size = sum(shape[axis] for shape in shapes)
    return [(*first[:axis], size, *first[axis + 1 :])]


def _concat_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    """Each operand from where the one before ends; one without elements has no part."""
    axis = axis_in(node["axis"], len(shapes[0]))
    maps: list[Map] = []
    start = 0

    def part(operand: int, start: int) -> Map:
        return Map(operand, lambda _, i: [*i[:axis], i[axis] - start, *i[axis + 1 :]], partial=True)

    for operand in range(len(node.inputs)):
        if extent := node.shape(operand)[axis]:
            maps.append(part(operand, start))
            start += extent
    return [maps]


def _depth_to_space(node: TypedNode) -> list[Shape]:
    has_rank("its input", node.shape(), 4, 4)
    (batch, channels, height, width), block = node.shape(), node["blocksize"]
    if channels % block**2:
        raise ShapeMismatch(
            f"the {channels} channels of the input of shape {listed(node.shape())} are not a"
            f" multiple of {block} x {block}"
        )
    return [(batch, channels // block**2, height * block, width * block)]


def _depth_to_space_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    b = node["blocksize"]
    channels = shapes[0][1]
    column_row_depth = node["mode"] == "CRD"

    def at(_: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        n, c, h, w = i
        cell = h % b * b + w % b
        channel = c * (b * b) + cell if column_row_depth else cell * channels + c
        return [n, channel, h // b, w // b]

    return [[Map(0, at)]]


def _space_to_depth(node: TypedNode) -> list[Shape]:
    has_rank("its input", node.shape(), 4, 4)
    (batch, channels, height, width), block = node.shape(), node["blocksize"]
    if height % block or width % block:
        raise ShapeMismatch(
            f"the {height} x {width} positions of the input of shape {listed(node.shape())} are"
            f" not a multiple of {block} x {block}"
        )
    return [(batch, channels * block**2, height // block, width // block)]


def _space_to_depth_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    b = node["blocksize"]
    channels = node.shape()[1]

    def at(_: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        n, c, h, w = i
        cell = c // channels
        channel = c % channels
        return [n, channel, h * b + cell // b, w * b + cell % b]

    return [[Map(0, at)]]


def _reverse_sequence(node: TypedNode) -> list[Shape]:
    x = node.shape()
    time: int = node["time_axis"]
    batch: int = node["batch_axis"]
    has_rank("its input", x, 2)
    if (time, batch) not in ((0, 1), (1, 0)):
        raise Mismatch(f"its time_axis {time} and batch_axis {batch} must be 0 and 1, or 1 and 0")
    has_shape("sequence_lens", node.shape(1), (x[batch],), f"the input has the shape {listed(x)}")
    return [x]


def _reverse_sequence_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    time: int = node["time_axis"]
    batch: int = node["batch_axis"]
    steps = shapes[0][time]

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        length = algebra.length_at(1, [i[batch]], steps)
        index = list(i)
        index[time] = algebra.select(i[time] < length, length - 1 - i[time], i[time])
        return index

    return [[Map(0, at)]]


class TakenIndices(NamedTuple):
    """`size` indices of a dimension from `start` in steps; a `range` whose ends may be extents."""

    start: int
    step: int
    size: int

    @classmethod
    def of(cls, indices: range) -> "TakenIndices":
        """The indices of a range, in one form for equal ranges."""
        size = len(indices)
        return cls(indices.start if size else 0, indices.step if size > 1 else 1, size)

    @classmethod
    def between(cls, start: int, end: int, step: int = 1) -> "TakenIndices":
        """The indices from one up to, not including, another."""
        return cls(start, step, max(-((start - end) // step), 0))


def slice_range(size: int, start: int, end: int, step: int) -> TakenIndices:
    """The indices of a dimension that a slice takes; bounds outside are those of the dimension."""
    first = start + size if start < 0 else start
    last = end + size if end < 0 else end
    if step > 0:
        return TakenIndices.between(min(max(first, 0), size), min(max(last, 0), size), step)
    ends = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
    return TakenIndices.between(*ends, step)


def slice_of(taken: Sequence[TakenIndices]) -> dict[str, list[int]]:
    """The attributes of a Slice that takes these indices of each dimension."""
    return {
        "start": [max(part.start, 0) for part in taken],
        "step": [part.step if part.size > 1 else 1 for part in taken],
        "size": [part.size for part in taken],
    }


def _slice_bounds(node: TypedNode) -> dict[str, list[int]]:
    """Where each dimension of a Slice in ONNX's form begins, its step and its size."""
    shape = node.shape()
    starts = node.vector(1)
    ends = node.vector(2)
    given, steps = node.integers(3), node.integers(4)
    axes = axes_in(list(range(len(starts))) if given is None else given, len(shape))
    steps = [1] * len(starts) if steps is None else steps
    counts = {len(starts), len(ends), len(axes), len(steps)}
    if len(counts) > 1 or len(axes) > len(shape):
        raise ShapeMismatch(
            f"its starts {listed(starts)}, ends {listed(ends)}, axes {listed(axes)} and steps"
            f" {listed(steps)} differ in length, for the input of shape {listed(shape)}"
        )
    if 0 in steps:
        raise Mismatch(f"its steps {listed(steps)} have a 0")
    taken = [TakenIndices(0, 1, size) for size in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        taken[axis] = slice_range(shape[axis], start, end, step)
    return slice_of(taken)


def _slice(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    start, step, size = node["start"], node["step"], node["size"]
    if not len(shape) == len(start) == len(step) == len(size):
        raise ShapeMismatch(
            f"its start {start}, step {step} and size {size} have not one number a dimension of"
            f" the input of shape {listed(shape)}"
        )
    for extent, first, by, count in zip(shape, start, step, size, strict=True):
        last = first + by * (count - 1) if count else 0
        if not (by and 0 <= first <= extent - bool(count) and 0 <= last < max(extent, 1)):
            raise ShapeMismatch(
                f"it takes {count} elements from {first} in steps of {by}, of a dimension of"
                f" {extent} in the input of shape {listed(shape)}"
            )
    return [tuple(size)]


def _slice_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    start, step = node["start"], node["step"]

    def at(_: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        return [first + k * by for first, k, by in zip(start, i, step, strict=True)]

    return [[Map(0, at)]]


def _slice_operands(node: TypedNode) -> dict[str, list[int]]:
    """ONNX's bounds: an end before the first element counts from the last one."""
    start = node["start"]
    step = node["step"]
    shape = node.shape()
    ends = [first + by * n for first, by, n in zip(start, step, node["size"], strict=True)]
    last = [end if end >= 0 else -n - 1 for end, n in zip(ends, shape, strict=True)]
    return {"starts": start, "ends": last, "axes": list(range(len(shape))), "steps": step}


def split_sizes(size: int, parts: int) -> list[int]:
    """The sizes of equal parts, the last of which may be smaller."""
    length = -(-size // parts)
    return [length] * (parts - 1) + [size - length * (parts - 1)]


def _sizes_of_parts(node: TypedNode) -> dict[str, list[int]]:
    """The sizes that ONNX's operand lists, or those of equal parts."""
    shape = node.shape()
    sizes = node.integers(1)
    has_rank("its input", shape, 1)
    axis = axis_in(node["axis"], len(shape))
    parts: int = node["num_outputs"] or len(node.outputs)
    if sizes is not None and node["num_outputs"]:
        raise Mismatch("it has both the input split and the attribute num_outputs")
    return {"sizes": sizes or split_sizes(shape[axis], parts)}


def _split(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    sizes = node["sizes"]
    has_rank("its input", shape, 1)
    axis = axis_in(node["axis"], len(shape))
    parts = len(node.outputs)
    if len(sizes) != parts or min(sizes) < 0 or sum(sizes) != shape[axis]:
        raise ShapeMismatch(
            f"it splits dimension {axis} of the input of shape {listed(shape)} into"
            f" {parts} parts of {listed(sizes)} elements, whose sum must be {shape[axis]}"
        )
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def _split_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    axis = axis_in(node["axis"], len(node.shape()))
    starts = accumulate((shape[axis] for shape in shapes), initial=0)

    def part(start: int) -> Map:
        return Map(0, lambda _, i: [*i[:axis], i[axis] + start, *i[axis + 1 :]])

    return [[part(start)] for start, _ in zip(starts, shapes, strict=False)]


def _tile(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    repeats = node["repeats"]
    if len(repeats) != len(shape) or any(count < 0 for count in repeats):
        raise ShapeMismatch(
            f"it repeats the input of shape {listed(shape)} by {listed(repeats)}: that needs one"
            " number a dimension, 0 or more"
        )
    return [tuple(size * count for size, count in zip(shape, repeats, strict=True))]


def _tile_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    sizes = list(zip(node.shape(), shapes[0], strict=True))
    return [
        [Map(0, lambda _, i: [k if n == m else k % n for k, (n, m) in zip(i, sizes, strict=True)])]
    ]


def _transpose(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    perm: Sequence[int] = node["perm"]
    if sorted(perm) != list(range(len(shape))):
        raise ShapeMismatch(
            f"its perm {listed(perm)} is not a permutation of the dimensions of the input of shape"
            f" {listed(shape)}"
        )
    return [tuple(shape[axis] for axis in perm)]


def _transpose_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    rank = len(shapes[0])
    order: list[int] = list(node["perm"] or range(rank)[::-1])
    return [[Map(0, lambda _, i: [i[order.index(axis)] for axis in range(rank)])]]


def _trilu(node: TypedNode) -> list[Shape]:
    has_rank("its input", node.shape(), 2)
    return [node.shape()]


def _trilu_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    rows, columns = shapes[0][-2:]
    k = max(-rows - 1, min(node["k"], columns + 1))

    def keep(i: Sequence[Index]) -> Any:
        return i[-1] - i[-2] >= k if node["upper"] else i[-1] - i[-2] <= k

    return [[Map(0, lambda _, i: i, where=keep)]]


PARTS = frozenset({"Concat", "Slice", "Split"})
"""Operators whose maps keep every axis: results or operands are parts of a whole, and may be where
it is in memory, in any layout."""


def _reversed(shapes: Shapes) -> list[int]:
    return list(range(len(shapes[0] or ())))[::-1]


def _last_of_result(shapes: Shapes) -> int:
    return len(shapes[0] or ())


_KIND = Kind.INJECTIVE
_NEW_AXIS = Attribute("int", _last_of_result, rank=lambda shapes: _last_of_result(shapes) + 1)

INJECTIVE: dict[str, OpSpec] = {
    "Concat": operator(
        _KIND,
        "T* -> T",
        _concat,
        {"axis": axis_attribute()},
        maps=_concat_maps,
        facts=Facts(derived=True, concatenates=True),
        T=ALL,
    ),
    "DepthToSpace": operator(
        _KIND,
        "T -> T",
        _depth_to_space,
        {"blocksize": integer(required=True, least=1), "mode": one_of("DCR", "CRD")},
        maps=_depth_to_space_maps,
        T=ALL,
    ),
    "Gather": operator(
        _KIND,
        "T I -> T",
        gather_shape,
        {"axis": axis_attribute(0)},
        maps=gather_maps,
        facts=REPEATED,
        T=ALL,
        I=INDICES,
    ),
    "GatherElements": operator(
        _KIND,
        "T I -> T",
        gather_elements_shape,
        {"axis": axis_attribute(0)},
        maps=gather_elements_maps,
        facts=REPEATED,
        T=ALL,
        I=INDICES,
    ),
    "GatherND": operator(
        _KIND,
        "T int64 -> T",
        gather_nd_shape,
        {"batch_dims": integer(0, least=0)},
        maps=gather_nd_maps,
        facts=REPEATED,
        T=ALL,
    ),
    "OneHot": operator(
        _KIND,
        "I T -> T",
        one_hot_shape,
        {"axis": _NEW_AXIS, "depth": integer(required=True, least=0)},
        structural=(1,),
        onnx=onnx_form("I D T", {1: "depth"}, depth_of_one_hot, {"axis": _NEW_AXIS}),
        facts=Facts(exact=True, repeats=True),
        I=WITHOUT_BFLOAT16,
        D=WITHOUT_BFLOAT16,
        T=ALL - {"bfloat16"},
    ),
    "Pad": PAD,
    "Resize": RESIZE,
    "ReverseSequence": operator(
        _KIND,
        "T int64 -> T",
        _reverse_sequence,
        {"batch_axis": integer(1), "time_axis": integer(0)},
        maps=_reverse_sequence_maps,
        T=ALL - {"bfloat16"},
    ),
    "Slice": operator(
        _KIND,
        "T -> T",
        _slice,
        {"start": one_each(), "step": one_each(), "size": one_each(least=0)},
        maps=_slice_maps,
        onnx=onnx_form(
            "T I I I? I?",
            {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
            _slice_bounds,
            write=_slice_operands,
        ),
        facts=DERIVED,
        T=ALL,
        I=INDICES,
    ),
    "SpaceToDepth": operator(
        _KIND,
        "T -> T",
        _space_to_depth,
        {"blocksize": integer(required=True, least=1)},
        maps=_space_to_depth_maps,
        T=ALL,
    ),
    "Split": operator(
        _KIND,
        "T -> T*",
        _split,
        {"axis": axis_attribute(0), "sizes": one_each()},
        maps=_split_maps,
        onnx=onnx_form(
            "T int64?",
            {1: "split"},
            _sizes_of_parts,
            {"axis": axis_attribute(0), "num_outputs": integer(least=1)},
            lambda node: {"split": node["sizes"]},
        ),
        T=ALL,
    ),
    "Tile": operator(
        _KIND,
        "T -> T",
        _tile,
        {"repeats": one_each()},
        maps=_tile_maps,
        facts=REPEATED,
        onnx=onnx_form("T int64", {1: "repeats"}, lambda node: {"repeats": node.vector(1)}),
        T=ALL,
    ),
    "Transpose": operator(
        _KIND,
        "T -> T",
        _transpose,
        {"perm": integers(_reversed)},
        maps=_transpose_maps,
        facts=Facts(derived=True, permutes=True),
        T=MOVABLE,
    ),
    "Trilu": operator(
        _KIND,
        "T -> T",
        _trilu,
        {"k": integer(required=True), "upper": flag(1)},
        maps=_trilu_maps,
        onnx=onnx_form(
            "T int64?",
            {1: "k"},
            lambda node: {"k": node.scalar(1) if node.has(1) else 0},
            {"upper": flag(1)},
        ),
        facts=Facts(keeps_codes=False),  # zeros are no elements of the operand
        T=ALL,
    ),
}
"""The entries of this family, by operator."""
