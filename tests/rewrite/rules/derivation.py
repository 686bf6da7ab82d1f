"""Derivations: chains of rules that lead from one graph to another, from both ends at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compiler.graph.rewriting.terms import Graph, Terms, reachable
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.rule import Rule

MOST_GRAPHS = 6000
"""The most graphs that a search visits before it gives up."""
MORE_OPERATORS = 3
"""How many operators more than the larger end a graph on the way may have."""


@dataclass
class _Side:
    """The graphs that are reached from one end, with the chain of rules to each."""

    chains: dict[Graph, tuple[str, ...]]
    front: list[Graph] = field(default_factory=list[Graph])


def derivation(
    terms: Terms, rules: Sequence[Rule], source: Graph, target: Graph
) -> tuple[str, ...] | None:
    """The names of rules on the way from one graph to another; None if none is found.

    Rules are equations: from the target they are applied backwards.
    """
    sides = [_Side({end: ()}, [end]) for end in (source, target)]
    largest = max(size(source), size(target)) + MORE_OPERATORS
    while any(side.front for side in sides) and sum(len(s.chains) for s in sides) < MOST_GRAPHS:
        met = _meeting(*sides)
        if met is not None:
            return (*sides[0].chains[met], *reversed(sides[1].chains[met]))
        growing = (side for side in sides if side.front)
        _extend(terms, rules, min(growing, key=lambda side: len(side.front)), largest)
    met = _meeting(*sides)
    return None if met is None else (*sides[0].chains[met], *reversed(sides[1].chains[met]))


def _meeting(first: _Side, second: _Side) -> Graph | None:
    return next((graph for graph in first.chains if graph in second.chains), None)


def _extend(terms: Terms, rules: Sequence[Rule], side: _Side, largest: int) -> None:
    """Apply every rule once to the graphs that were found last."""
    found: list[Graph] = []
    for graph in side.front:
        for name, changed in neighbours(terms, rules, graph):
            if changed not in side.chains and size(changed) <= largest:
                side.chains[changed] = (*side.chains[graph], name)
                found.append(changed)
    side.front = found


def neighbours(terms: Terms, rules: Sequence[Rule], graph: Graph) -> Iterator[tuple[str, Graph]]:
    """The graphs that one application of a rule gives; every tensor may be a weight."""
    matcher = Matcher(Matches(terms, all_constant=True), graph)
    for rule in rules:
        for site in matcher.sites(rule):
            changed = matcher.apply(site)
            if changed is not None:
                yield rule.name, changed


def size(graph: Graph) -> int:
    """The number of operators of a graph."""
    return sum(1 for term in reachable(graph) if term.node.inputs)
