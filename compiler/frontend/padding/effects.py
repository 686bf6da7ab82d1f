"""The effect of padding on an operator: the axes of its results, and the needs of its operands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.frontend.padding.axes import ONE, Axes, Axis, Factor
from compiler.frontend.padding.pairs import OperatorPair, Pair

LOWEST, HIGHEST, NAN = -np.inf, np.inf, np.nan


@dataclass(frozen=True, slots=True)
class Mask:
    """An operand whose padding along an axis must be a neutral element."""

    index: int
    axis: int
    fill: float


@dataclass(frozen=True, slots=True)
class Wrap:
    """An operand with indices into a padded axis of the first: they count from the run's end.

    Where an index is a tuple, `position` is that of the axis in it.
    """

    index: int
    axis: int
    position: int | None = None


@dataclass(frozen=True, slots=True)
class MeanCount:
    """A mean along an axis of the first operand, which must divide by the extent."""

    axis: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """A slice of an axis of the first operand that begins at a distance from the run's end."""

    axis: int
    distance: int
    count: int
    step: int
    index: int = 0


Need = Mask | Wrap | MeanCount | Tail


@dataclass(frozen=True, slots=True)
class Effect:
    """The axes of each result, in order, and what the operator needs."""

    axes: Sequence[Axes]
    needs: Sequence[Need] = ()


Rule = Callable[[OperatorPair], Effect]
"""The effect of padding on an operator; raises CannotPad where there is none."""


def unified(pair: OperatorPair, *axes: Axis) -> Axis:
    """The axis along which operands have the same padding; those of one element are repeated."""
    longer = [axis for axis in axes if axis != ONE]
    if any(axis != longer[0] for axis in longer):
        raise pair.refusal("combines dimensions that are padded in different ways", *longer)
    return longer[0] if longer else ONE


def broadcast_axes(pair: OperatorPair, *operands: Axes) -> Axes:
    """The axes of a result to whose shape operands are broadcast."""
    rank = max(map(len, operands), default=0)
    full = [(*[ONE] * (rank - len(axes)), *axes) for axes in operands]
    return tuple(unified(pair, *axes) for axes in zip(*full, strict=True))


def resized(pair: OperatorPair, before: Axis, after: Axis) -> Axis:
    """An axis of which a result has a leading part, or as much more as its size says."""
    if before.sizes == after.sizes:
        return before
    if not before.single:
        raise pair.refusal("changes the size of dimensions that a reshape merged", before)
    name = before.factors[0].name if before.factors else ""
    return Axis.of([Factor(*after.sizes, name)])


def resized_each(pair: OperatorPair, output: Pair) -> Axes:
    """The axes of a result, each of which has elements of the same axis of the first operand."""
    axes = pair.operand(0).axes
    return tuple(resized(pair, a, b) for a, b in zip(axes, output.axes, strict=True))


def expect_whole(pair: OperatorPair, axes: Sequence[int], index: int = 0) -> None:
    """Raise CannotPad if an operator needs all of an axis that is padded."""
    data = pair.operand(index)
    if needed := [data.axes[axis] for axis in axes if data.axes[axis].open]:
        raise pair.refusal("needs all of a padded axis", *needed)


def expect_single(pair: OperatorPair, axis: Axis) -> None:
    """Raise CannotPad if positions along an axis are not those in the smaller graph."""
    if not axis.single:
        raise pair.refusal("counts positions along dimensions that a reshape merged", axis)


def fill_of(pair: OperatorPair, index: int) -> float:
    """The one number in an optional operand, such as a zero point; 0 if it is left out."""
    value = pair.given(index)
    if value is None:
        return 0.0
    content = value.large.array
    if content is None or not content.size or (content != content.flat[0]).any():
        raise pair.refusal(
            f"fills a padded axis with {value.large.name!r}, which is computed by the run"
        )
    return float(content.flat[0])
