"""Matches of rules at terms, and their replacements, whichever graph the terms are in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

from compiler.graph.rewriting.attributes import with_defaults
from compiler.graph.rewriting.terms import Term, Terms
from compiler.net.operators import OPERATORS, Mismatch
from compiler.rewrite.patterns import Apply, Fill, Identity, OneOf, Pattern, Tensor, Unknown
from compiler.rewrite.rule import Rule
from compiler.tensors.extents import Undecided

Item = TypeVar("Item")


@dataclass(frozen=True, eq=False, slots=True)
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
        matched = self.tensors.get(tensor)
        if matched is not None:
            return self if matched is term else None
        if tensor.rank not in (None, len(term.shape)):
            return None
        return Match({**self.tensors, tensor: term}, self.unknowns)

    def with_unknown(self, name: str, value: Any) -> "Match | None":
        """The match with one more unknown; None if it stands for another value."""
        if name in self.unknowns:
            return self if self.unknowns[name] == value else None
        return Match(self.tensors, {**self.unknowns, name: value})


@dataclass(frozen=True, eq=False, slots=True)
class Site:
    """A place where a rule applies: the terms that it replaces, and what was matched.

    Of a Concat of several parts a rule may replace two, from the part `first` on.
    """

    rule: Rule
    roots: tuple[Term, ...]
    match: Match
    first: int | None = None


NOTHING = Match()
"""The match of no pattern."""


@dataclass(slots=True)
class Replayed(Generic[Item]):
    """The items of an iterator for several readers, fetched when the first one asks for them."""

    source: Iterator[Item] | None
    found: list[Item] = field(default_factory=list[Item])

    def __iter__(self) -> Iterator[Item]:
        return iter(self.found) if self.source is None else self._read()

    def _read(self) -> Iterator[Item]:
        number = 0
        while number < len(self.found) or self._advance():
            yield self.found[number]
            number += 1

    def _advance(self) -> bool:
        """Ask the source for one more; whether there was one."""
        for item in self.source or ():
            self.found.append(item)
            return True
        self.source = None
        return False


class Matches:
    """Matches of patterns and sites of rules at terms: each is found once, when it is asked for.

    With `all_constant` every tensor may stand for a constant one of a rule, as in derivations,
    where a weight is any tensor.
    """

    def __init__(self, terms: Terms, *, all_constant: bool = False):
        self.terms = terms
        self.all_constant = all_constant
        self._matches: dict[tuple[Pattern, Term, Match], Replayed[Match]] = {}
        self._single: dict[tuple[Rule, Term], Iterable[Site]] = {}
        self._pairs: dict[tuple[Rule, Term], Replayed[tuple[int, Match]]] = {}
        self._sites: dict[tuple[Rule, tuple[Term, ...], Match, int | None], Replayed[Site]] = {}
        self._changes: dict[Site, Mapping[Term, Term]] = {}
        self._halves: dict[tuple[Term, int], Sequence[Term]] = {}

    def at(self, pattern: Pattern, term: Term, match: Match) -> Iterable[Match]:
        """Every extension of a match by which a pattern matches a term."""
        key = (pattern, term, match)
        if key not in self._matches:
            self._matches[key] = Replayed(self._match(pattern, term, match))
        return self._matches[key]

    def single(self, rule: Rule, term: Term) -> Iterable[Site]:
        """The sites of a rule of one source at a term."""
        key = (rule, term)
        sites = self._single.get(key)
        if sites is None:
            sites = self._single[key] = self._first_sites(rule, term)
        return sites

    def _first_sites(self, rule: Rule, term: Term) -> Iterable[Site]:
        pattern = rule.source[0]
        if isinstance(pattern, Apply) and not _has_inputs(pattern, term):
            return ()
        matches = self._match(pattern, term, NOTHING)
        chosen = (choice for match in matches for choice in _chosen(rule, match))
        return Replayed(Site(rule, (term,), choice) for choice in chosen)

    def pairs(self, rule: Rule, concat: Term) -> Iterable[tuple[int, Match]]:
        """Where a rule for a Concat of two matches neighbours of a longer one: from which part."""
        key = (rule, concat)
        if key not in self._pairs:
            self._pairs[key] = Replayed(self._neighbours(rule.source[0], concat))
        return self._pairs[key]

    def sites(
        self, rule: Rule, roots: tuple[Term, ...], match: Match, first: int | None = None
    ) -> Iterable[Site]:
        """The sites of a rule for each choice of its parameters."""
        key = (rule, roots, match, first)
        if key not in self._sites:
            choices = (Site(rule, roots, choice, first) for choice in _chosen(rule, match))
            self._sites[key] = Replayed(choices)
        return self._sites[key]

    def changes(self, site: Site) -> Mapping[Term, Term]:
        """The terms by which a rule replaces others.

        Raises Mismatch if types do not fit, which a proof of the rule excludes.
        """
        if site not in self._changes:
            self._changes[site] = self._changed(site)
        return self._changes[site]

    def _changed(self, site: Site) -> Mapping[Term, Term]:
        node = site.roots[0].node
        new = [build(self.terms, pattern, site.match, node.node) for pattern in site.rule.target]
        if site.first is not None:
            inputs = [*node.inputs[: site.first], new[0], *node.inputs[site.first + 2 :]]
            new = [self.terms.apply("Concat", inputs, node.attributes, node.node)]
        changed = dict(zip(site.roots, new, strict=True))
        if any(old.types != term.types for old, term in changed.items()):
            raise Mismatch(f"the rule {site.rule.name} changes a type")
        return {old: term for old, term in changed.items() if old is not term}

    def _neighbours(self, pattern: Pattern, concat: Term) -> Iterator[tuple[int, Match]]:
        assert isinstance(pattern, Apply)
        operands = list(concat.operands)
        # a Concat of two is matched as it is
        for i in range(len(operands) - 1 if len(operands) > 2 else 0):
            singles = operands[i : i + 1], operands[i + 1 : i + 2]
            if all(map(_may_be, pattern.inputs, singles, (None, None))):
                pair = self.terms.apply("Concat", operands[i : i + 2], concat.node.attributes)
                for match in self._match(pattern, pair, NOTHING):
                    yield i, match

    def _match(self, pattern: Pattern, term: Term, match: Match) -> Iterator[Match]:
        if isinstance(pattern, Tensor):
            fits = term.constant or self.all_constant or not pattern.constant
            extended = match.with_tensor(pattern, term) if fits else None
            if extended is not None:
                yield extended
        elif isinstance(pattern, Apply):
            extended = _operator(pattern, term, match)
            if extended is not None:
                for inputs in self._inputs(pattern, term):
                    yield from self._all(pattern.inputs, inputs, extended)

    def _all(
        self, patterns: Sequence[Pattern], terms: Sequence[Term], match: Match
    ) -> Iterator[Match]:
        if len(patterns) != len(terms):
            return
        if not patterns:
            yield match
            return
        for extended in self._match(patterns[0], terms[0], match):
            yield from self._all(patterns[1:], terms[1:], extended)

    def _inputs(self, pattern: Apply, term: Term) -> Iterator[Sequence[Term]]:
        """The ways to read a term's inputs: in both orders, without a bias, a Concat in two."""
        inputs = [t for t in term.node.inputs if t is not None]
        if term.node.type in ("Conv", "Gemm") and len(inputs) == 2 < len(pattern.inputs):
            width = term.shape[1]
            inputs.append(self.terms.fill(0.0, term.dtype, (width,)))
        if term.node.type == "Concat" and len(inputs) > len(pattern.inputs) == 2:
            for count in range(1, len(inputs)):
                halves = inputs[:count], inputs[count:]
                axis = pattern.attributes["axis"]
                if all(map(_may_be, pattern.inputs, halves, (axis, axis))):
                    yield self._halves_of(term, count)
            return
        yield inputs
        entry = OPERATORS.get(term.node.type)
        commutative = entry is not None and entry.facts.commutative
        if commutative and len(inputs) == 2 and inputs[0] is not inputs[1]:
            yield inputs[::-1]  # equal operands would match twice

    def _halves_of(self, concat: Term, count: int) -> Sequence[Term]:
        """Two Concats whose Concat is a given one: of its first parts and of the others."""
        key = (concat, count)
        if key not in self._halves:
            halves = concat.operands[:count], concat.operands[count:]
            concats = [self.terms.apply("Concat", half, concat.node.attributes) for half in halves]
            self._halves[key] = concats
        return self._halves[key]


