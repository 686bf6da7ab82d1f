"""Checks of shapes that inference rules share; all raise ShapeMismatch with both shapes."""

from collections.abc import Sequence
from math import prod

from compiler.net.attributes import Mismatch, Shape
from compiler.net.node import ShapeMismatch, TypedNode


def listed(shape: Sequence[int]) -> str:
    """A shape as messages write it."""
    return str(list(shape))


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which all broadcast."""
    if all(len(shape) == len(shapes[0]) and shape == shapes[0] for shape in shapes[1:]):
        return shapes[0]
    rank = max(map(len, shapes))
    full = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result: list[int] = []
    for sizes in zip(*full, strict=True):
        first, *others = [size for size in sizes if size != 1] or [1]
        if any(size != first for size in others):
            raise ShapeMismatch(f"the shapes {' and '.join(map(listed, shapes))} do not broadcast")
        result.append(first)
    return tuple(result)


def fits_into(what: str, shape: Shape, target: Shape) -> None:
    """Check that a shape broadcasts to `target`, which stays the same."""
    tail = target[len(target) - len(shape) :]
    if len(shape) > len(target) or any(
        size not in (1, wanted) for size, wanted in zip(shape, tail, strict=True)
    ):
        raise ShapeMismatch(
            f"{what} has the shape {listed(shape)}, which does not broadcast to {listed(target)}"
        )


def has_shape(what: str, shape: Shape, wanted: Shape, because: str) -> None:
    """Check that a tensor has exactly a shape."""
    if shape != wanted:
        raise ShapeMismatch(
            f"{what} has the shape {listed(shape)} instead of {listed(wanted)}: {because}"
        )


def one_number(what: str, shape: Shape) -> None:
    """Check that a tensor is a scalar, or a vector of one element."""
    if shape not in ((), (1,)):
        raise ShapeMismatch(f"{what} has the shape {listed(shape)} instead of []: it is one number")


def has_rank(what: str, shape: Shape, least: int, most: int | None = None) -> None:
    """Check that a tensor has from `least` to `most` dimensions, or exactly `least`."""
    wanted = f"{least} or more" if most is None else f"{least}" if least == most else None
    if len(shape) < least or (most is not None and len(shape) > most):
        raise ShapeMismatch(
            f"{what} has the shape {listed(shape)}, {len(shape)} dimensions"
            f" instead of {wanted or f'{least} to {most}'}"
        )


def axis_in(axis: int, rank: int) -> int:
    """A non-negative axis; a scalar counts as a vector of one element."""
    size = max(rank, 1)
    if not -size <= axis < size:
        raise ShapeMismatch(f"axis {axis} is outside a tensor of {rank} dimensions")
    return axis % size


def axes_in(axes: Sequence[int], rank: int) -> list[int]:
    """Non-negative axes, none of which occurs twice."""
    normal = [axis_in(axis, rank) for axis in axes]
    if len(set(normal)) < len(normal):
        raise Mismatch(f"the axes {listed(axes)} of a tensor of {rank} dimensions repeat one")
    return normal


def without(shape: Shape, axis: int) -> Shape:
    """A shape without one axis."""
    return shape[:axis] + shape[axis + 1 :]


def same_count(before: Shape, after: Shape) -> None:
    """Check that two shapes have the same number of elements."""
    if prod(before) != prod(after):
        raise ShapeMismatch(
            f"the input of shape {listed(before)} has {prod(before)} elements,"
            f" the result of shape {listed(after)} has {prod(after)}"
        )


def same_shape(node: TypedNode) -> list[Shape]:
    """The rule of an operator whose result has its input's shape."""
    return [node.shape()]
