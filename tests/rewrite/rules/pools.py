"""The meaning of pooling in proofs, with given windows and with any."""

from collections.abc import Callable, Sequence
from typing import Any

import z3

from tests.rewrite.rules.denotations import DENOTATIONS, denotes, integer, ratio
from tests.rewrite.rules.divisions import INTEGER, Formula, Index
from tests.rewrite.rules.sums import Sum, call, number, read, times, total, where
from tests.rewrite.rules.tensors import (
    Indices,
    Symbolic,
    Use,
    inside,
    window_positions,
    windows,
)

Value = Callable[[Indices], Sum]
Positions = Callable[[Indices, Indices], tuple[Indices, list[Formula]]]


def in_window(
    use: Use, kernel: Sequence[Index], positions: Positions, place: Indices, value: Value
) -> Sum:
    """The sum of the values of a window's positions inside the image."""

    def body(taps: Indices) -> Sum:
        found, conditions = positions(place, taps)
        with use.reasoner.assuming(conditions):
            return where(conditions, value(found))

    return total(use.reasoner, kernel, body)


@denotes("MaxPool", "AveragePool")
def _pool(use: Use) -> Symbolic:
    (x,) = use.inputs
    assert not use["ceil_mode"]
    kernel = use["kernel_shape"]
    counts = windows(use, kernel)

    def positions(place: Indices, taps: Indices) -> tuple[Indices, list[Formula]]:
        return window_positions(use, place, taps)

    def at(indices: Indices) -> Sum:
        value = pooled(use, kernel, positions, indices)
        if use.kind == "MaxPool":
            return value
        if use["count_include_pad"]:
            return averaged(use, value, kernel)
        ones = in_window(use, kernel, positions, indices[2:], lambda _: number(1))
        return ratio(use, value, ones)

    return Symbolic((*x.shape[:2], *counts), at)


def averaged(use: Use, value: Sum, extents: Sequence[Index]) -> Sum:
    """A sum divided by the number of elements of some extents."""
    for extent in extents:
        if not use.reasoner.same(extent, 1):
            value = ratio(use, value, integer(extent))
    return value


def pooled(use: Use, kernel: Sequence[Index], positions: Positions, indices: Indices) -> Sum:
    """The sum of a window, or the function of the set of its elements that the operator is."""
    (x,) = use.inputs
    image, channel, *place = indices
    name = SETS.get(use.kind.removeprefix("Global"), "")

    def value(found: Indices) -> Sum:
        element = x.at((image, channel, *found))
        return call(use.reasoner, f"element of {name}", element) if name else element

    result = in_window(use, kernel, positions, tuple(place), value)
    return call(use.reasoner, name, result) if name else result


SETS = {"MaxPool": "largest", "LpPool": "norm"}
"""Poolings that are functions of the set of a window's elements, with their names."""
POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})


def any_pool(use: Use, name: str) -> Symbolic:
    """A pooling with any attributes.

    The windows, whether they fit and by what an average divides depend on the extents and the
    place only, so all of these are functions of which nothing else is known.
    """
    if use.kind == "GlobalLpPool":
        return _global(use)
    if use.kind not in POOLS:
        return DENOTATIONS[use.kind](use)
    (x,) = use.inputs
    extents = x.shape[2:]
    use.require(of_extents(f"{name} fits", z3.BoolSort(), extents))
    axes = range(len(extents))
    kernel = [z3.Int(f"{name} kernel {axis}") for axis in axes]

    def positions(place: Indices, taps: Indices) -> tuple[Indices, list[Formula]]:
        starts = [of_extents(f"{name} start {a}", INTEGER, (extents[a], place[a])) for a in axes]
        steps = [tap * z3.Int(f"{name} dilation {a}") for a, tap in zip(axes, taps, strict=True)]
        found = tuple(start + step for start, step in zip(starts, steps, strict=True))
        return found, [c for pair in zip(found, extents, strict=True) for c in inside(*pair)]

    def at(indices: Indices) -> Sum:
        value = pooled(use, kernel, positions, indices)
        weight = read(f"{name} weight", *extents, *indices[2:])
        return times(use.reasoner, value, weight) if use.kind == "AveragePool" else value

    counts = [of_extents(f"{name} count {a}", INTEGER, (extents[a],)) for a in axes]
    return Symbolic((*x.shape[:2], *counts), at)


def _global(use: Use) -> Symbolic:
    (x,) = use.inputs
    extents = x.shape[2:]

    def at(indices: Indices) -> Sum:
        return pooled(use, extents, lambda _, taps: (taps, []), indices)

    return Symbolic((*x.shape[:2], *(1 for _ in extents)), at)


def of_extents(name: str, sort: Any, values: Sequence[Index]) -> Any:
    """An unknown function of integers."""
    function = z3.Function(name, *(INTEGER for _ in values), sort)
    return function(*values)
