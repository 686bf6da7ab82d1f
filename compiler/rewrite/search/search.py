"""The search over a whole graph: dynamic programming over its parts, then whole candidates.

AutoGraph (AAAI 2023): MCP[G] = min over parts p of MCP[G - p] + search(p).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import chain, count
from typing import Literal, get_args

from compiler.graph.rewriting.terms import (
    RESULT,
    Graph,
    Term,
    Terms,
    reachable,
    readers_of,
    replaced,
)
from compiler.progress import in_parts
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.rule import Rule
from compiler.rewrite.search.backtracking import SAME_COST, Backtracking, Cost, Found, Limits
from compiler.rewrite.search.blocks import blocks_of, operators_of, spans


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
        inside = set(members)
        users = {user for term in inside for user in self._users[term]}
        inside |= {user for user in users if user.node.type == RESULT}
        read = (t for t in inside if t in self._outputs or not inside.issuperset(self._users[t]))
        outputs = tuple(sorted(read, key=lambda term: term.number))
        leaf_of: dict[Term, Term] = {}
        copies: dict[Term, Term] = {}
        for term in _visited(outputs, inside):
            if term in inside or (term.constant and term.node.inputs):
                inputs = [t and copies[t] for t in term.node.inputs]
                copies[term] = self.terms.opaque_copy(term, inputs)
            elif term.node.type in ("constant", "fill", "identity"):
                copies[term] = term
            else:
                copies[term] = _leaf(self.terms, term, leaf_of)
        leaves = {leaf: term for term, leaf in leaf_of.items()}
        return GraphPart(tuple(copies[term] for term in outputs), outputs, leaves)


def _visited(outputs: Graph, inside: set[Term]) -> list[Term]:
    """The terms that a part needs, inputs first, in an order that only its structure decides."""
    visited: dict[Term, None] = {}
    # a stack, as recursion would go as deep as the graph is long
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
    weight = term.node.type == "weight"
    number = len(leaf_of)
    names = {"key": f"part {number}", "part": True} if weight else {"part": number}
    leaf_of[term] = terms.leaf("weight" if weight else "input", term.types[0], **names)
    return leaf_of[term]


def composed(terms: Terms, graph: Graph, chosen: Iterable[tuple[GraphPart, Graph]]) -> Graph:
    """A graph in which parts, in order, compute their outputs by other graphs."""
    replacements: dict[Term, Term] = {}
    for subgraph, replacement in chosen:
        leaves = {leaf: replacements.get(term, term) for leaf, term in subgraph.leaves.items()}
        rewritten = replaced(terms, replacement, leaves) if leaves else replacement
        assert rewritten is not None
        replacements |= zip(subgraph.outputs, rewritten, strict=True)
    return tuple(replacements.get(term, term) for term in graph)


LEAST_STEPS = 20
"""The graphs that are judged for a part of a large graph, at least."""

MOST_CHOICES = 2000
"""Choices that are looked at for candidates."""

SEARCH_STEP = "search for substitutions"
"""The step whose parts are searched, for those who watch."""

Division = Literal["dynamic", "greedy", "one"]
DIVISIONS: tuple[Division, ...] = get_args(Division)
"""By dynamic programming, by filling each part from the front, or not at all."""


@dataclass(frozen=True, slots=True)
class PartSizes:
    """The operators of a part, at least and at most; blocks have at most half as many."""

    least: int = 40
    most: int = 120


@dataclass(frozen=True, slots=True)
class GraphCandidate:
    """A whole graph and the rules that were applied, for each part by which it was found."""

    graph: Graph
    rules: tuple[str, ...]


@dataclass
class Search:
    """A search of one graph; parts of one structure are searched once."""

    terms: Terms
    rules: Sequence[Rule]
    cost: Cost
    limits: Limits = field(default_factory=Limits)
    sizes: PartSizes = field(default_factory=PartSizes)
    division: Division = "dynamic"
    """How a graph becomes parts; see `DIVISIONS`."""
    searched: dict[Graph, list[Found]] = field(default_factory=dict[Graph, list[Found]])
    """The graphs found for each structure of a part."""
    matches: Matches = field(init=False)
    _share: int = 1 << 30
    """The graphs that may be judged for a part."""

    def __post_init__(self) -> None:
        self.matches = Matches(self.terms)

    def candidates(self, graph: Graph) -> list[GraphCandidate]:
        """Whole graphs by the sum of their parts' costs, the best first; the last is the graph."""
        subgraphs = self.parts(graph)
        options = [
            self.search(subgraph) for subgraph in in_parts(SEARCH_STEP, subgraphs, _described)
        ]
        by_graph = {graph: GraphCandidate(graph, ())}
        for chosen in _cheapest([[choice.cost for choice in option] for option in options]):
            picked = [option[i] for option, i in zip(options, chosen, strict=True)]
            candidate = self._composed(graph, zip(subgraphs, picked, strict=True))
            by_graph.setdefault(candidate.graph, candidate)
            if len(by_graph) > self.limits.kept:
                break
        return [*list(by_graph.values())[1:], by_graph[graph]]

    def refined(self, graph: Graph) -> GraphCandidate:
        """The graph with each part, in turn, as it makes the cost of the whole graph least.

        For costs other than sums over parts: what shortens a part may delay the whole.
        """
        subgraphs = self.parts(graph)
        chosen = [(subgraph, Found(0.0, subgraph.graph)) for subgraph in subgraphs]
        best = GraphCandidate(graph, ())
        cost = self.cost(graph)
        for number, subgraph in enumerate(subgraphs):
            for option in self.search(subgraph)[: self.limits.tried]:
                trial = [*chosen[:number], (subgraph, option), *chosen[number + 1 :]]
                candidate = self._composed(graph, trial)
                if (changed := self.cost(candidate.graph)) < cost:
                    best, cost, chosen = candidate, changed, trial
        return best

    def _composed(self, graph: Graph, chosen: Iterable[tuple[GraphPart, Found]]) -> GraphCandidate:
        picked = list(chosen)
        rewritten = composed(
            self.terms, graph, [(subgraph, choice.graph) for subgraph, choice in picked]
        )
        return GraphCandidate(
            rewritten, tuple(name for _, choice in picked for name in choice.rules)
        )

    def search(self, subgraph: GraphPart) -> list[Found]:
        """The cheapest graphs of a part."""
        if subgraph.graph not in self.searched:
            undivided = self.division == "one"
            steps = self.limits.total if undivided else min(self.limits.steps, self._share)
            limits = replace(self.limits, steps=steps)
            search = Backtracking(self.matches, self.rules, self.cost, limits)
            self.searched[subgraph.graph] = search.run(subgraph.graph)
        return self.searched[subgraph.graph]

    def parts(self, graph: Graph) -> list[GraphPart]:
        """The sequence of parts of the least total cost."""
        operators = operators_of(graph)
        if self.division == "one" or len(operators) <= self.sizes.most:
            return [Divider(self.terms, graph).part(operators)] if operators else []
        matcher = Matcher(self.matches, graph)
        sites = spans(site for rule in self.rules for site in matcher.sites(rule))
        blocks = blocks_of(operators, sites, max(1, self.sizes.most // 2))
        if self.division == "greedy":
            divider = Divider(self.terms, graph)
            return [divider.part(members) for members in _filled(blocks, self.sizes.most)]
        return self._sequence(graph, blocks)

    def _sequence(self, graph: Graph, blocks: Sequence[Sequence[Term]]) -> list[GraphPart]:
        """Consecutive blocks as parts of the least total cost, by dynamic programming."""
        ends = range(1, len(blocks) + 1)
        ranges = [(s, end) for end in ends for s in _starts(blocks, end, self.sizes)]
        divider = Divider(self.terms, graph)
        subgraphs = {
            (start, end): divider.part(chain.from_iterable(blocks[start:end]))
            for start, end in in_parts("parts for substitutions", ranges)
        }
        # blocks that repeat, such as the layers of a transformer, are searched once
        structures = {subgraph.graph: subgraph for subgraph in subgraphs.values()}
        self._share = max(LEAST_STEPS, self.limits.total // len(structures))
        for subgraph in in_parts(SEARCH_STEP, structures.values(), _described):
            self.search(subgraph)
        best: dict[int, tuple[float, list[GraphPart]]] = {0: (0.0, [])}
        for (start, end), subgraph in subgraphs.items():
            cost = best[start][0] + self.search(subgraph)[0].cost
            if end not in best or cost < best[end][0]:
                best[end] = cost, [*best[start][1], subgraph]
        return best[len(blocks)][1]


def _described(subgraph: GraphPart) -> str:
    return f"{len(operators_of(subgraph.graph))} operators"


def _filled(blocks: Iterable[Sequence[Term]], limit: int) -> list[list[Term]]:
    """Consecutive blocks together, up to the operators that a part may have."""
    groups: list[list[Term]] = []
    for block in blocks:
        if groups and len(groups[-1]) + len(block) <= limit:
            groups[-1].extend(block)
        else:
            groups.append([*block])
    return groups


def _starts(blocks: Sequence[Sequence[Term]], end: int, sizes: PartSizes) -> Iterator[int]:
    """Where a part that ends before a block may start: at sizes that are allowed, or else once."""
    size = 0
    any_found = False
    for start in range(end - 1, -1, -1):
        size += len(blocks[start])
        if size > sizes.most and any_found:
            return
        if size >= sizes.least or start == 0:
            any_found = True
            yield start


def _cheapest(costs: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """Choices of one option each, the least sum first, one for each sum; options are sorted.

    Graphs of one cost differ by the order of what was merged, which changes little.
    """
    first = tuple(0 for _ in costs)
    number = count()
    seen = {first}
    total = partial(_total, costs)
    queue = [(total(first), next(number), first)]
    last = -1.0
    for _ in range(MOST_CHOICES):
        if not queue:
            return
        cost, _, chosen = heappop(queue)
        if cost > last * (1 + SAME_COST):
            last = cost
            yield chosen
        for successor in _successors(chosen, costs):
            if successor not in seen:
                seen.add(successor)
                heappush(queue, (total(successor), next(number), successor))


def _total(costs: Sequence[Sequence[float]], chosen: Iterable[int]) -> float:
    return sum(options[i] for options, i in zip(costs, chosen, strict=True))


def _successors(
    chosen: tuple[int, ...], costs: Sequence[Sequence[float]]
) -> Iterator[tuple[int, ...]]:
    """The choices that take the next option at one place."""
    for position, index in enumerate(chosen):
        if index + 1 < len(costs[position]):
            yield (*chosen[:position], index + 1, *chosen[position + 1 :])
