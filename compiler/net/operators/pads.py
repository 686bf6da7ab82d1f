"""Pad: its shapes, and the elements that each padded axis repeats."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from compiler.net.attributes import Shape, one_each, one_of
from compiler.net.facts import DERIVED
from compiler.net.maps import Algebra, Index, Map, Maps
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import axes_in, has_shape, listed
from compiler.net.spec import Kind, onnx_form, operator
from compiler.tensors.dtypes import INDICES, MOVABLE


def _full_pads(node: TypedNode) -> dict[str, list[int]]:
    """The padding before each dimension and after each; ONNX lists those of some axes."""
    shape = node.shape()
    pads = node.vector(1)
    axes = node.integers(3)
    padded = list(range(len(shape))) if axes is None else axes_in(axes, len(shape))
    if len(pads) != 2 * len(padded):
        raise ShapeMismatch(
            f"its pads {listed(pads)} are {len(pads)} numbers instead of {2 * len(padded)} for the"
            f" input of shape {listed(shape)}"
        )
    full = [0] * (2 * len(shape))
    for i, axis in enumerate(padded):
        full[axis], full[axis + len(shape)] = pads[i], pads[i + len(padded)]
    return {"pads": full}


def _pad(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    value = node.input(1)
    rank = len(node.shape())
    has_shape("its attribute pads", (len(node["pads"]),), (2 * rank,), "two numbers a dimension")
    pads = list(zip(node["pads"][:rank], node["pads"][rank:], strict=True))
    for axis, (before, after) in enumerate(pads):
        size = shape[axis]
        where = f"dimension {axis} of the input of shape {listed(shape)}"
        if before + size + after < 0:
            raise ShapeMismatch(f"its pads {before} and {after} take more than {where} has")
        most = max(before, after)
        kept = max(size + min(before, 0) + min(after, 0), 0)
        if node["mode"] == "reflect" and most > max(kept - 1, 0):
            raise ShapeMismatch(
                f"it reflects {most} elements of {where}, which has {max(kept - 1, 0)} to reflect"
            )
        if node["mode"] != "constant" and most > 0 and kept == 0:
            raise ShapeMismatch(f"it repeats elements of {where}, which has none")
    if value is not None:
        has_shape("its constant", value.shape, (1,) * len(value.shape), "it is a scalar")
    return [tuple(b + size + a for size, (b, a) in zip(shape, pads, strict=True))]


def pad_positions(mode: str, before: int, extent: int, size: int) -> NDArray[np.int64]:
    """The source position of each position of an axis that is padded by its own elements.

    What negative pads take away is gone before the rest is repeated.
    """
    after = size - before - extent
    gone = max(0, -before)
    kept = extent + min(before, 0) + min(after, 0)
    places = np.arange(size) - max(0, before)
    if mode == "edge":
        return gone + np.clip(places, 0, kept - 1)
    if mode == "wrap":
        return gone + places % kept
    period = max(1, 2 * (kept - 1))
    folded = places % period
    return gone + np.where(folded < kept, folded, period - folded)


LONGEST_TABLE = 1 << 16
"""Most positions of a padded axis that are written into code, where reading them vectorises."""


def _pad_position(
    algebra: Algebra, mode: str, before: int, extent: int, size: int, position: Index
) -> Index:
    """An element of `pad_positions`, read from a table or, if that is long, computed."""
    if size == extent and not before:
        return position
    if size <= LONGEST_TABLE or size + 2 * extent > 2**31 - 1:
        return algebra.entry(pad_positions(mode, before, extent, size), position)
    after = size - before - extent
    gone = max(0, -before)
    kept = extent + min(before, 0) + min(after, 0)
    if mode == "edge":
        inside = algebra.larger(position - max(0, before), 0)
        return gone + algebra.smaller(inside, kept - 1)
    period = kept if mode == "wrap" else max(1, 2 * (kept - 1))
    folded = (position + -max(0, before) % period) % period
    return gone + (folded if mode == "wrap" else algebra.smaller(folded, period - folded))


def _maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    x, (full,), mode = node.shape(), shapes, node["mode"]
    before = node["pads"][: len(x)]

    def from_constant(_: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        return [position - b for position, b in zip(i, before, strict=True)]

    def from_itself(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        axes = zip(before, x, full, i, strict=True)
        return [_pad_position(algebra, mode, *axis) for axis in axes]

    if mode != "constant":
        return [[Map(0, from_itself)]]
    return [[Map(0, from_constant, partial=True, fill=1 if node.input(1) else None)]]


_MODE = one_of("constant", "reflect", "edge", "wrap")

PAD = operator(
    Kind.INJECTIVE,
    "T T? -> T",
    _pad,
    {"mode": _MODE, "pads": one_each()},
    maps=_maps,
    onnx=onnx_form("T int64 T? I?", {1: "pads", 3: "axes"}, _full_pads, {"mode": _MODE}),
    facts=DERIVED,
    T=MOVABLE,
    I=INDICES,
)
"""The entry of the table."""
