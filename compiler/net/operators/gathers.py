"""Rules of operators that read or write at indices."""

from collections.abc import Sequence

from compiler.net.attributes import Shape
from compiler.net.maps import Algebra, Index, Map, Maps
from compiler.net.operators.shapes import (
    axis_in,
    has_rank,
    has_shape,
    listed,
    without,
)
from compiler.net.spec import ShapeMismatch, Use


def gather_shape(use: Use) -> list[Shape]:
    """Slices of an axis, in the shape of the indices."""
    x = use.shape()
    has_rank("its input", x, 1)
    axis = axis_in(use["axis"], len(x))
    return [(*x[:axis], *use.shape(1), *x[axis + 1 :])]


def gather_maps(use: Use, shapes: Sequence[Shape]) -> Maps:
    """An index of the axis, which the indices hold."""
    x = use.shape()
    rank = len(use.shape(1))
    axis = axis_in(use["axis"], len(x))

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        chosen = algebra.index_at(1, i[axis : axis + rank], x[axis])
        return [*i[:axis], chosen, *i[axis + rank :]]

    return [[Map(0, at)]]


def gather_elements_maps(use: Use, shapes: Sequence[Shape]) -> Maps:
    """An index of the axis, which the same element of the indices holds."""
    x = use.shape()
    axis = axis_in(use["axis"], len(x))

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        return [*i[:axis], algebra.index_at(1, i, x[axis]), *i[axis + 1 :]]

    return [[Map(0, at)]]


def gather_nd_maps(use: Use, shapes: Sequence[Shape]) -> Maps:
    """The first indices after those of the batch, which a tuple holds."""
    x, indices = use.shape(), use.shape(1)
    batch: int = use["batch_dims"]
    depth = indices[-1]
    lead = len(indices) - 1

    def at(algebra: Algebra, i: Sequence[Index]) -> Sequence[Index]:
        chosen = [algebra.index_at(1, [*i[:lead], k], x[batch + k]) for k in range(depth)]
        return [*i[:batch], *chosen, *i[lead:]]

    return [[Map(0, at)]]


def _elements_fit(use: Use, x: Shape) -> None:
    """Check indices that choose single elements along an axis."""
    has_rank("its input", x, 1)
    indices = use.shape(1)
    axis = axis_in(use["axis"], len(x))
    has_rank("its indices", indices, len(x), len(x))
    pairs = zip(without(indices, axis), without(x, axis), strict=True)
    if any(size > limit for size, limit in pairs):
        raise ShapeMismatch(
            f"its indices have the shape {listed(indices)}, which exceeds the input of shape"
            f" {listed(x)} in more than axis {axis}"
        )


def gather_elements_shape(use: Use) -> list[Shape]:
    """One element for each index."""
    _elements_fit(use, use.shape())
    return [use.shape(1)]


def scatter_elements_shape(use: Use) -> list[Shape]:
    """The input, with an update at each index."""
    _elements_fit(use, use.shape())
    has_shape("the tensor of updates", use.shape(2), use.shape(1), "the indices have that shape")
    return [use.shape()]


def gather_nd_shape(use: Use) -> list[Shape]:
    """A block for each tuple of indices."""
    x = use.shape()
    indices = use.shape(1)
    batch = use["batch_dims"]
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


def scatter_nd_shape(use: Use) -> list[Shape]:
    """The input, with a block at each tuple of indices."""
    x, indices = use.shape(), use.shape(1)
    has_rank("its input", x, 1)
    has_rank("its indices", indices, 1)
    _check_tuples("scatters", indices, x, x)
    wanted = (*indices[:-1], *x[indices[-1] :])
    why = f"the input has the shape {listed(x)}, the indices {listed(indices)}"
    has_shape("the tensor of updates", use.shape(2), wanted, why)
    return [x]


def one_hot_shape(use: Use) -> list[Shape]:
    """A new axis in which one element is on."""
    indices, values = use.shape(), use.shape(1)
    has_shape("its values", values, (2,), "they are the values of off and on")
    axis = axis_in(use["axis"], len(indices) + 1)
    return [(*indices[:axis], use["depth"], *indices[axis:])]


def depth_of_one_hot(use: Use) -> dict[str, int]:
    """The length of the new axis, a number of any type in ONNX."""
    depth = use.array(1)
    if depth.shape not in ((), (1,)) or int(depth.reshape(())) < 0:
        raise ShapeMismatch(f"its depth {depth} is not a number, or is negative")
    return {"depth": int(depth.reshape(()))}
