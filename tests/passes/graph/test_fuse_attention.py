"""Attention becomes one group in every form, and nothing that only looks like it does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.parser import parse_model
from xdsl.ir import SSAValue

from compiler.backends.memory import Array
from compiler.graph.attention import find_attentions
from compiler.graph.targets import set_target
from compiler.ir.dataflow import OperatorOp
from compiler.kernels.group import extract_group
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.kernels.attention_models import FORMS, MASKS, Attention
from tests.lowered import import_lowered
from tests.strategies import Model, dataflow_graphs

PIPELINE = "canonicalize,fuse-attention"
sizes = st.integers(1, 5)
attentions = st.builds(
    Attention, st.sampled_from(FORMS), st.sampled_from(MASKS), st.integers(1, 2), sizes,
    sizes, sizes, st.integers(2, 5), sizes, st.booleans(),
)  # fmt: skip


def imported(case: Attention, target: str = "cuda") -> Model:
    """The model of an attention, for a target."""
    found = import_lowered(case.model())
    set_target(found.module, target)
    return Model(found.module, found.weights, case.inputs())


@settings(max_examples=25, deadline=None)
@given(attentions)
def test_every_form_is_one_group(case: Attention):
    model = imported(case)
    graph = run(model, PIPELINE)
    (group,) = graph.groups
    (found,) = find_attentions(extract_group(group))
    assert len(found.operators) == len(list(group.operators))
    rest = {op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)}
    assert rest <= {"Reshape", "Identity", "Squeeze", "Unsqueeze"}
    text = str(model.module)
    run(model, "fuse-attention")
    assert str(model.module) == text


@pytest.mark.parametrize(
    ("case", "groups"),
    [(Attention(), 1), (Attention(rows=4), 0), (Attention(cosine=True), 0)],
)
def test_cpus_fuse_what_their_kernel_computes(case: Attention, groups: int):
    assert len(list(run(imported(case, "cpu:x86-64-v3"), PIPELINE).groups)) == groups


@settings(max_examples=20, deadline=None)
@given(dataflow_graphs(max_operators=24))
def test_any_graph(model: Model):
    set_target(model.module, "cuda")
    run(model, PIPELINE)


CUBE = (2, 4, 4, 4)
"""A shape that permutations of its axes leave alone but for the first, so that all operands fit."""
LINKS = ("none", "heads", "keys", "scale", "rounding")


def linked(build: GraphBuilder, x: SSAValue, link: str) -> SSAValue:
    """A link between two attentions: a permutation, or the rounding of a quantised model."""
    match link:
        case "heads" | "keys":
            return build.op("Transpose", x, perm=[0, 2, 1, 3] if link == "heads" else [0, 1, 3, 2])
        case "scale":
            return build.op("Mul", x, build.constant(0.5))
        case "rounding":
            low, high = (build.constant(bound) for bound in (-128, 127))
            whole = build.op("Round", build.op("Div", x, build.constant(0.1)))
            return build.op(
                "Mul", build.op("Clip", whole, low, high, shape=CUBE), build.constant(0.1)
            )
        case _:
            return x


@st.composite
def chained(draw: st.DrawFn) -> Model:
    """Attentions that read each other's results as Q, K or V; scores may come long before V."""
    build, generator = GraphBuilder(), np.random.default_rng(draw(st.integers(0, 99)))
    inputs: dict[str, Array] = {
        name: generator.standard_normal(CUBE).astype(np.float32) for name in "xyz"
    }
    tensors = [build.input(name, CUBE) for name in inputs]
    weights: list[SSAValue] = []

    def operand() -> SSAValue:
        return linked(build, draw(st.sampled_from(tensors[-3:])), draw(st.sampled_from(LINKS)))

    for _ in range(draw(st.integers(2, 4))):
        for _ in range(draw(st.integers(0 if weights else 1, 2))):
            scores = build.op("MatMul", operand(), operand(), shape=CUBE)
            weights.append(build.op("Softmax", scores, axis=-1))
        tensors.append(build.op("MatMul", weights.pop(0), operand(), shape=CUBE))
    return Model(build.finish(tensors[-1], *weights), {}, inputs)


