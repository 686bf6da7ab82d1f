"""Splitting a graph into blocks where the fewest substitutions reach across."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from compiler.graph.rewriting.terms import RESULT, Graph, Term, reachable
from compiler.rewrite.matching import Site
from compiler.rewrite.patterns import Apply, Pattern
from compiler.rewrite.search.min_cut import INFINITE, FlowNetwork

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
    return [t for t in terms if t.inputs and not t.constant and t.kind != RESULT]


def maker_of(term: Term) -> Term:
    """The operator that a term is, or of which it is one of several results."""
    if term.kind != RESULT:
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
    first = _first_side(operators, spans)
    sides = [t for t in operators if t in first], [t for t in operators if t not in first]
    return [block for side in sides for block in _divided(side, spans, size)]


def _within(spans: Spans, operators: frozenset[Term]) -> Spans:
    """The parts of spans among some operators."""
    cut = [([t for t in members if t in operators], weight) for members, weight in spans]
    return [(members, weight) for members, weight in cut if len(members) > 1]


def _first_side(operators: Sequence[Term], spans: Spans) -> set[Term]:
    """The side of a minimum cut that the other depends on; both hold a part of the operators."""
    number = {term: i for i, term in enumerate(operators)}
    count = len(operators)
    network = FlowNetwork(count + 2)
    source, sink = count, count + 1
    fixed = max(1, int(FIXED * count))
    for i in range(fixed):
        network.add_edge(source, i, INFINITE)
        network.add_edge(count - 1 - i, sink, INFINITE)
    for u, readers in enumerate(_readers(operators, number)):
        _add_tensor(network, u, readers)
    for members, weight in spans:
        _add_span(network, [number[t] for t in members], weight)
    side = network.cut(source, sink)
    return {term for term, i in number.items() if i in side}


def _readers(operators: Sequence[Term], number: Mapping[Term, int]) -> list[list[int]]:
    """The operators that read results of each one, by number."""
    readers: list[list[int]] = [[] for _ in operators]
    for term, i in number.items():
        for u in sorted({number[t] for t in map(maker_of, term.operands) if t in number}):
            readers[u].append(i)
    return readers


def _add_tensor(network: FlowNetwork, maker: int, readers: Sequence[int]) -> None:
    """Let a tensor that is read on the other side cost the same, once; never read it before."""
    tensor = network.add_node()
    network.add_edge(maker, tensor, TENSOR)
    for reader in readers:
        network.add_edge(tensor, reader, INFINITE)
        network.add_edge(reader, maker, INFINITE)


def _add_span(network: FlowNetwork, members: Sequence[int], weight: int) -> None:
    """Let members on different sides cost the same, once, however many they are."""
    start, end = network.add_node(), network.add_node()
    network.add_edge(start, end, weight * SUBSTITUTION)
    for member in members:
        network.add_edge(member, start, INFINITE)
        network.add_edge(end, member, INFINITE)
