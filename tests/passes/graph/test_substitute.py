"""The substitution pass: its policies and options, equal results, decisions that are kept."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.dataflow import OperatorOp
from compiler.passes.base import CostContext
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.rewrite.search.cost_model import POLICIES
from tests.apply_passes import graph_of, nodes_of
from tests.graphs import GraphBuilder
from tests.rewrite.search.crafted import repvgg
from tests.strategies import Model, rewritable_graphs

TARGET = "cuda:sm_90:tf32"


def substituted(model: Model, options: str = "policy=taso", context: CostContext | None = None):
    """The operators of a model after the pass, whose results are checked."""
    expected = interpret(model.module, model.weights, model.inputs)
    runner = Runner() if context is None else Runner(context=context)
    runner.run(model.module, parse(f"substitute{{{options}}}"))
    results = interpret(model.module, model.weights, model.inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=1e-4, atol=1e-4)
    return kinds(model.module)


def kinds(module: ModuleOp) -> list[str]:
    """The operators of a module, in order."""
    return [op.type_name for op in module.walk() if isinstance(op, OperatorOp)]


def merged(operators: Sequence[str]) -> bool:
    """Whether a block of RepVGG has one convolution; adding its input takes no other kernel."""
    return operators.count("Conv") == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_block_of_repvgg_becomes_one_convolution(policy: str):
    assert merged(substituted(repvgg(1), f"policy={policy}"))


@pytest.mark.parametrize(
    ("options", "target", "changed"),
    [
        ("policy=none", TARGET, False),
        ("policy=target", TARGET, False),
        ("policy=autograph", TARGET, True),
        ("policy=target", "cpu", False),
        ("policy=target", "hip:gfx90a:fp32", False),
        ("policy=autograph", "cpu", True),
    ],
)
def test_the_policy_decides_whether_anything_changes(options: str, target: str, changed: bool):
    """By default nothing does where no cost model knows the times of kernels."""
    model = repvgg(1)
    set_target(model.module, target)
    before = kinds(model.module)
    assert (substituted(model, options) != before) == changed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "policy=best",
            "unknown policy 'best': use one of taso, autograph, makespan, none, target",
        ),
        ("size=40", "40"),
        ("size=120..40", "is not a range of operators: write size=40..120"),
        ("size=0..4", "is not a range of operators"),
        ("size=x", "is not a range of operators"),
        ("select=best", "unknown selection 'best': use time or cost"),
        ("division=best", "unknown division 'best': use one of dynamic, greedy, one"),
        ("candidates=0", "must be at least 1"),
        ("steps=0", "must be at least 1"),
        ("beta=0.9", "must be at least 1"),
        ("alpha=-0.5", "alpha at least 0"),
    ],
)
def test_a_bad_option_is_named(options: str, message: str):
    with pytest.raises(PipelineError, match=f"(?s)substitute.*{message}"):
        Runner().run(repvgg(1).module, parse(f"substitute{{{options}}}"))


def test_a_graph_that_costs_least_stays():
    """Every candidate of one convolution costs more."""
    build = GraphBuilder()
    x = build.input("x0", (1, 4, 6, 6))
    w = build.weight(np.ones((4, 4, 3, 3), np.float32))
    y = build.op("Conv", x, w, shape=(1, 4, 4, 4), kernel_shape=[3, 3])
    model = Model(build.finish(y), build.weights, {"x0": np.ones((1, 4, 6, 6), np.float32)})
    before = str(model.module)
    for policy in POLICIES:
        substituted(model, f"policy={policy} beta=10.0")
        assert str(model.module) == before


@pytest.mark.parametrize("size", ["1..1", "2..3", "4..8"])
def test_small_parts_give_equal_results(size: str):
    substituted(repvgg(3), f"policy=taso size={size} steps=30")


def test_an_operator_of_several_results_stays_whole():
    build = GraphBuilder()
    x = build.input("x0", (2, 6))
    parts = build.split("Split", [x, build.constant([1] * 6, "int64")], [(2, 1)] * 6, axis=1)
    model = Model(build.finish(*(build.op("Relu", part) for part in parts)), {}, {})
    model.inputs["x0"] = np.ones((2, 6), np.float32)
    for policy in POLICIES:
        assert "Split" in substituted(model, f"policy={policy} size=1..2 steps=20")


CHANGED: list[str] = []


@settings(deadline=None, max_examples=60, derandomize=True)
@given(rewritable_graphs())
def check_random_models(model: Model):
    before = kinds(model.module)
    after = substituted(model, "policy=taso steps=25 size=2..6 beta=1.5")
    CHANGED.extend("changed" for _ in range(before != after))


def test_random_models_keep_their_results_and_some_are_changed():
    CHANGED.clear()
    check_random_models()
    assert len(CHANGED) >= 3


def test_groups_stay():
    model = repvgg(1)
    Runner().run(model.module, parse("fuse-operators{max-ops=2}"))
    before = nodes_of(graph_of(model))
    substituted(model, "policy=taso")
    assert nodes_of(graph_of(model)) == before
