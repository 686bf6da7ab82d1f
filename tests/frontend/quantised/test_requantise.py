"""Scales of quantisations divided into the scales of what they quantise."""

import ml_dtypes
import numpy as np
import pytest

import compiler
from compiler.frontend.builder import Builder
from compiler.net.building.expansion import Expansion
from compiler.net.graph import Graph, Value
from compiler.net.node import Node
from compiler.rewrite.quantised.contract import divided, is_divisor, is_of_sums
from tests.frontend.checks import parse


def made(*steps: str) -> tuple[Builder, Value, dict[Value, Node[Value]]]:
    """A value computed from an input by steps with the constant 3."""
    builder = Builder(Graph([]), Expansion())
    value = Value("x", "float32", (2,))
    for step in steps:
        others = [] if step == "Relu" else [builder.constant(3.0, "float32")]
        value = builder.one(step, value, *others)
    makers = {v: op for op in builder.graph.operators for v in op.outputs}
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
    assert [operator.type for operator in new] == steps
    factors = [float(op.operand(1).content) for op in new if op.type != "Relu"]
    assert set(factors) == {1.5}


@pytest.mark.parametrize("steps", [["Add"], ["Tanh", "Add"], ["Mul", "Exp"], ["Div"]])
def test_other_values_are_not(steps: list[str]):
    builder, value, makers = made(*[s for s in steps if s not in ("Tanh", "Exp")])
    for step in steps:
        if step in ("Tanh", "Exp"):
            value = builder.one(step, value)
    makers |= {v: op for op in builder.graph.operators for v in op.outputs}
    assert divided(builder, value, builder.constant(2.0, "float32"), makers) is None


def test_only_positive_numbers_are_divisors():
    builder = Builder(Graph([]), Expansion())
    assert is_divisor(builder.constant(0.5, "float32"))
    for array in (0.0, -1.0, np.ones(2), np.nan):
        assert not is_divisor(builder.constant(array, "float32"))
    assert not is_divisor(Value("x", "float32"))


STEPS = {
    "": "",
    "moved": "e = Transpose(d)",
    "maximum": "e = Relu(d)",
    "added": "e = Add(d, d)",
    "scaled": "e = Mul(d, f)",
    "of two": "g = DequantizeLinear(x, f, z)  e = Add(d, g)",
}
"""The operators between a dequantisation and a quantisation."""


def by_formula(step: str, x: np.ndarray, numbers: dict[str, np.ndarray]) -> np.ndarray:
    """The integers by ONNX's formula, each operator in float32."""
    exact = x.astype(np.int32) - numbers["z"].astype(np.int32)
    d = exact.astype(np.float32) * numbers["s"]
    number = {
        "": lambda: d,
        "moved": lambda: d.T,
        "maximum": lambda: np.maximum(d, 0),
        "added": lambda: d + d,
        "scaled": lambda: d * numbers["f"],
        "of two": lambda: d + exact.astype(np.float32) * numbers["f"],
    }[step]()
    limits = ml_dtypes.iinfo(x.dtype)
    whole = np.rint(number / numbers["t"]) + numbers["u"].astype(np.float32)
    return np.clip(whole, limits.min, limits.max).astype(x.dtype)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_every_byte_is_quantised_again_by_division(step: str, target: str):
    random = np.random.default_rng(len(step))
    result = "e" if step else "d"
    text = f"""g ({{kind}}[16,16] x) => ({{kind}}[16,16] y) {{{{
        d = DequantizeLinear(x, s, z)  {STEPS[step]}  y = QuantizeLinear({result}, t, u) }}}}"""
    for ratio in (2.0, 10.0, *random.uniform(0.2, 5, 1)):
        kind = np.dtype(random.choice(["int8", "uint8"]))
        s = np.float32(random.uniform(0.001, 0.2))
        numbers = {
            "s": np.asarray(s),
            "t": np.asarray(s * np.float32(ratio)),
            "f": np.array(random.uniform(0.1, 0.9), "f4"),
            "z": np.array(random.choice([0, 3]), kind),
            "u": np.array(random.choice([0, 100]), kind),
        }
        limits = np.iinfo(kind)
        x = np.arange(limits.min, limits.max + 1).astype(kind).reshape(16, 16)
        read = {name: numbers[name] for name in numbers if name != "f" or "f" in STEPS[step]}
        model = parse(text.format(kind=kind.name), 21, **read)
        for way in ("bytes", "floats"):
            module = compiler.compile(model, target=target, quantised=way)
            np.testing.assert_array_equal(
                module.run({"x": x})["y"], by_formula(step, x, numbers), f"{ratio} {way}"
            )


def test_only_what_has_sums_is_divided_by_its_factors():
    _, value, makers = made("Mul", "Add", "Relu")
    (product,) = [v for v, op in makers.items() if op.type == "Mul"]
    assert is_of_sums(value, makers, {product})
    assert not is_of_sums(value, makers, set())


def test_numbers_that_overflow_are_not_their_integers_again():
    text = """g (int8[4,4] x) => (int8[4,4] y) {
        d = DequantizeLinear(x, s, z)  y = QuantizeLinear(d, s, z) }"""
    numbers = {"s": np.array(3e38, "f4"), "z": np.array(0, np.int8)}
    x = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    found = compiler.compile(parse(text, 21, **numbers)).run({"x": x})["y"]
    expected = np.sign(x) * np.where(abs(x) > 1, np.where(x > 0, 127, 128), 1)
    np.testing.assert_array_equal(found, expected)
