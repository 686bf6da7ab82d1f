"""Parts of a graph as separate graphs, equal for parts that differ in weights only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.graph.rewriting.terms import (
    RESULT,
    Graph,
    Term,
    Terms,
    reachable,
    readers_of,
    replaced,
)


@dataclass(frozen=True)
class GraphPart:
    """A part: `graph` computes `outputs`, with leaves in place of what it reads and its weights."""

    graph: Graph
    outputs: Graph
    leaves: Mapping[Term, Term]
    """The term for which each leaf of the graph stands."""


class Divider:
    """Makes parts of one graph."""

    def __init__(self, terms: Terms, graph: Graph):
        self.terms = terms
        self._outputs, self._users = frozenset(graph), readers_of(reachable(graph))

    def part(self, members: Iterable[Term]) -> GraphPart:
        """The part that some operators are; they hold all between any two of them.

        Inputs and weights are numbered as they are met, so parts of one structure have one graph.
        """
        inside = self._with_results(members)
        outputs = self._escaping(inside)
        leaf_of: dict[Term, Term] = {}
        now: dict[Term, Term] = {}
        for term in _visited(outputs, inside):
            if term in inside or (term.constant and term.inputs):
                inputs = [t and now[t] for t in term.inputs]
                now[term] = self.terms.opaque_copy(term, inputs)
            elif term.kind in ("constant", "fill", "identity"):
                now[term] = term
            else:
                now[term] = _leaf(self.terms, term, leaf_of)
        leaves = {leaf: term for term, leaf in leaf_of.items()}
        return GraphPart(tuple(now[term] for term in outputs), outputs, leaves)

    def _with_results(self, members: Iterable[Term]) -> set[Term]:
        """Some operators with the results of those that have several."""
        inside = set(members)
        users = {user for term in inside for user in self._users[term]}
        return inside | {user for user in users if user.kind == RESULT}

    def _escaping(self, inside: set[Term]) -> Graph:
        """The terms of a part that are results of the graph or read from outside, in order."""
        read = (t for t in inside if t in self._outputs or not inside.issuperset(self._users[t]))
        return tuple(sorted(read, key=lambda term: term.number))


def _visited(outputs: Graph, inside: set[Term]) -> list[Term]:
    """The terms that a part needs, inputs first, in an order that only its structure decides."""
    visited: dict[Term, None] = {}
    stack = [(term, False) for term in reversed(outputs)]
    while stack:
        term, ready = stack.pop()
        if ready:
            visited.setdefault(term)
        elif term not in visited:
            stack.append((term, True))
            if term in inside or term.constant:
                stack += [(t, False) for t in reversed([*term.operands]) if t not in visited]
    return list(visited)


def _leaf(terms: Terms, term: Term, leaf_of: dict[Term, Term]) -> Term:
    """The numbered leaf for a weight, or for a tensor that a part reads."""
    weight, number = term.kind == "weight", len(leaf_of)
    names = {"key": f"part {number}", "part": True} if weight else {"part": number}
    leaf_of[term] = terms.leaf("weight" if weight else "input", term.types[0], **names)
    return leaf_of[term]


def composed(terms: Terms, graph: Graph, chosen: Iterable[tuple[GraphPart, Graph]]) -> Graph:
    """A graph in which parts, in order, compute their outputs by other graphs."""
    now: dict[Term, Term] = {}
    for part, replacement in chosen:
        leaves = {leaf: now.get(term, term) for leaf, term in part.leaves.items()}
        whole = replaced(terms, replacement, leaves) if leaves else replacement
        assert whole is not None
        now |= zip(part.outputs, whole, strict=True)
    return tuple(now.get(term, term) for term in graph)
