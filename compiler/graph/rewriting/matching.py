"""Finding where a rule applies to a graph, and applying it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from compiler.graph.rewriting.attributes import with_defaults
from compiler.graph.rewriting.patterns import Apply, Fill, Identity, OneOf, Pattern, Tensor, Unknown
from compiler.graph.rewriting.rule import Rule
from compiler.graph.rewriting.terms import Graph, Term, Terms, reachable, replaced
from compiler.ir.operators import Mismatch
from compiler.ir.operators.dtypes import FLOATS

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min"})


@dataclass(frozen=True, slots=True)
class Match:
    """The terms and values for which the names of a rule stand in a graph."""

    tensors: Mapping[Tensor, Term] = field(default_factory=dict[Tensor, Term])
    unknowns: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The extents of a tensor."""
        return self.tensors[tensor].shape

    def value(self, unknown: Unknown) -> Any:
        """The value of an attribute."""
        return self.unknowns[unknown.name]

    def with_tensor(self, tensor: Tensor, term: Term) -> "Match | None":
        """The match with one more tensor; None if it stands for another one."""
        known = self.tensors.get(tensor)
        if known is not None:
            return self if known is term else None
        if tensor.rank not in (None, len(term.shape)):
            return None
        return Match({**self.tensors, tensor: term}, self.unknowns)

    def with_unknown(self, name: str, value: Any) -> "Match | None":
        """The match with one more unknown; None if it stands for another value."""
        if name in self.unknowns:
            return self if self.unknowns[name] == value else None
        return Match(self.tensors, {**self.unknowns, name: value})


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a rule applies: the terms that it replaces, and what was matched.

    Of a Concat of several parts a rule may replace two, from the part `first` on.
    """

    rule: Rule
    roots: tuple[Term, ...]
    match: Match
    first: int | None = None


class Matcher:
    """The terms of a graph by operator and by input, in which rules are matched.

    Rules apply to floating-point tensors only. With `all_constant` every tensor may stand for a
    constant one of a rule, as in derivations, where a weight is any tensor.
    """

    def __init__(self, terms: Terms, graph: Graph, *, all_constant: bool = False):
        self.terms, self.graph, self.all_constant = terms, graph, all_constant
        self._by_kind: dict[str, list[Term]] = {}
        self._users: dict[Term, list[Term]] = {}
        for term in reachable(graph):
            self._users[term] = []
            for item in set(term.operands):
                self._users[item].append(term)
            if not term.constant and len(term.types) == 1 and term.dtype in FLOATS:
                self._by_kind.setdefault(term.kind, []).append(term)

    def sites(self, rule: Rule) -> Iterator[Site]:
        """Every place where a rule applies."""
        for roots, match in self._roots(rule, (), Match()):
            for found in _chosen(rule, match):
                yield Site(rule, roots, found)
        for term, first, match in self._neighbours(rule):
            for found in _chosen(rule, match):
                yield Site(rule, (term,), found, first)

    def apply(self, site: Site) -> Graph | None:
        """The graph with a rule applied; None if the result would depend on itself.

        Raises Mismatch if types do not fit, which a proof of the rule excludes.
        """
        node = site.roots[0].node
        new = [build(self.terms, pattern, site.match, node) for pattern in site.rule.target]
        if site.first is not None:
            new = [self._with_part(site.roots[0], site.first, new[0])]
        changed = dict(zip(site.roots, new, strict=True))
        if any(old.types != term.types for old, term in changed.items()):
            raise Mismatch(f"the rule {site.rule.name} changes a type")
        changed = {old: term for old, term in changed.items() if old is not term}
        return replaced(self.terms, self.graph, changed) if changed else None

    def _with_part(self, concat: Term, first: int, part: Term) -> Term:
        """A Concat with one part instead of two."""
        parts = [*concat.inputs[:first], part, *concat.inputs[first + 2 :]]
        return self.terms.apply("Concat", parts, concat.attributes, concat.node)

    def _neighbours(self, rule: Rule) -> Iterator[tuple[Term, int, Match]]:
        """Where a rule for a Concat of two matches neighbours of a longer one."""
        pattern = rule.source[0]
        if len(rule.source) > 1 or not isinstance(pattern, Apply) or pattern.kind != "Concat":
            return
        for term in self._by_kind.get("Concat", ()):
            parts = list(term.operands)
            for i in range(len(parts) - 1 if len(parts) > 2 else 0):
                two = parts[i : i + 1], parts[i + 1 : i + 2]
                if all(map(_may_be, pattern.inputs, two, (None, None))):
                    pair = self.terms.apply("Concat", parts[i : i + 2], term.attributes)
                    for match in self._match(pattern, pair, Match()):
                        yield term, i, match

    def _roots(
        self, rule: Rule, roots: tuple[Term, ...], match: Match
    ) -> Iterator[tuple[tuple[Term, ...], Match]]:
        if len(roots) == len(rule.source):
            yield roots, match
            return
        pattern = rule.source[len(roots)]
        for term in self._candidates(pattern, match):
            if _may_follow(term, roots, rule.symmetric):
                for found in self._match(pattern, term, match):
                    yield from self._roots(rule, (*roots, term), found)

    def _candidates(self, pattern: Pattern, match: Match) -> Sequence[Term]:
        """The terms that may be a root: users of what is matched already, or all of its kind."""
        assert isinstance(pattern, Apply)
        kinds = [pattern.kind] if isinstance(pattern.kind, str) else sorted(pattern.kind.kinds)
        near = self._near(pattern, match) if match.tensors else None
        if near is None:
            return [term for kind in kinds for term in self._by_kind.get(kind, ())]
        floats = (t for t in near if t.kind in kinds and t.dtype in FLOATS)
        return sorted(
            (t for t in floats if not t.constant and len(t.types) == 1), key=lambda t: t.number
        )

    def _near(self, pattern: Pattern, match: Match) -> set[Term] | None:
        """The terms that a pattern may match, from the tensors that are known; None if any."""
        if isinstance(pattern, Tensor):
            term = match.tensors.get(pattern)
            # Biases of zeros are not in the graph: they are read where an operator has none.
            if term is None or term.kind == "fill" or term not in self._users:
                return None
            return {term}
        if not isinstance(pattern, Apply) or pattern.kind == "Concat":
            return None
        inputs = [self._near(item, match) for item in pattern.inputs]
        known = [near for near in inputs if near is not None]
        if not known:
            return None
        return {user for term in min(known, key=len) for user in self._users.get(term, ())}

    def _match(self, pattern: Pattern, term: Term, match: Match) -> Iterator[Match]:
        if isinstance(pattern, Tensor):
            fits = term.constant or self.all_constant or not pattern.constant
            found = match.with_tensor(pattern, term) if fits else None
            if found is not None:
                yield found
        elif isinstance(pattern, Apply):
            found = _operator(pattern, term, match)
            if found is not None:
                for inputs in self._inputs(pattern, term):
                    yield from self._all(pattern.inputs, inputs, found)

    def _all(
        self, patterns: Sequence[Pattern], terms: Sequence[Term], match: Match
    ) -> Iterator[Match]:
        if len(patterns) != len(terms):
            return
        if not patterns:
            yield match
            return
        for found in self._match(patterns[0], terms[0], match):
            yield from self._all(patterns[1:], terms[1:], found)

    def _inputs(self, pattern: Apply, term: Term) -> Iterator[Sequence[Term]]:
        """The ways to read a term's inputs: in both orders, without a bias, a Concat in two."""
        inputs = [t for t in term.inputs if t is not None]
        if term.kind in ("Conv", "Gemm") and len(inputs) == 2 < len(pattern.inputs):
            width = term.shape[1]
            inputs.append(self.terms.fill(0.0, term.dtype, (width,)))
        if term.kind == "Concat" and len(inputs) > len(pattern.inputs) == 2:
            for count in range(1, len(inputs)):
                parts = inputs[:count], inputs[count:]
                axis = pattern.attributes["axis"]
                if all(map(_may_be, pattern.inputs, parts, (axis, axis))):
                    yield [self.terms.apply("Concat", part, term.attributes) for part in parts]
            return
        yield inputs
        if term.kind in COMMUTATIVE and len(inputs) == 2 and inputs[0] is not inputs[1]:
            yield inputs[::-1]


