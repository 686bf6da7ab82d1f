"""Small sizes for which a rule applies, and both sides of it on random integers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import z3

from compiler.graph.rewriting.terms import Graph, Term, Terms
from compiler.net.spec import KnownTensor
from compiler.rewrite.matches import Match, build
from compiler.rewrite.patterns import OneOf
from compiler.rewrite.rule import Case, Rule
from tests.rewrite.rules.evaluation import evaluate, random_array
from tests.rewrite.rules.prover import Proof, applications, tensors_of
from tests.rewrite.rules.reasoning import EFFORT
from tests.rewrite.rules.sizes import Size


def symbols_of(proof: Proof) -> list[Any]:
    """The extents and unknown integers of a rule."""
    extents = [n for shape in proof.bindings.shapes.values() for n in shape]
    return extents + [
        size.symbol for value in proof.bindings.unknowns.values() for size in _flat(value)
    ]


def _flat(value: Any) -> tuple[Size, ...]:
    return value if isinstance(value, tuple) else (value,)


def sizes(proof: Proof, largest: int, seed: int | None = None) -> Iterator[z3.ModelRef]:
    """The ways to choose integers up to `largest` for which source and guard hold."""
    symbols = symbols_of(proof)
    solver = z3.Solver()
    solver.set("rlimit", EFFORT)
    if seed is not None:
        solver.set("random_seed", seed)
        solver.set("phase_selection", 5)
    known = proof.reasoner.known
    solver.add(*known, *proof.reasoner.definitions.facts(known))
    solver.add(*(n <= largest for n in symbols), *(n >= 0 for n in symbols))
    while solver.check() == z3.sat:
        model = solver.model()
        yield model
        solver.add(z3.Or(*(n != model.eval(n, model_completion=True) for n in symbols)))


class Example:
    """A rule at some sizes: both sides as graphs."""

    def __init__(self, proof: Proof, model: z3.ModelRef, generator: np.random.Generator):
        self.terms, self.generator = Terms(), generator
        rule = proof.rule
        tensors = {t: self._leaf(proof, model, i) for i, t in enumerate(tensors_of(rule))}
        unknowns = {name: _number(model, v) for name, v in proof.bindings.unknowns.items()}
        unknowns |= proof.case.unknowns
        for pattern in applications(rule.source):
            if isinstance(pattern.kind, OneOf):
                unknowns.setdefault(pattern.kind.name, self._operator(pattern.kind))
        self.match = Match(tensors, unknowns)

    def _leaf(self, proof: Proof, model: z3.ModelRef, index: int) -> Term:
        tensor = tensors_of(proof.rule)[index]
        shape = tuple(_number(model, n) for n in proof.bindings.extents(tensor))
        return self.terms.leaf("input", KnownTensor("float64", shape), index=index)

    def _operator(self, kind: OneOf) -> tuple[str, tuple[()]]:
        return str(self.generator.choice(sorted(kind.kinds))), ()

    def graphs(self, rule: Rule) -> tuple[Graph, Graph]:
        """Source and target; raises Mismatch if one is ill typed."""
        source = tuple(build(self.terms, p, self.match, "") for p in rule.source)
        return source, tuple(build(self.terms, p, self.match, "") for p in rule.target)

    def holds(self, rule: Rule) -> bool:
        """Whether both sides are equal for random integers."""
        source, target = self.graphs(rule)
        leaves = {t: random_array(self.generator, t.shape) for t in self.match.tensors.values()}
        pairs = zip(evaluate(source, leaves), evaluate(target, leaves), strict=True)
        return all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
            for a, b in pairs
        )


def _number(model: z3.ModelRef, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_number(model, item) for item in value)
    symbol = value.symbol if isinstance(value, Size) else value
    return (
        symbol if isinstance(symbol, int) else model.eval(symbol, model_completion=True).as_long()
    )


def typed_source(rule: Rule, case: Case) -> Proof:
    """A proof in which the source and guard are known."""
    proof = Proof(rule, case)
    proof.assume_source()
    return proof
