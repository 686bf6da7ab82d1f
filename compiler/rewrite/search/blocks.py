"""Splitting a graph into blocks where the fewest substitutions reach across."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from compiler.graph.rewriting.terms import RESULT, Graph, Term, reachable
from compiler.rewrite.matching import Site
from compiler.rewrite.patterns import Apply, Pattern

# The minimum cut of a flow network, by Dinic's algorithm.
INFINITE = 1 << 40
"""The capacity of an edge that no minimum cut holds."""


class FlowNetwork:
    """Nodes are numbers from 0; edges have integer capacities."""

    def __init__(self, nodes: int):
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._target: list[int] = []
        self._left: list[int] = []

    def add_node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        """An edge of a capacity; several between two nodes add up."""
        # an edge and its reverse differ in the last bit of their numbers: `edge ^ 1`
        for node, target, room in ((start, end, capacity), (end, start, 0)):
            self._edges[node].append(len(self._target))
            self._target.append(target)
            self._left.append(room)

    def cut(self, source: int, sink: int) -> set[int]:
        """The source's side of a minimum cut: the smallest such side."""
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return {node for node, depth in enumerate(level) if depth >= 0}
            self._saturate(source, sink, level)

    def _levels(self, source: int) -> list[int]:
        """How many edges with capacity left each node is from the source; -1 if none lead there."""
        level = [-1] * len(self._edges)
        level[source] = 0
        pending = deque([source])
        while pending:
            node = pending.popleft()
            for edge in self._edges[node]:
                target = self._target[edge]
                if self._left[edge] and level[target] < 0:
                    level[target] = level[node] + 1
                    pending.append(target)
        return level

    def _saturate(self, source: int, sink: int, level: list[int]) -> None:
        """Push flow along shortest paths until each has a full edge."""
        tried = [0] * len(self._edges)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                self._push(path)
                path = []
                node = source
                continue
            edge = self._next(node, level, tried)
            if edge is not None:
                path.append(edge)
                node = self._target[edge]
            elif path:
                node = self._target[path.pop() ^ 1]
                tried[node] += 1
            else:
                return

    def _next(self, node: int, level: list[int], tried: list[int]) -> int | None:
        """The next edge of a node towards the sink that is not known to lead nowhere."""
        edges = self._edges[node]
        while tried[node] < len(edges):
            edge = edges[tried[node]]
            if self._left[edge] and level[self._target[edge]] == level[node] + 1:
                return edge
            tried[node] += 1
        return None

    def _push(self, path: Iterable[int]) -> None:
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow


SUBSTITUTION, TENSOR = 1000, 1
"""The costs of a substitution across two blocks, and of a tensor from one to the next."""

FIXED = 0.3
"""The part of the operators at either end of a graph that stays whole."""

Sites = Mapping[frozenset[Term], int]
"""How many substitutions there are on each set of terms."""

Spans = Sequence[tuple[Collection[Term], int]]
"""Sets of two terms or more, with the number of substitutions on each."""


def operators_of(graph: Graph) -> list[Term]:
    """The operators of a graph that are not constant, in order; results of one count with it."""
    terms = reachable(graph)
    return [t for t in terms if t.node.inputs and not t.constant and t.node.type != RESULT]


def maker_of(term: Term) -> Term:
    """The operator that a term is, or is one of several results of."""
    if term.node.type != RESULT:
        return term
    (operator,) = term.operands
    return operator


def spans(sites: Iterable[Site]) -> Sites:
    """The terms that each substitution replaces or reads through, with their number."""
    return Counter(frozenset(_inside(site)) for site in sites)


def _inside(site: Site) -> set[Term]:
    """The operators between a site's roots and the tensors that it matched.

    As deep as the rule's source: of a Concat of many parts a rule may match two only.
    """
    ends = set(site.match.tensors.values())
    operators: set[Term] = set()
    level = set(site.roots)
    for _ in range(max(map(_depth, site.rule.source))):
        level = {term for term in level if term not in ends and not term.constant}
        operators |= {maker_of(term) for term in level}
        level = {operand for term in level for operand in term.operands}
    return operators


def _depth(pattern: Pattern) -> int:
    """How many operators follow each other in a pattern."""
    return 1 + max(map(_depth, pattern.inputs)) if isinstance(pattern, Apply) else 0


def blocks_of(operators: Sequence[Term], sites: Sites, size: int) -> list[list[Term]]:
    """Blocks of at most `size` operators in order: each depends on earlier ones only.

    Recursive minimum cuts: as few substitutions as possible have terms in two blocks.
    """
    return _divided(operators, [*sites.items()], size)


def _divided(operators: Sequence[Term], spans: Spans, size: int) -> list[list[Term]]:
    if len(operators) <= size:
        return [list(operators)]
    spans = _within(spans, frozenset(operators))
    # The side of a minimum cut that the other depends on; both hold a part of the operators.
    number = {term: i for i, term in enumerate(operators)}
    count = len(operators)
    network = FlowNetwork(count + 2)
    source = count
    sink = count + 1
    fixed = max(1, int(FIXED * count))
    for i in range(fixed):
        network.add_edge(source, i, INFINITE)
        network.add_edge(count - 1 - i, sink, INFINITE)
    for u, readers in enumerate(_readers(operators, number)):
        # Let a tensor that is read on the other side cost the same, once; never read it before.
        tensor = network.add_node()
        network.add_edge(u, tensor, TENSOR)
        for reader in readers:
            network.add_edge(tensor, reader, INFINITE)
            network.add_edge(reader, u, INFINITE)
    for members, weight in spans:
        # a substitution costs once, however many of its operators are on either side
        start, end = network.add_node(), network.add_node()
        network.add_edge(start, end, weight * SUBSTITUTION)
        for member in [number[t] for t in members]:
            network.add_edge(member, start, INFINITE)
            network.add_edge(end, member, INFINITE)
    side = network.cut(source, sink)
    first = {term for term, i in number.items() if i in side}
    sides = [t for t in operators if t in first], [t for t in operators if t not in first]
    return [block for side in sides for block in _divided(side, spans, size)]


def _within(spans: Spans, operators: frozenset[Term]) -> Spans:
    """The parts of spans among some operators."""
    cut = [([t for t in members if t in operators], weight) for members, weight in spans]
    return [(members, weight) for members, weight in cut if len(members) > 1]


def _readers(operators: Sequence[Term], number: Mapping[Term, int]) -> list[list[int]]:
    """The operators that read results of each one, by number."""
    readers: list[list[int]] = [[] for _ in operators]
    for term, i in number.items():
        for u in sorted({number[t] for t in map(maker_of, term.operands) if t in number}):
            readers[u].append(i)
    return readers
