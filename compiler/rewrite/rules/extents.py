"""Conditions on shapes that the guards of several families share; they work on symbols, too."""

from collections.abc import Sequence
from typing import Any

from compiler.rewrite.patterns import Bindings, Computed, Tensor, Unknown
from compiler.rewrite.rule import Case, Condition, equal

Extents = Sequence[Any]


def all_but(shape: Extents, axis: int) -> tuple[Any, ...]:
    """The extents along the other axes."""
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


def same_but(left: Extents, right: Extents, axis: int) -> Sequence[Condition]:
    """The conditions that two tensors differ along one axis only, as those of a Concat do."""
    if len(left) != len(right) or not -len(left) <= axis < len(left):
        return (False,)
    return equal(all_but(left, axis), all_but(right, axis))


def all_are(number: int, values: Extents) -> Sequence[Condition]:
    """The conditions that all of some values are one number."""
    return [value == number for value in values]


def per_channel(shape: Extents, channels: Any, rank: int) -> Sequence[Condition]:
    """The conditions that a tensor has one number for each channel of an image of some rank."""
    missing = rank - len(shape)
    if missing not in (0, 1):
        return (False,)
    return equal((*(1,) * missing, *shape), (1, channels, *(1,) * (rank - 2)))


def broadcasts_to(shape: Extents, target: Extents) -> Sequence[Condition]:
    """The conditions that a tensor has one number, and no more axes than another."""
    return all_are(1, shape) if len(shape) <= len(target) else (False,)


def axis_of(tensor: Tensor, back: int) -> Computed:
    """The axis of a tensor that is `back` from its end: 1 is the last."""

    def of(bindings: Bindings) -> int:
        return len(bindings.shape(tensor)) - back

    return of


def pointwise(bindings: Bindings, weight: Tensor, window: str = "") -> Sequence[Condition]:
    """The conditions that a convolution, with a window of some name, maps each pixel by itself."""
    strides, pads = (Unknown(f"{window} {attribute}".strip()) for attribute in ("strides", "pads"))
    return [
        *all_are(1, bindings.shape(weight)[2:]),
        *all_are(1, bindings.value(strides)),
        *all_are(0, bindings.value(pads)),
    ]


def windows(*names: str, spatial: int) -> dict[str, int]:
    """How many numbers each attribute of some windows over images has; the first has no name."""
    counts = {"strides": spatial, "pads": 2 * spatial, "dilations": spatial}
    return {f"{name} {attribute}".strip(): n for name in names for attribute, n in counts.items()}


IMAGES = tuple(Case(rank=2 + spatial, numbers=windows("", spatial=spatial)) for spatial in (1, 2))
"""Images of one and two spatial axes."""
