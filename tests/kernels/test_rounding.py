"""Tensors of 16 bits are rounded to their type after each operator, fused or not, on any target."""

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler

Array = np.ndarray
KINDS = {"bfloat16": TensorProto.BFLOAT16, "float16": TensorProto.FLOAT16}
TARGETS = ("cpu", "emu", "emu:sm_90:fp16")

THIRD = np.array(1 / 3, np.float32)


def relu(x: Array) -> Array:
    """The positive part."""
    return np.maximum(x, 0)


def third(x: Array) -> Array:
    """A third, by multiplication."""
    return x * THIRD


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Neg": np.negative,
    "Relu": relu,
    "Floor": np.floor,
}
"""Operators that are exact in float32, or rounded once."""


def rounded(kind: str, function: Callable[..., Array], *operands: Array) -> Array:
    """A function in float32, rounded to a type."""
    with np.errstate(all="ignore"):
        return function(*(x.astype("f4") for x in operands)).astype(np.dtype(kind))


def model_of(
    kind: str, nodes: Sequence[onnx.NodeProto], feeds: dict[str, Array], weights: dict[str, Array]
) -> onnx.ModelProto:
    """A model whose result `y` is of a type."""
    types = {**KINDS, "bool": TensorProto.BOOL, "float32": TensorProto.FLOAT}
    inputs = [
        helper.make_tensor_value_info(n, types[x.dtype.name], x.shape) for n, x in feeds.items()
    ]
    result = helper.make_tensor_value_info("y", KINDS[kind], None)
    constants = [numpy_helper.from_array(x, n) for n, x in weights.items()]
    graph = helper.make_graph(nodes, "rounding", inputs, [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def run(model: onnx.ModelProto, feeds: dict[str, Array], target: str) -> Array:
    """The result of a model."""
    module = compiler.compile(model, target=target)
    assert isinstance(module, compiler.Module)
    return module.run(feeds)["y"]


def chain(kind: str, seed: int) -> tuple[onnx.ModelProto, dict[str, Array], Array]:
    """A random chain of elementwise operators, its inputs and its result by numpy."""
    random = np.random.default_rng(seed)
    drawn = random.normal(0, 3, (3, 24)).astype(np.dtype(kind))
    feeds = {"x0": drawn[0], "x1": drawn[1], "x2": drawn[2], "c": random.random(24) < 0.5}
    values = {n: x for n, x in feeds.items() if n != "c"}
    large = np.asarray(random.choice([100.0, 256.0, 1000.0, 0.1]), np.dtype(kind))
    values["w"], nodes = large, list[onnx.NodeProto]()
    for step in range(random.integers(2, 9)):
        names, name = list(values), f"t{step}"
        one, other = names[-1], names[random.integers(len(names))]
        op = random.choice([*FUNCTIONS, "Where", "Cast"])
        if op == "Where":
            nodes.append(helper.make_node("Where", ["c", one, other], [name]))
            values[name] = np.where(feeds["c"], values[one], values[other])
        elif op == "Cast":
            nodes.append(helper.make_node("Cast", [one], [f"f{step}"], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Mul", [f"f{step}", "third"], [f"g{step}"]))
            nodes.append(helper.make_node("Cast", [f"g{step}"], [name], to=KINDS[kind]))
            values[name] = rounded(kind, third, values[one])
        else:
            operands = [one] if op in ("Neg", "Relu", "Floor") else [one, other]
            nodes.append(helper.make_node(op, operands, [name]))
            values[name] = rounded(kind, FUNCTIONS[op], *(values[n] for n in operands))
    nodes.append(helper.make_node("Add", [list(values)[-1], "x0"], ["y"]))
    expected = rounded(kind, np.add, list(values.values())[-1], feeds["x0"])
    weights = {"w": large, "third": THIRD}
    return model_of(kind, nodes, feeds, weights), feeds, expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_operator_of_a_chain_rounds(kind: str, target: str):
    for seed in range(5):
        model, feeds, expected = chain(kind, seed)
        found = run(model, feeds, target)
        np.testing.assert_array_equal(found.astype("f4"), expected.astype("f4"), str(seed))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("kind", "large"), [("bfloat16", 256.0), ("float16", 2048.0)])
@pytest.mark.parametrize("first", ["", "MatMul", "ReduceSum", "Conv"])
def test_what_is_lost_by_a_large_number_stays_lost(
    kind: str, large: float, first: str, target: str
):
    """Adding a large number and subtracting it leaves the digits that fit next to it."""
    dtype, random = np.dtype(kind), np.random.default_rng(0)
    x = random.integers(-4, 5, (2, 16, 16, 16)).astype("f4") / 8
    weights = {"large": np.asarray(large, dtype)}
    if first in ("", "ReduceSum"):
        value = x.sum(-1, keepdims=True) if first else x
        weights["axes"] = np.array([-1])
        inputs = ["x", "axes"]
    elif first == "MatMul":
        w = random.integers(-2, 3, (16, 16)).astype("f4")
        value, weights["w"], inputs = x @ w, w.astype(dtype), ["x", "w"]
    else:
        w = random.integers(-2, 3, (16, 16)).astype("f4")
        value = np.einsum("bihw,oi->bohw", x, w)
        weights["w"], inputs = w.reshape(16, 16, 1, 1).astype(dtype), ["x", "w"]
    nodes = [
        helper.make_node(first or "Identity", inputs if first else ["x"], ["v"]),
        helper.make_node("Add", ["v", "large"], ["a"]),
        helper.make_node("Sub", ["a", "large"], ["y"]),
    ]
    feeds = {"x": x.astype(dtype)}
    weights = {n: v for n, v in weights.items() if n == "large" or n in nodes[0].input}
    found = run(model_of(kind, nodes, feeds, weights), feeds, target)
    sum = rounded(kind, np.add, value.astype(dtype), weights["large"])
    expected = rounded(kind, np.subtract, sum, weights["large"])
    assert (expected.astype("f4") != value).any()
    np.testing.assert_array_equal(found.astype("f4"), expected.astype("f4"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_cast_rounds_within_a_kernel(kind: str, target: str):
    x = np.random.default_rng(0).normal(0, 1e3, 64).astype("f4")
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    nodes = [
        helper.make_node("Mul", ["x", "three"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=KINDS[kind]),
        helper.make_node("Cast", ["b"], ["d"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["d", "a"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=KINDS[kind]),
    ]
    model = model_of(kind, nodes, {"x": x}, {"three": np.array(3, "f4")})
    with np.errstate(invalid="ignore"):
        expected = ((x * 3).astype(np.dtype(kind)).astype("f4") - x * 3).astype(np.dtype(kind))
    found = run(model, {"x": x}, target)
    np.testing.assert_array_equal(found.astype("f4"), expected.astype("f4"))


def test_nan_stays_nan_whatever_its_bits():
    bits = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFC00000, 0x7FC00000], np.uint32)
    x = bits.view("f4")
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16),
        helper.make_node("Add", ["b", "b"], ["y"]),
    ]
    for target in TARGETS:
        found = run(model_of("bfloat16", nodes, {"x": x}, {}), {"x": x}, target)
        assert found.dtype == ml_dtypes.bfloat16
        assert np.isnan(found.astype("f4")).all(), target
