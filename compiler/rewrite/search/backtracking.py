"""Backtracking over substitutions: from graph to graph, as long as the cost stays near the best."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from heapq import heapify, heappop, heappush

from compiler.graph.rewriting.terms import Graph
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.patterns import Apply, Pattern, Tensor
from compiler.rewrite.rule import Rule

Cost = Callable[[Graph], float]


SAME_COST = 1e-4
"""Costs that differ by less count as equal."""


MOST_TIMES = 60
"""Applications of one rule in a sweep: more than a part has sites, unless the rule loops."""


RECENT = 4
"""The graphs whose matchers are kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a search.

    Graphs that cost up to `beta` times the best are searched from; `steps` graphs are judged for a
    part and about `total` for all; `kept` of them are results, and `tried` of these are put in the
    place of a part of a graph.
    """

    beta: float = 1.1
    steps: int = 200
    total: int = 3000
    kept: int = 20
    tried: int = 8


@dataclass(frozen=True, slots=True)
class Found:
    """A graph, its cost, and the names of the rules that led to it."""

    cost: float
    graph: Graph
    rules: tuple[str, ...] = ()


@dataclass
class Backtracking:
    """A search from one graph: what was found, in order, and how many more may be judged."""

    matches: Matches
    rules: Sequence[Rule]
    cost: Cost
    limits: Limits
    found: dict[Graph, Found] = field(default_factory=dict[Graph, Found])
    matcher: Callable[[Graph], Matcher] = field(init=False)
    """The matcher of a graph; those of the last graphs are kept, as all rules look at them."""

    def __post_init__(self) -> None:
        self.matcher = lru_cache(RECENT)(partial(Matcher, self.matches))

    def run(self, graph: Graph) -> list[Found]:
        """The cheapest graphs equal to one, the best first; of equal costs, the first found."""
        start = Found(self.cost(graph), graph)
        self.found[graph] = start
        swept = min(self._sweep(start), default=start, key=lambda candidate: candidate.cost)
        self._descend_from(start)
        if swept.cost < self.limits.beta * self._best:
            self._descend_from(swept)
        self._expand()
        return self._distinct()[: self.limits.kept]

    def _distinct(self) -> list[Found]:
        """The graphs found, one for each cost: others differ in the order of operands only."""
        ranked: list[Found] = []
        for candidate in sorted(self.found.values(), key=lambda candidate: candidate.cost):
            if not ranked or candidate.cost > ranked[-1].cost * (1 + SAME_COST):
                ranked.append(candidate)
        return ranked

    @property
    def _best(self) -> float:
        return min(candidate.cost for candidate in self.found.values())

    @property
    def _spent(self) -> bool:
        return len(self.found) > self.limits.steps

    def _sweep(self, start: Found) -> list[Found]:
        """Judge the graphs in which one rule is applied wherever it can be, one for each rule.

        What pays everywhere at once need not pay at one place: of three siblings, two are merged
        first.
        """
        swept: list[Found] = []
        for rule in self.rules:
            graph, times = everywhere(self.matcher, start.graph, rule)
            if times > 1 and graph not in self.found and not self._spent:
                swept.append(Found(self.cost(graph), graph, (rule.name,) * times))
                self.found[graph] = swept[-1]
        return swept

    def _descend_from(self, current: Found) -> None:
        """Go to a graph that no substitution makes cheaper: each that does so is taken when met.

        Rules that leave fewer operators come first.
        """
        rules = sorted(self.rules, key=growth)
        unchanged = 0
        number = 0
        while unchanged < len(rules) and not self._spent:
            better = self._improved(current, rules[number])
            if better is None:
                unchanged = unchanged + 1
                number = (number + 1) % len(rules)
            else:
                current = better
                unchanged = 0

    def _improved(self, current: Found, rule: Rule) -> Found | None:
        for candidate in self._neighbours(current, [rule]):
            if candidate.cost < current.cost:
                return candidate
        return None

    def _expand(self) -> None:
        """Judge the neighbours of the cheapest graph that has not been expanded (TASO, 2019)."""
        best = self._best
        queue = [
            (candidate.cost, number, candidate)
            for number, candidate in enumerate(self.found.values())
        ]
        heapify(queue)
        while queue and not self._spent:
            _, _, current = heappop(queue)
            if current.cost > self.limits.beta * best:
                return
            for candidate in self._neighbours(current, self.rules):
                best = min(best, candidate.cost)
                if candidate.cost < self.limits.beta * best:
                    heappush(queue, (candidate.cost, len(self.found), candidate))

    def _neighbours(self, current: Found, rules: Sequence[Rule]) -> Iterator[Found]:
        """The new graphs that one substitution makes of a graph."""
        for rule, graph in neighbours(self.matcher(current.graph), rules):
            if self._spent:
                return
            if graph not in self.found:
                candidate = Found(self.cost(graph), graph, (*current.rules, rule.name))
                self.found[graph] = candidate
                yield candidate


def growth(rule: Rule) -> int:
    """How many operators more a rule's target has than its source; constants cost nothing."""
    return len(_operators(rule.target)) - len(_operators(rule.source))


def _operators(patterns: Iterable[Pattern]) -> list[Apply]:
    """The distinct operators of some patterns that are not constant."""
    operators: list[Apply] = []
    pending = [pattern for pattern in patterns if isinstance(pattern, Apply)]
    while pending:
        pattern = pending.pop()
        if pattern not in operators and not _is_constant(pattern):
            operators.append(pattern)
            pending += [item for item in pattern.inputs if isinstance(item, Apply)]
    return operators


def _is_constant(pattern: Pattern) -> bool:
    if isinstance(pattern, Apply):
        return all(_is_constant(item) for item in pattern.inputs)
    return not isinstance(pattern, Tensor) or pattern.constant


def neighbours(matcher: Matcher, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Graph]]:
    """The graphs that one substitution makes of a graph."""
    for rule in rules:
        for site in matcher.sites(rule):
            successor = matcher.apply(site)
            if successor is not None:
                yield rule, successor


def everywhere(matcher: Callable[[Graph], Matcher], graph: Graph, rule: Rule) -> tuple[Graph, int]:
    """A graph after one rule was applied until it can't be, or is undone; and how many times."""
    seen = [graph]
    while len(seen) <= MOST_TIMES:
        successor = next(
            (neighbour for _, neighbour in neighbours(matcher(seen[-1]), [rule])), None
        )
        if successor is None or successor in seen:
            break
        seen.append(successor)
    return seen[-1], len(seen) - 1