@settings(max_examples=30, deadline=None)
@given(chained(), st.sampled_from(["cuda", "cpu:x86-64-v3"]))
def test_attentions_of_attentions(model: Model, target: str):
    """An operator between two of them is in one group."""
    set_target(model.module, target)
    graph = run(model, f"{PIPELINE},fuse-operators")
    assert not any(
        op.type_name == "Softmax" for op in graph.body.block.ops if isinstance(op, OperatorOp)
    )


@pytest.mark.parametrize("role", "qkv")
def test_what_is_between_two_attentions(role: str):
    """A permuted result that another attention reads; as V the other's scores come first."""
    build, generator = GraphBuilder(), np.random.default_rng(0)
    inputs: dict[str, Array] = {
        name: generator.standard_normal(CUBE).astype(np.float32) for name in "abcdef"
    }
    a, b, c, d, e, f = (build.input(name, CUBE) for name in inputs)
    early = build.op("Softmax", build.op("MatMul", d, e, shape=CUBE), axis=-1)
    first = build.op("Softmax", build.op("MatMul", a, b, shape=CUBE), axis=-1)
    moved = linked(build, build.op("MatMul", first, c, shape=CUBE), "heads")
    q, k, v = (moved if name == role else f for name in "qkv")
    second = build.op("Softmax", build.op("MatMul", q, k, shape=CUBE), axis=-1)
    module = build.finish(build.op("MatMul", early if role == "v" else second, v, shape=CUBE))
    set_target(module, "cuda")
    groups = nodes_of(run(Model(module, {}, inputs), f"{PIPELINE},fuse-operators"))
    assert sorted(map(len, groups)) == [3, 4]


@pytest.mark.parametrize("kept", ["scores", "weights", "other axis", "keys"])
def test_what_others_look_at(kept: str):
    """Scores and weights that are outputs keep the attention apart; keys are laid out twice."""
    build = GraphBuilder()
    q, k, v = (build.input(name, (2, 4, 4)) for name in "qkv")
    keys = build.op("Transpose", k, shape=(2, 4, 4), perm=[0, 2, 1])
    scores = build.op("MatMul", q, keys, shape=(2, 4, 4))
    weights = build.op("Softmax", scores, shape=(2, 4, 4), axis=1 if kept == "other axis" else 2)
    result = build.op("MatMul", weights, v, shape=(2, 4, 4))
    other = {"scores": scores, "weights": weights, "keys": keys}.get(kept, v)
    module = build.finish(result, build.op("Relu", other, shape=(2, 4, 4)))
    set_target(module, "cuda")
    inputs: dict[str, Any] = {
        n: np.random.default_rng(i).random((2, 4, 4), np.float32) for i, n in enumerate("qkv")
    }
    groups = nodes_of(run(Model(module, {}, inputs), PIPELINE))
    assert groups == ([["Transpose", "MatMul", "Softmax", "MatMul"]] if kept == "keys" else [])


def test_a_result_ends_before_its_last_view():
    """Windows of an image are put together again: a transposition beyond the view stays outside."""
    found = import_lowered(
        parse_model(
            """<ir_version: 10, opset_import: ["": 21]>
            windows (float[1, 4, 2, 9, 8] q, float[1, 4, 2, 8, 9] k, float[1, 4, 2, 9, 8] v)
                => (float[1, 2, 3, 2, 3, 16] y) <int64[6] image = {1, 2, 2, 3, 3, 16}> {
              scores = MatMul(q, k)
              weights = Softmax<axis = -1>(scores)
              values = MatMul(weights, v)
              rows = Transpose<perm = [0, 1, 3, 2, 4]>(values)
              parts = Reshape(rows, image)
              y = Transpose<perm = [0, 1, 3, 2, 4, 5]>(parts)
            }"""
        )
    )
    set_target(found.module, "cuda")
    shapes = {"q": (1, 4, 2, 9, 8), "k": (1, 4, 2, 8, 9), "v": (1, 4, 2, 9, 8)}
    generator = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    (group,) = run(Model(found.module, found.weights, inputs), PIPELINE).groups
    assert [op.type_name for op in group.operators][-1] == "Transpose"
    (attention,) = find_attentions(extract_group(group))
    assert len(attention.operators) == len(list(group.operators)) == 4