def _may_follow(term: Term, roots: tuple[Term, ...], symmetric: bool) -> bool:
    """Whether a term may be one more root: another one of the same type, later if symmetric."""
    if not roots:
        return True
    ordered = not symmetric or roots[-1].number < term.number
    return ordered and term not in roots and term.dtype == roots[0].dtype


def _may_be(pattern: Pattern, parts: Sequence[Term], axis: Any) -> bool:
    """Whether a pattern may match one of a Concat's parts, or several along its axis."""
    if not isinstance(pattern, Apply):
        return True
    if len(parts) > 1:
        return pattern.kind == "Concat" and pattern.attributes["axis"] == axis
    kinds = {pattern.kind} if isinstance(pattern.kind, str) else pattern.kind.kinds
    return parts[0].kind in kinds


def _chosen(rule: Rule, match: Match) -> Iterator[Match]:
    """The match with each choice of a rule's parameters that its guard allows."""
    for values in rule.parameters(match):
        chosen = {unknown.name: value for unknown, value in values.items()}
        found = Match(match.tensors, {**match.unknowns, **chosen})
        if all(rule.guard(found)):
            yield found


def _operator(pattern: Apply, term: Term, match: Match) -> Match | None:
    """The match with a term's operator and attributes; None if they differ."""
    if isinstance(pattern.kind, OneOf):
        if term.kind not in pattern.kind.kinds:
            return None
        content = (term.kind, tuple(sorted(term.attributes.items())))
        return match.with_unknown(pattern.kind.name, content)
    if term.kind != pattern.kind:
        return None
    wanted = _wanted(pattern, len(term.inputs[0].shape) if term.inputs[0] is not None else 0)
    for name, value in term.attributes.items():
        asked = pattern.attributes.get(name)
        if isinstance(asked, Unknown):
            found = match.with_unknown(asked.name, value)
            if found is None:
                return None
            match = found
        elif wanted.get(name) != value:
            return None
    return match if wanted.keys() <= term.attributes.keys() else None


