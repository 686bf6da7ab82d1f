"""The meaning of operators in proofs is that of the interpreter, at small sizes."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import z3

from compiler.graph.rewriting.attributes import with_defaults
from compiler.graph.rewriting.terms import Terms
from compiler.net.spec import KnownTensor
from tests.rewrite.rules import reductions
from tests.rewrite.rules.denotations import DENOTATIONS
from tests.rewrite.rules.divisions import quotient, remainder, row_major
from tests.rewrite.rules.evaluation import Array, evaluate, random_array
from tests.rewrite.rules.reasoning import Reasoner
from tests.rewrite.rules.sums import Call, Factor, Sum, Term, substituted
from tests.rewrite.rules.tensors import Symbolic, Use, variable

assert reductions

Shape = tuple[int, ...]
WINDOW = {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2)}
POOL = {**WINDOW, "kernel_shape": (2, 3)}
IMAGE = (1, 2, 3, 5)

USES: list[tuple[str, Sequence[Shape], dict[str, Any]]] = [
    ("Add", [(2, 3), (3,)], {}),
    ("Sub", [(2, 1), (1, 3)], {}),
    ("Mul", [(2, 3), ()], {}),
    ("Div", [(2, 3), (2, 1)], {}),
    ("Neg", [(2,)], {}),
    ("Reciprocal", [(2,)], {}),
    ("Transpose", [(2, 3, 4)], {"perm": (2, 0, 1)}),
    ("Concat", [(2, 1), (2, 3), (2, 2)], {"axis": 1}),
    ("Slice", [(2, 5)], {"axis": 1, "start": 1, "stop": 4}),
    ("Pad", [(2, 2)], {"pads": (0, 1, 2, 0)}),
    ("Reshape", [(2, 3, 4)], {"shape": (6, 4)}),
    ("Reshape", [(6, 4)], {"shape": (2, 3, 2, 2)}),
    ("Reshape", [(2, 3)], {"shape": (3, 2)}),
    ("MatMul", [(2, 3), (3, 4)], {}),
    ("MatMul", [(2, 1, 2, 3), (3, 3, 2)], {}),
    ("Gemm", [(3, 2), (3, 4), (4,)], {"transA": 1}),
    ("Gemm", [(2, 3), (4, 3), (2, 1)], {"transB": 1, "alpha": 2.0, "beta": 0.5}),
    ("Conv", [IMAGE, (3, 2, 2, 3), (3,)], WINDOW),
    ("Conv", [(2, 4, 5), (6, 2, 3)], {"group": 2, "pads": (1, 1)}),
    ("Conv", [(1, 3, 4), (3, 1, 2)], {"group": 3, "strides": (2,)}),
    ("AveragePool", [IMAGE], POOL),
    ("AveragePool", [IMAGE], {**POOL, "count_include_pad": 1}),
    ("MaxPool", [IMAGE], POOL),
    ("GlobalAveragePool", [IMAGE], {}),
    ("GlobalMaxPool", [IMAGE], {}),
    ("ReduceMean", [(2, 3, 2)], {"axes": (1,)}),
    ("ReduceSum", [(2, 3, 2)], {"axes": (1,), "keepdims": 0}),
    ("ReduceMax", [(2, 3, 2)], {"axes": (1,)}),
    ("ReduceMin", [(2, 3)], {"axes": (0, 1)}),
    ("Softmax", [(2, 3)], {"axis": 1}),
    ("LayerNormalization", [(2, 3), (3,), (3,)], {"axis": 1}),
    ("RMSNormalization", [(2, 3), (3,)], {"axis": 1}),
]

PLACES = 7
"""About how many elements of a result are compared."""
FUNCTIONS = {"Reciprocal": lambda v: 1 / v, "Exp": np.exp, "Sqrt": np.sqrt}
SETS = {"largest": max, "least": min}


class Elements:
    """Values of sums whose tensors are arrays."""

    def __init__(self, arrays: dict[str, Array]):
        self.arrays = arrays

    def value(self, value: Sum) -> float:
        """The value of a sum without free variables."""
        return sum(
            float(term.coefficient) * self._factors(term.factors)
            for outer in value
            for term in summands(outer)
        )

    def _factors(self, factors: tuple[Factor, ...]) -> float:
        return float(np.prod([self._factor(factor) for factor in factors]))

    def _factor(self, factor: Factor) -> float:
        if isinstance(factor, Call):
            return self._call(factor)
        if factor.name == "integer":
            return number(factor.indices[0])
        return self.arrays[factor.name][tuple(int(number(i)) for i in factor.indices)]

    def _call(self, factor: Call) -> float:
        (argument,) = factor.arguments
        if factor.name not in SETS:
            return FUNCTIONS[factor.name](self.value(argument))
        calls = [t.factors[0] for outer in argument for t in summands(outer)]
        elements = [c.arguments[0] for c in calls if isinstance(c, Call)]
        return SETS[factor.name](map(self.value, elements))


def summands(term: Term) -> Iterator[Term]:
    """A term at each number of its variables where its conditions hold."""
    ranges = [range(_bound(term, variable)) for variable in term.variables]
    for numbers in product(*ranges):
        chosen = list(zip(term.variables, map(z3.IntVal, numbers), strict=True))
        (inner,) = substituted((term,), chosen)
        if all(z3.is_true(simplified(c)) for c in inner.conditions):
            yield inner


def _bound(term: Term, variable: Any) -> int:
    """The number below which a variable must be."""
    (bound,) = (
        c.arg(1)
        for c in term.conditions
        if c.decl().kind() == z3.Z3_OP_LT and c.arg(0).eq(variable)
    )
    return number(bound)


def simplified(term: Any) -> Any:
    """A term whose divisions are computed."""
    a, b, c = (z3.Var(i, z3.IntSort()) for i in range(3))
    meaning = [(quotient, a / b), (remainder, a % b), (row_major, a * c + b)]
    return z3.simplify(z3.substitute_funs(term, *meaning))


def number(index: Any) -> int:
    """The number that an index without variables is."""
    return index if isinstance(index, int) else simplified(index).as_long()


def denoted(kind: str, shapes: Sequence[Shape], attributes: dict[str, Any]) -> Symbolic:
    """The meaning of an operator on tensors named by position."""
    reasoner = Reasoner()
    inputs = [variable(str(i), shape) for i, shape in enumerate(shapes)]
    full = with_defaults(kind, attributes, list(shapes))

    def require(condition: Any) -> None:
        assert z3.is_true(simplified(condition)), condition

    return DENOTATIONS[kind](Use(kind, inputs, full, reasoner, require, is_source=False))


@pytest.mark.parametrize(("kind", "shapes", "attributes"), USES)
def test_meaning_is_the_interpreters(
    kind: str, shapes: Sequence[Shape], attributes: dict[str, Any]
):
    terms, generator = Terms(), np.random.default_rng(0)
    leaves = {
        terms.leaf("input", KnownTensor("float64", shape), index=i): random_array(generator, shape)
        for i, shape in enumerate(shapes)
    }
    (expected,) = evaluate((terms.apply(kind, list(leaves), attributes),), leaves)
    tensor = denoted(kind, shapes, attributes)
    assert tuple(map(number, tensor.shape)) == expected.shape
    elements = Elements({str(i): array for i, array in enumerate(leaves.values())})
    places = list(np.ndindex(*expected.shape))
    for place in places[:: max(1, len(places) // PLACES)]:
        value = elements.value(tensor.at(tuple(map(z3.IntVal, place))))
        assert np.isclose(value, expected[place]), place


def test_every_meaning_is_tested():
    assert {kind for kind, _, _ in USES} | {"Identity"} == set(DENOTATIONS)
