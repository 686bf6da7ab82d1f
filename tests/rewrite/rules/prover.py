"""Proofs that rules keep types and elements, for all sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any

import z3

from compiler.graph.rewriting.attributes import with_defaults
from compiler.net.operators import OPERATORS, Kind
from compiler.rewrite.patterns import Apply, Fill, Identity, OneOf, Pattern, Tensor, Unknown
from compiler.rewrite.rule import Case, Rule
from tests.rewrite.rules import reductions
from tests.rewrite.rules.denotations import DENOTATIONS, combined
from tests.rewrite.rules.divisions import Formula, Index, divided
from tests.rewrite.rules.equality import check_equal
from tests.rewrite.rules.pools import any_pool
from tests.rewrite.rules.reasoning import Reasoner, Unproved
from tests.rewrite.rules.resizes import any_resize, with_all_scaled
from tests.rewrite.rules.sizes import Size, formula, symbol
from tests.rewrite.rules.sums import Sum, call, number, where
from tests.rewrite.rules.tensors import Symbolic, Use, inside, variable

assert reductions

FLAGS = ("transA", "transB", "keepdims", "count_include_pad")
"""Attributes that are 0 or 1; a proof goes through both."""


@dataclass
class SymbolicBindings:
    """The tensors and unknowns of a rule as symbols."""

    case: Case
    shapes: dict[str, tuple[Index, ...]] = field(default_factory=dict[str, tuple[Index, ...]])
    unknowns: dict[str, Any] = field(default_factory=dict[str, Any])

    def shape(self, tensor: Tensor) -> tuple[Any, ...]:
        """The extents of a tensor."""
        return tuple(Size(n, divided) for n in self.extents(tensor))

    def extents(self, tensor: Tensor) -> tuple[Index, ...]:
        """The extents of a tensor as symbols."""
        rank = tensor.rank
        if rank is None:
            rank = self.case.ranks.get(tensor.name, self.case.rank)
        if tensor.name not in self.shapes:
            names = (f"{tensor.name}.{axis}" for axis in range(rank))
            self.shapes[tensor.name] = tuple(map(z3.Int, names))
        return self.shapes[tensor.name]

    def value(self, unknown: Unknown) -> Any:
        """The value of an attribute: the case's, or one or more symbols."""
        if unknown.name in self.case.unknowns:
            return self.case.unknowns[unknown.name]
        if unknown.name not in self.unknowns:
            count = self.case.numbers.get(unknown.name)
            names = [f"{unknown.name}.{i}" for i in range(count or 1)]
            sizes = tuple(Size(z3.Int(name), divided) for name in names)
            self.unknowns[unknown.name] = sizes[0] if count is None else sizes
        return self.unknowns[unknown.name]