@cache
def _wanted(pattern: Apply, rank: int) -> Mapping[str, Any]:
    """The known attributes of a pattern, on a first input of this rank."""
    assert isinstance(pattern.kind, str)
    known = {n: v for n, v in pattern.attributes.items() if not isinstance(v, Unknown)}
    return with_defaults(pattern.kind, known, [(1,) * rank])


def build(terms: Terms, pattern: Pattern, match: Match, node: str) -> Term:
    """The term of a target; `node` is the name of the ONNX node that it is made for."""
    if isinstance(pattern, Tensor):
        return match.tensors[pattern]
    if isinstance(pattern, Fill):
        return terms.fill(pattern.value, match.tensors[pattern.like].dtype, pattern.shape(match))
    if isinstance(pattern, Identity):
        return terms.identity(pattern.size(match), match.tensors[pattern.like].dtype)
    inputs = [build(terms, item, match, node) for item in pattern.inputs]
    if isinstance(pattern.kind, OneOf):
        kind, attributes = match.unknowns[pattern.kind.name]
        return terms.apply(kind, inputs, dict(attributes), node)
    values = {name: _value(value, match) for name, value in pattern.attributes.items()}
    return terms.apply(pattern.kind, inputs, values, node)


def _value(value: Any, match: Match) -> Any:
    if isinstance(value, Unknown):
        return match.value(value)
    return value(match) if callable(value) else value
