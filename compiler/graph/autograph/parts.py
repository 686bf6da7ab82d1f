"""Parts of a graph as separate graphs, equal for parts that differ in weights only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.graph.rewriting.terms import RESULT, Graph, Term, Terms, reachable, replaced


@dataclass(frozen=True)
class GraphPart:
    """A part: `graph` computes `outputs`, with leaves in place of what it reads and its weights."""

    graph: Graph
    outputs: Graph
    leaves: Mapping[Term, Term]
    """The term for which each leaf of the graph stands."""


def part_of(terms: Terms, members: Iterable[Term], graph: Graph) -> GraphPart:
    """The part of a graph that some operators are; they hold all between any two of them.

    Inputs and weights are numbered as they are met, so parts of one structure have one graph.
    """
    inside = _with_results(members, graph)
    outputs = tuple(term for term in _escaping(graph, inside) if term in inside)
    leaf_of: dict[Term, Term] = {}
    now: dict[Term, Term] = {}
    for term in _visited(outputs, inside):
        if term in inside or (term.constant and term.inputs):
            inputs = [t and now[t] for t in term.inputs]
            now[term] = terms.opaque(term.kind, inputs, term.attributes, term.types, term.node)
        elif term.kind in ("constant", "fill", "identity"):
            now[term] = term
        else:
            now[term] = _leaf(terms, term, leaf_of)
    leaves = {leaf: term for term, leaf in leaf_of.items()}
    return GraphPart(tuple(now[term] for term in outputs), outputs, leaves)


def _with_results(members: Iterable[Term], graph: Graph) -> set[Term]:
    """Some operators with the results of those that have several."""
    inside = set(members)
    return inside | {t for t in reachable(graph) if t.kind == RESULT and t.inputs[0] in inside}


def _escaping(graph: Graph, inside: set[Term]) -> list[Term]:
    """The terms that are results of the graph or read from outside a part, in order."""
    read = {t for term in reachable(graph) if term not in inside for t in term.operands}
    return sorted(read | set(graph), key=lambda term: term.number)


def _visited(outputs: Graph, inside: set[Term]) -> list[Term]:
    """The terms that a part needs, inputs first, in an order that only its structure decides."""
    found: dict[Term, None] = {}
    stack = [(term, False) for term in reversed(outputs)]
    while stack:
        term, ready = stack.pop()
        if ready:
            found.setdefault(term)
        elif term not in found:
            stack.append((term, True))
            if term in inside or term.constant:
                stack += [(t, False) for t in reversed([*term.operands]) if t not in found]
    return list(found)


def _leaf(terms: Terms, term: Term, leaf_of: dict[Term, Term]) -> Term:
    """The numbered leaf for a weight, or for a tensor that a part reads."""
    weight, number = term.kind == "weight", len(leaf_of)
    names = {"key": f"part {number}", "part": True} if weight else {"part": number}
    leaf_of[term] = terms.leaf("weight" if weight else "input", term.types[0], **names)
    return leaf_of[term]


def composed(terms: Terms, graph: Graph, chosen: Iterable[tuple[GraphPart, Graph]]) -> Graph:
    """A graph in which parts, in order, compute their outputs by other graphs."""
    now: dict[Term, Term] = {}
    for part, found in chosen:
        leaves = {leaf: now.get(term, term) for leaf, term in part.leaves.items()}
        whole = replaced(terms, found, leaves) if leaves else found
        assert whole is not None
        now |= zip(part.outputs, whole, strict=True)
    return tuple(now.get(term, term) for term in graph)
