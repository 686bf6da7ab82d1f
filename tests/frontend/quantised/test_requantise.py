"""Scales of quantisations divided into the scales of what they quantise."""

import numpy as np
import pytest

from compiler.frontend.builder import Builder
from compiler.frontend.expansion import Expansion
from compiler.frontend.graph import Graph, Operator, Value
from compiler.frontend.quantised.requantise import divided, is_divisor


def made(*steps: str) -> tuple[Builder, Value, dict[Value, Operator]]:
    """A value computed from an input by steps with the constant 3."""
    builder = Builder(Graph([]), Expansion())
    value = Value("x", "float32", (2,))
    for step in steps:
        others = [] if step == "Relu" else [builder.constant(3.0, "float32")]
        value = builder.one(step, value, *others)
    makers = {v: op for op in builder.graph.operators for v in op.outputs if v is not None}
    return builder, value, makers


@pytest.mark.parametrize(
    "steps", [["Mul"], ["Mul", "Add"], ["Mul", "Relu"], ["Mul", "Add", "Relu"]]
)
def test_scaled_sums_are_divided_by_their_factor(steps: list[str]):
    builder, value, makers = made(*steps)
    before = len(builder.graph.operators)
    result = divided(builder, value, builder.constant(2.0, "float32"), makers)
    assert result is not None
    new = builder.graph.operators[before:]
    assert [operator.op_type for operator in new] == steps
    factors = [float(op.operand(1).content) for op in new if op.op_type != "Relu"]
    assert set(factors) == {1.5}


@pytest.mark.parametrize("steps", [["Add"], ["Tanh", "Add"], ["Mul", "Exp"], ["Div"]])
def test_other_values_are_not(steps: list[str]):
    builder, value, makers = made(*[s for s in steps if s not in ("Tanh", "Exp")])
    for step in steps:
        if step in ("Tanh", "Exp"):
            value = builder.one(step, value)
    makers |= {v: op for op in builder.graph.operators for v in op.outputs if v is not None}
    assert divided(builder, value, builder.constant(2.0, "float32"), makers) is None


def test_only_positive_numbers_are_divisors():
    builder = Builder(Graph([]), Expansion())
    assert is_divisor(builder.constant(0.5, "float32"))
    for array in (0.0, -1.0, np.ones(2), np.nan):
        assert not is_divisor(builder.constant(array, "float32"))
    assert not is_divisor(Value("x", "float32"))