class Proof:
    """A rule in one case, with everything that its source and guard say as known."""

    def __init__(self, rule: Rule, case: Case):
        self.rule, self.case = rule, case
        self.reasoner = Reasoner()
        self.bindings = SymbolicBindings(case)
        self.is_source = True

    def run(self) -> None:
        """Raise Unproved unless the target is well typed and equal wherever the source is."""
        self.compare(self.assume_source())

    def compare(self, sources: Sequence[Symbolic]) -> None:
        """Raise Unproved unless the target is well typed and equal to its sources."""
        if not self.reasoner.possible([]):
            raise Unproved("source and guard hold for no sizes")
        self.is_source = False
        self.reasoner.settle(
            [symbol(v) for v in self.bindings.unknowns.values() if isinstance(v, Size)]
        )
        targets = [self.tensor(pattern) for pattern in self.rule.target]
        for place, (source, target) in enumerate(zip(sources, targets, strict=True)):
            self._compare(source, target, f"result {place}")

    def assume_source(self) -> list[Symbolic]:
        """Take the guard and the types of the source as known; its results."""
        self._assume_guard()
        return [self.tensor(pattern) for pattern in self.rule.source]

    def _assume_guard(self) -> None:
        for tensor in tensors_of(self.rule):
            self.reasoner.assume(*(n >= 1 for n in self.bindings.extents(tensor)))
        self.reasoner.assume(*map(formula, self.rule.guard(self.bindings)))

    def _compare(self, source: Symbolic, target: Symbolic, what: str) -> None:
        if len(source.shape) != len(target.shape):
            raise Unproved(f"{what} has another rank")
        for axis, (old, new) in enumerate(zip(source.shape, target.shape, strict=True)):
            if not self.reasoner.same(old, new):
                raise Unproved(f"{what}: axis {axis} is {new} instead of {old}")
        indices = tuple(self.reasoner.fresh("i") for _ in source.shape)
        pairs = zip(indices, source.shape, strict=True)
        with self.reasoner.assuming([c for pair in pairs for c in inside(*pair)]):
            check_equal(self.reasoner, source.at(indices), target.at(indices), what)

    def require(self, condition: Formula) -> None:
        """Take a condition as known in the source, prove it in the target."""
        if self.is_source:
            self.reasoner.assume(condition)
        elif not self.reasoner.follows(condition):
            raise Unproved(f"the target's types do not fit: {condition}")

    def tensor(self, pattern: Pattern) -> Symbolic:
        """The tensor that a pattern stands for."""
        if isinstance(pattern, Tensor):
            return variable(pattern.name, self.bindings.extents(pattern))
        if isinstance(pattern, Fill):
            shape = symbols(pattern.shape(self.bindings))
            return Symbolic(shape, lambda _: number(Fraction(pattern.value)))
        if isinstance(pattern, Identity):
            extent = symbol(pattern.size(self.bindings))
            return Symbolic((extent, extent), lambda i: where([i[0] == i[1]], number(1)))
        result = self._operator(pattern)
        if self.is_source:
            self.reasoner.assume(*(n >= 1 for n in result.shape if not isinstance(n, int)))
        return result

    def _operator(self, pattern: Apply) -> Symbolic:
        inputs = [self.tensor(item) for item in pattern.inputs]
        if isinstance(pattern.kind, OneOf):
            return self._any_of(pattern.kind, inputs)
        given = {name: self._value(value) for name, value in pattern.attributes.items()}
        full = with_defaults(pattern.kind, given, [x.shape for x in inputs])
        use = Use(pattern.kind, inputs, full, self.reasoner, self.require, self.is_source)
        if pattern.kind in DENOTATIONS:
            return DENOTATIONS[pattern.kind](use)
        check_elementwise(pattern.kind, len(inputs))
        return combined(use, self._function(pattern.kind))

    def _any_of(self, kind: OneOf, inputs: Sequence[Symbolic]) -> Symbolic:
        given = self.case.unknowns.get(kind.name)
        if given is not None and OPERATORS[given[0]].kind is not Kind.ELEMENTWISE:
            use = Use(given[0], inputs, {}, self.reasoner, self.require, self.is_source)
            if given[0] == "Resize":
                return any_resize(use, kind.name, dict(given[1]))
            return any_pool(use, kind.name)
        for name in kind.kinds:
            check_elementwise(name, len(inputs))
        use = Use(kind.name, inputs, {}, self.reasoner, self.require, self.is_source)
        return combined(use, self._function(f"any {kind.name}"))

    def _function(self, name: str) -> Any:
        def function(values: Sequence[Sum]) -> Sum:
            return call(self.reasoner, name, *values)

        return function

    def _value(self, value: Any) -> Any:
        if isinstance(value, Unknown):
            value = self.bindings.value(value)
        elif callable(value):
            value = value(self.bindings)
        return symbols(value) if isinstance(value, tuple | list) else symbol(value)


def symbols(values: Sequence[Any]) -> tuple[Index, ...]:
    """The symbols of sizes."""
    return tuple(map(symbol, values))


def check_elementwise(kind: str, count: int) -> None:
    """Raise Unproved unless an operator computes an element from those of its inputs."""
    operator = OPERATORS[kind]
    most = operator.most_inputs
    fits = operator.least_inputs <= count and (most is None or count <= most)
    if operator.kind is not Kind.ELEMENTWISE or operator.decided or not fits:
        raise Unproved(f"proofs have no meaning of {kind} of {count} inputs")


def tensors_of(rule: Rule) -> list[Tensor]:
    """The tensors of a rule's source."""
    found: dict[str, Tensor] = {}
    pending = list(rule.source)
    while pending:
        pattern = pending.pop(0)
        if isinstance(pattern, Tensor):
            found[pattern.name] = pattern
        elif isinstance(pattern, Apply):
            pending += pattern.inputs
    return list(found.values())


def applications(patterns: Sequence[Pattern]) -> Iterator[Apply]:
    """The operators of patterns."""
    for pattern in patterns:
        if isinstance(pattern, Apply):
            yield pattern
            yield from applications(pattern.inputs)


def cases_of(rule: Rule, case: Case) -> Iterator[Case]:
    """A case for each value of the flags that it does not give."""
    asked = {
        value.name: None
        for pattern in applications(rule.source)
        for name, value in pattern.attributes.items()
        if name in FLAGS and isinstance(value, Unknown) and value.name not in case.unknowns
    }
    for values in product((0, 1), repeat=len(asked)):
        flags: Mapping[str, Any] = dict(zip(asked, values, strict=True))
        yield replace(case, unknowns={**case.unknowns, **flags})


def prove(rule: Rule, case: Case) -> None:
    """Raise Unproved unless a rule is proved in a case."""
    for full in cases_of(rule, case):
        Proof(rule, full).run()
    for wider in _wider(rule, case):
        Proof(rule, wider).run()


def _wider(rule: Rule, case: Case) -> Iterator[Case]:
    """The case with other scales of a Resize, if the guard allows them."""
    for pattern in applications(rule.source):
        if isinstance(pattern.kind, OneOf):
            wider = with_all_scaled(case, pattern.kind)
            if wider is not None and False not in rule.guard(SymbolicBindings(wider)):
                yield wider
                return
