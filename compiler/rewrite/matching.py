"""Finding where a rule applies to a graph, and applying it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from compiler.graph.rewriting.terms import Graph, Term, reachable, readers_of, replaced
from compiler.rewrite.matches import NOTHING, Match, Matches, Site
from compiler.rewrite.patterns import Apply, Pattern, Tensor
from compiler.rewrite.rule import Rule
from compiler.tensors.dtypes import FLOATS
from compiler.tensors.extents import Undecided


class Matcher:
    """The terms of a graph by operator and by input, in which rules are matched.

    Rules apply to floating-point tensors only. Graphs that share terms share `matches`.
    """

    def __init__(self, matches: Matches, graph: Graph):
        self.matches = matches
        self.graph = graph
        self._by_kind = defaultdict[str, list[Term]](list)
        inside = reachable(graph)
        self._users = readers_of(inside)
        for term in inside:
            # rules are proved over the reals, and integers wrap around
            if not term.constant and len(term.types) == 1 and term.dtype in FLOATS:
                self._by_kind[term.node.type].append(term)

    def sites(self, rule: Rule) -> Iterator[Site]:
        """Every place where a rule applies."""
        if len(rule.source) > 1:
            for roots, match in self._roots(rule, (), NOTHING):
                yield from self.matches.sites(rule, roots, match)
            return
        for term in self._candidates(rule.source[0], NOTHING):
            yield from self.matches.single(rule, term)
        if _is_concat(rule.source[0]):
            for term in self._by_kind["Concat"]:
                for first, match in self.matches.pairs(rule, term):
                    yield from self.matches.sites(rule, (term,), match, first)

    def apply(self, site: Site) -> Graph | None:
        """The graph with a rule applied; None if the result would depend on itself, or is known for
        some sizes only.

        Raises Mismatch if types do not fit, which a proof of the rule excludes.
        """
        try:
            changes = self.matches.changes(site)
        except Undecided:
            return None
        return replaced(self.matches.terms, self.graph, changes) if changes else None

    def _roots(
        self, rule: Rule, roots: tuple[Term, ...], match: Match
    ) -> Iterator[tuple[tuple[Term, ...], Match]]:
        if len(roots) == len(rule.source):
            yield roots, match
            return
        pattern = rule.source[len(roots)]
        for term in self._candidates(pattern, match):
            if _may_follow(term, roots, rule.symmetric):
                for extended in self.matches.at(pattern, term, match):
                    yield from self._roots(rule, (*roots, term), extended)

    def _candidates(self, pattern: Pattern, match: Match) -> Sequence[Term]:
        """The terms that may be a root: users of what is matched already, or all of its kind."""
        assert isinstance(pattern, Apply)
        kinds = [pattern.kind] if isinstance(pattern.kind, str) else sorted(pattern.kind.kinds)
        near = self._near(pattern, match) if match.tensors else None
        if near is None:
            return [term for kind in kinds for term in self._by_kind[kind]]
        floats = (t for t in near if t.node.type in kinds and t.dtype in FLOATS)
        return sorted(
            (t for t in floats if not t.constant and len(t.types) == 1), key=lambda t: t.number
        )

    def _near(self, pattern: Pattern, match: Match) -> set[Term] | None:
        """The terms that a pattern may match, from the tensors that are known; None if any."""
        if isinstance(pattern, Tensor):
            term = match.tensors.get(pattern)
            # Biases of zeros are not in the graph: they are read where an operator has none.
            if term is None or term.node.type == "fill" or term not in self._users:
                return None
            return {term}
        if not isinstance(pattern, Apply) or _is_concat(pattern):
            return None
        inputs = [self._near(item, match) for item in pattern.inputs]
        sets = [near for near in inputs if near is not None]
        if not sets:
            return None
        return {user for term in min(sets, key=len) for user in self._users.get(term, ())}


def _is_concat(pattern: Pattern) -> bool:
    return isinstance(pattern, Apply) and pattern.kind == "Concat"


def _may_follow(term: Term, roots: tuple[Term, ...], symmetric: bool) -> bool:
    """Whether a term may be one more root: another one of the same type, later if symmetric."""
    if not roots:
        return True
    ordered = not symmetric or roots[-1].number < term.number
    return ordered and term not in roots and term.dtype == roots[0].dtype
