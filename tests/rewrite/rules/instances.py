"""Small graphs in which a rule's source stands, drawn at random from its cases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from compiler.errors import FlowloomError
from compiler.graph.rewriting.attributes import as_operator, with_defaults
from compiler.graph.rewriting.terms import Graph, Term, Terms, reachable
from compiler.net.operators import KnownTensor, Mismatch, infer
from compiler.rewrite.matches import Match
from compiler.rewrite.patterns import Apply, OneOf, Pattern, Tensor, Unknown
from compiler.rewrite.rule import Case, Rule
from tests.graphs import GraphBuilder
from tests.strategies import Model

DTYPE = "float64"
EXTENTS = (1, 1, 2, 2, 2, 3, 4)
CHOICES: Mapping[str, Sequence[Any]] = {
    "strides": (1, 1, 1, 2),
    "dilations": (1, 1, 2),
    "pads": (0, 0, 0, 1, 2),
    "margin": (0, 1),
    "group": (1, 1, 2, 2, 3),
}
"""The values drawn for unknowns, by the last word of their name; others are small numbers."""


@dataclass(frozen=True)
class Instance:
    """The source of a rule on small tensors; the match names them, the target's unknowns too."""

    match: Match
    terms: Terms
    roots: Graph


def patterns_of(patterns: Sequence[Pattern]) -> Iterator[Pattern]:
    """Some patterns and all that they are applied to."""
    for pattern in patterns:
        yield pattern
        if isinstance(pattern, Apply):
            yield from patterns_of(pattern.inputs)


def drawn(rule: Rule, random: Random, cases: Sequence[Case] = ()) -> Instance | None:
    """One try to draw an instance whose types fit; the guard may refuse it.

    It is one of the rule's cases, or of others.
    """
    case = random.choice(cases or rule.cases)
    terms = Terms()
    tensors: dict[Tensor, Term] = {}
    unknowns = dict(case.unknowns)
    for pattern in patterns_of(rule.source):
        if isinstance(pattern, Tensor) and pattern not in tensors:
            tensors[pattern] = _leaf(terms, pattern, case, list(tensors.values()), random)
        if isinstance(pattern, Apply):
            _draw_unknowns(unknowns, pattern, case, random)
    match = Match(tensors, unknowns)
    try:
        roots = tuple(_built(terms, pattern, match) for pattern in rule.source)
    except (Mismatch, FlowloomError):
        return None
    parameters = list(rule.parameters(match))
    if not parameters:
        return None
    chosen = {unknown.name: value for unknown, value in random.choice(parameters).items()}
    return Instance(Match(tensors, {**unknowns, **chosen, **case.unknowns}), terms, roots)


def _leaf(terms: Terms, tensor: Tensor, case: Case, others: Sequence[Term], random: Random) -> Term:
    rank = tensor.rank if tensor.rank is not None else case.ranks.get(tensor.name, case.rank)
    kind = "weight" if tensor.constant else "input"
    like = [other.shape for other in others if len(other.shape) == rank and other.node.type == kind]
    shapes = [_like(random.choice(like), random) if like else _shape(rank, random)]
    images = [
        other.shape for other in others if len(other.shape) > 2 and other.node.type == "input"
    ]
    if images and kind == "weight" and rank > 1:
        shapes += [_kernel(rank, images[0], random), _channel_scale(rank, images[0])]
    return terms.leaf(kind, KnownTensor(DTYPE, random.choice(shapes)), key=tensor.name)


def _kernel(rank: int, image: tuple[int, ...], random: Random) -> tuple[int, ...]:
    """The shape of a kernel that fits an image, dense or depthwise."""
    filters, channels = random.choice([1, 2, 3, image[1]]), random.choice([1, image[1]])
    return (filters, channels, *random.choices((1, 1, 2, 3), k=rank - 2))


