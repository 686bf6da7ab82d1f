"""Rules: what is replaced by what, and when."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler.rewrite.patterns import Bindings, Pattern, Unknown

Condition = Any
"""A bool, or in a proof a formula."""

Guard = Callable[[Bindings], Sequence[Condition]]
Parameters = Callable[[Bindings], Iterable[Mapping[Unknown, Any]]]


def always(bindings: Bindings) -> Sequence[Condition]:
    """The guard of a rule that holds wherever it matches."""
    return ()


def equal(left: Sequence[Any], right: Sequence[Any]) -> Sequence[Condition]:
    """The conditions that two sequences of extents are equal.

    `==` on sequences of symbols would compare their names.
    """
    if len(left) != len(right):
        return (False,)
    return [a == b for a, b in zip(left, right, strict=True)]


def no_parameters(bindings: Bindings) -> Iterable[Mapping[Unknown, Any]]:
    """One way to apply a rule that has no parameters."""
    return ({},)


@dataclass(frozen=True, slots=True)
class Case:
    """The ranks of a rule's tensors and its unknowns of a proof, such as an axis.

    `ranks` are by tensor name; the others have rank `rank`. Unknowns that are not given are
    symbols: `numbers` says how many integers each is.
    """

    rank: int = 2
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    unknowns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, eq=False, kw_only=True)
class Rule:
    """Terms that match `source`, of which there may be several, become those of `target`.

    It holds over the reals for all sizes wherever the types fit and all of `guard` is true.
    `parameters` suggests values of unknowns that only the target has; the guard decides on them,
    so that a proof need not know how they were found.
    """

    name: str
    source: Sequence[Pattern]
    target: Sequence[Pattern]
    guard: Guard = always
    parameters: Parameters = no_parameters
    symmetric: bool = False
    """Whether exchanging the roots of the source gives the same rule again."""
    cases: Sequence[Case] = (Case(),)
    searched: bool = True
    """Whether a search tries it; others serve derivations, or apply almost anywhere."""

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(f"the rule {self.name} has as many targets as sources")

    def reversed(self, name: str, **changes: Any) -> "Rule":
        """The rule in the other direction, whose target must not compute attributes."""
        # whether the new source is symmetric is not known: False costs the search time only
        turned = replace(self, name=name, source=self.target, target=self.source, symmetric=False)
        return replace(turned, **changes)
