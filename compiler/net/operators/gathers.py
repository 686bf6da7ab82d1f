"""Rules of operators that read or write at indices."""

from collections.abc import Sequence

from compiler.net.attributes import Shape
from compiler.net.maps import Algebra, Index, Map, Maps
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import (
    axis_in,
    has_rank,
    has_shape,
    listed,
    without,
)


def gather_shape(node: TypedNode) -> list[Shape]:
    """Slices of an axis, in the shape of the indices."""
    x = node.shape()
    has_rank("its input", x, 1)
    axis = axis_in(node["axis"], len(x))
    return [(*x[:axis], *node.shape(1), *x[axis + 1 :])]


def gather_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    """An index of the axis, which the indices hold."""
    x = node.shape()
    rank = len(node.shape(1))
    axis = axis_in(node["axis"], len(x))

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        chosen = algebra.index_at(1, i[axis : axis + rank], x[axis])
        return [*i[:axis], chosen, *i[axis + rank :]]

    return [[Map(0, at)]]


def gather_elements_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    """An index of the axis, which the same element of the indices holds."""
    x = node.shape()
    axis = axis_in(node["axis"], len(x))

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        return [*i[:axis], algebra.index_at(1, i, x[axis]), *i[axis + 1 :]]

    return [[Map(0, at)]]


def gather_nd_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    """The first indices after those of the batch, which a tuple holds."""
    x, indices = node.shape(), node.shape(1)
    batch: int = node["batch_dims"]
    depth = indices[-1]
    lead = len(indices) - 1

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        chosen = [algebra.index_at(1, [*i[:lead], k], x[batch + k]) for k in range(depth)]
        return [*i[:batch], *chosen, *i[lead:]]

    return [[Map(0, at)]]


def _elements_fit(node: TypedNode, x: Shape) -> None:
    """Check indices that choose single elements along an axis."""
    has_rank("its input", x, 1)
    indices = node.shape(1)
    axis = axis_in(node["axis"], len(x))
    has_rank("its indices", indices, len(x), len(x))
    pairs = zip(without(indices, axis), without(x, axis), strict=True)
    if any(size > limit for size, limit in pairs):
        raise ShapeMismatch(
            f"its indices have the shape {listed(indices)}, which exceeds the input of shape"
            f" {listed(x)} in more than axis {axis}"
        )


def gather_elements_shape(node: TypedNode) -> list[Shape]:
    """One element for each index."""
    _elements_fit(node, node.shape())
    return [node.shape(1)]


def scatter_elements_shape(node: TypedNode) -> list[Shape]:
    """The input, with an update at each index."""
    _elements_fit(node, node.shape())
    has_shape("the tensor of updates", node.shape(2), node.shape(1), "the indices have that shape")
    return [node.shape()]


def gather_nd_shape(node: TypedNode) -> list[Shape]:
    """A block for each tuple of indices."""
    x = node.shape()
    indices = node.shape(1)
    batch = node["batch_dims"]
    has_rank("its input", x, 1)
    has_rank("its indices", indices, 1)
    if batch >= min(len(x), len(indices)) or x[:batch] != indices[:batch]:
        raise ShapeMismatch(
            f"its indices have the shape {listed(indices)}, the input {listed(x)}: the first"
            f" {batch} dimensions (batch_dims) must be equal, and not all"
        )
    _check_tuples("gathers", indices, x[batch:], x)
    return [(*indices[:-1], *x[batch + indices[-1] :])]


def _check_tuples(what: str, indices: Shape, block: Shape, x: Shape) -> None:
    if not 1 <= indices[-1] <= len(block):
        raise ShapeMismatch(
            f"it {what} by {indices[-1]} indices a tuple (its indices have the shape"
            f" {listed(indices)}), the input of shape {listed(x)} takes 1 to {len(block)}"
        )


def scatter_nd_shape(node: TypedNode) -> list[Shape]:
    """The input, with a block at each tuple of indices."""
    x, indices = node.shape(), node.shape(1)
    has_rank("its input", x, 1)
    has_rank("its indices", indices, 1)
    _check_tuples("scatters", indices, x, x)
    wanted = (*indices[:-1], *x[indices[-1] :])
    why = f"the input has the shape {listed(x)}, the indices {listed(indices)}"
    has_shape("the tensor of updates", node.shape(2), wanted, why)
    return [x]


def one_hot_shape(node: TypedNode) -> list[Shape]:
    """A new axis in which one element is on."""
    indices, values = node.shape(), node.shape(1)
    has_shape("its values", values, (2,), "they are the values of off and on")
    axis = axis_in(node["axis"], len(indices) + 1)
    return [(*indices[:axis], node["depth"], *indices[axis:])]


def depth_of_one_hot(node: TypedNode) -> dict[str, int]:
    """The length of the new axis, a number of any type in ONNX."""
    depth = node.array(1)
    if depth.shape not in ((), (1,)) or int(depth.reshape(())) < 0:
        raise ShapeMismatch(f"its depth {depth} is not a number, or is negative")
    return {"depth": int(depth.reshape(()))}