def _channel_scale(rank: int, image: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one number for each channel of an image."""
    return (1, image[1], *(1,) * (len(image) - 2))[-rank:]


def _shape(rank: int, random: Random) -> tuple[int, ...]:
    extents = random.choices(EXTENTS, k=2)
    return tuple(random.choice([*extents, random.choice(EXTENTS)]) for _ in range(rank))


def _like(shape: tuple[int, ...], random: Random) -> tuple[int, ...]:
    """The shape of another tensor, some extents drawn again: most rules need equal ones."""
    first, chance = random.choice([(0, 0.0), (0, 0.2), (0, 0.5), (2, 0.8)])
    return tuple(
        random.choice(EXTENTS) if i >= first and random.random() < chance else extent
        for i, extent in enumerate(shape)
    )


def _built(terms: Terms, pattern: Pattern, match: Match) -> Term:
    """The term of a source as it is written, which is not simplified; raises Mismatch."""
    if isinstance(pattern, Tensor):
        return match.tensors[pattern]
    assert isinstance(pattern, Apply)
    inputs = [_built(terms, item, match) for item in pattern.inputs]
    if isinstance(pattern.kind, OneOf):
        kind, given = match.unknowns[pattern.kind.name]
        attributes = dict(given)
    else:
        kind = pattern.kind
        values = pattern.attributes.items()
        attributes = {n: match.value(v) if isinstance(v, Unknown) else v for n, v in values}
    if kind == "Slice" and not _cuts(inputs[0].shape, attributes):
        raise Mismatch("bounds out of order, or all of another axis than the first")
    full = with_defaults(kind, attributes, [term.shape for term in inputs])
    tensors = [KnownTensor(term.dtype, term.shape) for term in inputs]
    (type,) = infer(kind, tensors, as_operator(tensors, full))
    return terms.opaque(kind, inputs, full, [KnownTensor(type.dtype, type.shape)])


def _cuts(shape: tuple[int, ...], bounds: Mapping[str, Any]) -> bool:
    start, stop, extent = bounds["start"], bounds["stop"], shape[bounds["axis"]]
    return 0 <= start <= stop <= extent and (stop - start < extent or not bounds["axis"])


def _draw_unknowns(unknowns: dict[str, Any], pattern: Apply, case: Case, random: Random) -> None:
    if isinstance(pattern.kind, OneOf):
        kind = random.choice(sorted(pattern.kind.kinds))
        unknowns.setdefault(pattern.kind.name, (kind, ()))
    for value in pattern.attributes.values():
        if isinstance(value, Unknown) and value.name not in unknowns:
            unknowns[value.name] = _number(value.name, case, random)


def _number(name: str, case: Case, random: Random) -> Any:
    choices = CHOICES.get(name.split()[-1], range(4))
    if name not in case.numbers:
        return random.choice(choices)
    count = case.numbers[name]
    if random.random() < 0.5:
        return (random.choice(choices),) * count
    return tuple(random.choices(choices, k=count))


def model_of(terms: Graph, random: np.random.Generator, *, whole: bool = False) -> Model:
    """The graph that computes some terms, with data for its leaves."""
    return _Writer(random, whole).model(terms)


class _Writer:
    def __init__(self, random: np.random.Generator, whole: bool):
        self.random, self.whole = random, whole
        self.build = GraphBuilder()
        self.inputs: dict[str, Any] = {}
        self.values: dict[Term, SSAValue] = {}

    def model(self, roots: Graph) -> Model:
        for term in reachable(roots):
            self.values[term] = self.leaf(term) if not term.node.inputs else self.operator(term)
        module = self.build.finish(*(self.values[term] for term in roots))
        return Model(module, self.build.weights, self.inputs)

    def leaf(self, term: Term) -> SSAValue:
        array = self.data(term.shape)
        if term.constant:
            return self.build.weight(array)
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        return self.build.input(name, term.shape, DTYPE)

    def data(self, shape: tuple[int, ...]) -> Any:
        if self.whole:
            return self.random.integers(-4, 5, shape).astype(DTYPE)
        return self.random.uniform(0.25, 2, shape)

    def operator(self, term: Term) -> SSAValue:
        tensors = [t and t.types[0] for t in term.node.inputs]
        attributes = as_operator(tensors, term.node.attributes)
        values = [self.build.none() if t is None else self.values[t] for t in term.node.inputs]
        own = {name: value for name, value in attributes.items() if name != "shape"}
        return self.build.op(term.node.type, *values, shape=term.shape, dtype=term.dtype, **own)