def _has_inputs(pattern: Apply, term: Term) -> bool:
    """Whether a term has an input for each operator that a pattern reads: a Concat may have halves
    that are none of its inputs, and a convolution gets a bias when it is matched."""
    if term.node.type == "Concat" or len(term.operands) < len(pattern.inputs):
        return True
    kinds = [operand.node.type for operand in term.operands]
    return all(any(kind in accepted for kind in kinds) for accepted in _asked(pattern))


@cache
def _asked(pattern: Apply) -> Sequence[frozenset[str]]:
    """The kinds of each operator that a pattern reads."""
    return [_kinds(item) for item in pattern.inputs if isinstance(item, Apply)]


def _kinds(pattern: Apply) -> frozenset[str]:
    return frozenset({pattern.kind}) if isinstance(pattern.kind, str) else pattern.kind.kinds


def _may_be(pattern: Pattern, terms: Sequence[Term], axis: Any) -> bool:
    """Whether a pattern may match one input of a Concat, or several along its axis."""
    if not isinstance(pattern, Apply):
        return True
    if len(terms) > 1:
        return pattern.kind == "Concat" and pattern.attributes["axis"] == axis
    return terms[0].node.type in _kinds(pattern)


def _chosen(rule: Rule, match: Match) -> Iterator[Match]:
    """The match with each choice of a rule's parameters that its guard allows for all sizes."""
    try:
        for values in rule.parameters(match):
            chosen = {unknown.name: value for unknown, value in values.items()}
            complete = Match(match.tensors, {**match.unknowns, **chosen})
            if all(rule.guard(complete)):
                yield complete
    except Undecided:
        return


