"""Modifiers of FlexAttention that read tensors of the graph around, as bodies of an If may."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import UnsupportedOperatorError

DOMAIN = "ai.onnx.preview"
SHAPES = {"q": (2, 4, 3, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 6)}
SCORES = [2, 4, 3, 5]


def modified(bias: str, *nodes: onnx.NodeProto, computed: bool, sized: bool) -> onnx.ModelProto:
    """A model whose scores are squared, less `bias`, which is a weight or computed from an input.

    `nodes` are of the modifier, whose result is `t` of its input `s`; by default they are these.
    """
    info = helper.make_tensor_value_info
    shapes = {n: [f"{n}{i}" for i in range(4)] if sized else s for n, s in SHAPES.items()}
    inputs = [info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    body = nodes or (
        helper.make_node("Mul", ["s", "s"], ["squares"]),
        helper.make_node("Sub", ["squares", bias], ["t"]),
    )
    score, result = ([info(name, TensorProto.FLOAT, SCORES)] for name in "st")
    modifier = helper.make_graph(body, "modifier", score, result)
    attention = helper.make_node(
        "FlexAttention", [*SHAPES], ["y"], domain=DOMAIN, score_mod=modifier
    )
    if computed:
        inputs.append(info("negative", TensorProto.FLOAT, BIAS.shape))
    inputs.append(info("c", TensorProto.BOOL, []))
    graph = helper.make_graph(
        [helper.make_node("Neg", ["negative"], [bias]), attention],
        "g",
        inputs,
        [info("y", TensorProto.FLOAT, None)],
        initializer=[] if computed else [numpy_helper.from_array(-BIAS, "negative")],
    )
    imports = [helper.make_opsetid("", 24), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=11)


RANDOM = np.random.default_rng(0)
BIAS = RANDOM.standard_normal((4, 1, 1)).astype(np.float32)
FEEDS = {n: RANDOM.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}


def expected() -> np.ndarray:
    """The attention in float64."""
    q, k, v = (FEEDS[name].astype(np.float64) for name in SHAPES)
    k, v = k.repeat(2, 1), v.repeat(2, 1)
    scores = (q @ k.swapaxes(2, 3)) ** 2 / 8 - BIAS
    weights = np.exp(scores - scores.max(3, keepdims=True))
    return weights / weights.sum(3, keepdims=True) @ v


def results(model: onnx.ModelProto) -> np.ndarray:
    """The results of the compiled model."""
    given = {**FEEDS, "negative": -BIAS, "c": np.array(True)}
    names = [info.name for info in model.graph.input]
    module = compiler.compile(model, budget=0, threads=1)
    return module.run({name: given[name] for name in names})["y"]


# The last two are names in the function that ONNX has for the operator.
@pytest.mark.parametrize("name", ["bias", "Q", "Score"])
@pytest.mark.parametrize("computed", [False, True])
def test_a_modifier_reads_tensors_around_it(name: str, computed: bool):
    model = modified(name, computed=computed, sized=False)
    np.testing.assert_allclose(results(model), expected(), rtol=1e-4, atol=1e-5)


def test_a_modifier_reads_tensors_around_it_in_a_dynamic_model():
    model = modified("bias", computed=True, sized=True)
    np.testing.assert_allclose(results(model), expected(), rtol=1e-4, atol=1e-5)


def chosen(operand: str) -> onnx.NodeProto:
    """An If that computes `d`: the bias and `operand`, or the bias."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "ab"]
    sum_ = helper.make_node("Sum", ["bias", *operand.split()], ["a"])
    same = helper.make_node("Identity", ["bias"], ["b"])
    branches = (
        helper.make_graph([node], "branch", [], [result])
        for node, result in zip((sum_, same), info, strict=True)
    )
    first, second = branches
    return helper.make_node("If", ["c"], ["d"], then_branch=first, else_branch=second)


def test_a_branch_in_a_modifier_reads_tensors_around_both_on_the_host():
    squares = helper.make_node("Mul", ["s", "s"], ["squares"])
    less = helper.make_node("Sub", ["squares", "d"], ["t"])
    model = modified("bias", squares, chosen(""), less, computed=True, sized=False)
    np.testing.assert_allclose(results(model), expected(), rtol=1e-4, atol=1e-5)


def test_a_branch_that_reads_what_the_modifier_computes_is_refused_by_name():
    less = helper.make_node("Sub", ["s", "d"], ["t"])
    model = modified("bias", chosen("s"), less, computed=False, sized=False)
    with pytest.raises(UnsupportedOperatorError, match=r"FlexAttention.*If in its 'score_mod'"):
        results(model)
