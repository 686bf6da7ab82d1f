"""Which operators become one kernel with the range of a tensor, and that results stay the same."""

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from compiler.graph.targets import set_target
from compiler.ir.types import shape_of
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.strategies import Model

SHAPE = (3, 10)
WHOLE = ["ReduceMin", "ReduceMax", "Sub", "Div", "Neg"]
Follow = Callable[[GraphBuilder, SSAValue, SSAValue, SSAValue], list[SSAValue]]


def scaled(b: GraphBuilder, x: SSAValue, low: SSAValue, high: SSAValue) -> list[SSAValue]:
    """A tensor divided by its extent, and its least element's opposite."""
    extent = b.op("Sub", high, low, shape=shape_of(low.type))
    return [b.op("Div", x, extent, shape=SHAPE), b.op("Neg", low, shape=shape_of(low.type))]


def with_others(b: GraphBuilder, x: SSAValue, low: SSAValue, high: SSAValue) -> list[SSAValue]:
    """As `scaled`, with an operator between those that reads the range and another tensor."""
    extent = b.op("Sub", high, low, shape=())
    other = b.op("Add", b.input("y", SHAPE), extent, shape=SHAPE)
    results = [b.op("Div", x, extent, shape=SHAPE), b.op("Neg", low, shape=())]
    return [b.op("Mul", other, results[0], shape=SHAPE), *results]


def scalars(b: GraphBuilder, x: SSAValue, low: SSAValue, high: SSAValue) -> list[SSAValue]:
    """The extent alone."""
    return [b.op("Sub", high, low, shape=())]


def model(follow: Follow, target: str, axes: tuple[int, ...] = (0, 1)) -> Model:
    """A graph that goes on with the extremes of a tensor."""
    b, rng = GraphBuilder(), np.random.default_rng(0)
    x = b.op("Relu", b.input("x", SHAPE), shape=SHAPE)
    shape = () if len(axes) == 2 else SHAPE[1:]
    low, high = (
        b.op(kind, x, b.constant(axes, "int64"), shape=shape, keepdims=0)
        for kind in ("ReduceMin", "ReduceMax")
    )
    results = follow(b, x, low, high)
    inputs = {name: rng.standard_normal(SHAPE).astype("f") for name in ("x", "y")}
    found = Model(b.finish(*results), b.weights, inputs)
    set_target(found.module, target)
    return found


@pytest.mark.parametrize("target", ["cuda:sm_80:fp16", "hip:gfx90a:fp16"])
def test_it_is_one_kernel(target: str):
    (group,) = nodes_of(run(model(scaled, target), "fuse-ranges"))
    assert sorted(group) == sorted(WHOLE)


def test_an_operator_on_another_tensor_stays_outside_and_after_it():
    graph = run(model(with_others, "cuda:sm_90:fp16"), "fuse-ranges")
    (group,) = nodes_of(graph)
    assert sorted(group) == sorted(WHOLE)
    fused = nodes_of(run(model(with_others, "cuda:sm_90:fp16"), "fuse-ranges,fuse-operators"))
    assert any(sorted(group) == sorted(WHOLE) for group in fused)


@pytest.mark.parametrize(
    "other", [model(scaled, "cpu"), model(scalars, "cuda"), model(scaled, "cuda", (0,))]
)
def test_others_stay_as_they_are(other: Model):
    assert not nodes_of(run(other, "fuse-ranges"))