def _operator(pattern: Apply, term: Term, match: Match) -> Match | None:
    """The match with a term's operator and attributes; None if they differ."""
    if isinstance(pattern.kind, OneOf):
        if term.node.type not in pattern.kind.kinds:
            return None
        content = (term.node.type, tuple(sorted(term.node.attributes.items())))
        return match.with_unknown(pattern.kind.name, content)
    if term.node.type != pattern.kind:
        return None
    unknowns = _unknowns(pattern, term, match.unknowns)
    if unknowns is None or len(unknowns) == len(match.unknowns):
        return None if unknowns is None else match
    return Match(match.tensors, unknowns)


def _unknowns(pattern: Apply, term: Term, bound: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Known values and those of a term's attributes; None if an attribute differs."""
    first = term.node.inputs[0]
    attributes = term.node.attributes
    fixed = _wanted(pattern, 0 if first is None else len(first.shape))
    if not fixed.keys() <= attributes.keys():
        return None
    values = dict(bound)
    for name, value in attributes.items():
        expected = pattern.attributes.get(name)
        named = isinstance(expected, Unknown)
        if value != (values.setdefault(expected.name, value) if named else fixed.get(name)):
            return None
    return values


@cache
def _wanted(pattern: Apply, rank: int) -> Mapping[str, Any]:
    """The known attributes of a pattern, on a first input of this rank."""
    assert isinstance(pattern.kind, str)
    literal = {n: v for n, v in pattern.attributes.items() if not isinstance(v, Unknown)}
    return with_defaults(pattern.kind, literal, [(1,) * rank])


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
