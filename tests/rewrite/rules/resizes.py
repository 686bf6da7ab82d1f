"""The meaning of Resize in proofs: copies of elements, or weighted means of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import z3

from compiler.rewrite.patterns import OneOf
from compiler.rewrite.rule import Case
from tests.rewrite.rules.counting import MEAN_WEIGHT
from tests.rewrite.rules.divisions import INTEGER, Index
from tests.rewrite.rules.pools import of_extents
from tests.rewrite.rules.sums import Sum, read, times, total
from tests.rewrite.rules.tensors import Indices, Symbolic, Use


def any_resize(use: Use, name: str, attributes: Mapping[str, Any]) -> Symbolic:
    """A Resize with the mode and the axes that attributes give, and any other attributes.

    Which elements are read, and with which weights, depends on the extents and the place only, so
    both are functions of which nothing else is known. An axis of scale 1 stays.
    """
    (x,) = use.inputs
    changed = changed_axes(attributes, len(x.shape))
    use.require(of_extents(f"{name} fits", z3.BoolSort(), [x.shape[a] for a in changed]))
    shape = list(x.shape)
    for axis in changed:
        shape[axis] = of_extents(f"{name} count {axis}", INTEGER, [x.shape[axis]])
    copies = attributes.get("mode", "nearest") == "nearest"
    return Symbolic(
        tuple(shape), _copied(x, name, changed) if copies else _mean(use, name, changed)
    )


def changed_axes(attributes: Mapping[str, Any], rank: int) -> list[int]:
    """The axes whose scale is not 1; all if there are no scales."""
    if not (scales := attributes.get("scales")):
        return list(range(rank))
    return [axis for axis, scale in enumerate(scales) if scale != 1]


def _copied(x: Symbolic, name: str, changed: Sequence[int]) -> Any:
    def at(indices: Indices) -> Sum:
        place = list(indices)
        for axis in changed:
            pair = (x.shape[axis], indices[axis])
            place[axis] = of_extents(f"{name} source {axis}", INTEGER, pair)
        return x.at(tuple(place))

    return at


def _mean(use: Use, name: str, changed: Sequence[int]) -> Any:
    (x,) = use.inputs
    extents = [x.shape[axis] for axis in changed]

    def at(indices: Indices) -> Sum:
        place = [indices[axis] for axis in changed]

        def body(inner: tuple[Index, ...]) -> Sum:
            chosen = dict(enumerate(indices)) | dict(zip(changed, inner, strict=True))
            weight = read(f"{MEAN_WEIGHT} {name}", *extents, *place, *inner)
            element = x.at(tuple(chosen[axis] for axis in range(len(indices))))
            return times(use.reasoner, weight, element)

        return total(use.reasoner, extents, body)

    return at


def with_all_scaled(case: Case, kind: OneOf) -> Case | None:
    """The case with scales along all axes in place of a Resize's; None if it has no scales."""
    operator, attributes = case.unknowns.get(kind.name, ("", ()))
    given = dict(attributes)
    if operator != "Resize" or not given.get("scales"):
        return None
    given["scales"] = (2.0,) * len(given["scales"])
    content = (operator, tuple(sorted(given.items())))
    return Case(case.rank, case.ranks, {**case.unknowns, kind.name: content}, case.numbers)
