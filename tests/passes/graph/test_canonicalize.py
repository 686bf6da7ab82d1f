"""Every simplification, what it must leave alone, and properties of the whole pass."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.apply_passes import run
from tests.graphs import GraphBuilder
from tests.strategies import Model, dataflow_graphs

Case = Callable[[GraphBuilder, SSAValue], SSAValue]


def after(case: Case, shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> list[str]:
    """The operator types that canonicalize leaves of a graph with one input."""
    build = GraphBuilder()
    x = build.input("x", shape, dtype)
    module = build.finish(case(build, x))
    values = np.random.default_rng(1).integers(-3, 3, shape).astype(dtype)
    values.ravel()[0] = -0.0
    graph = run(Model(module, build.weights, {"x": values}), "canonicalize")
    return [op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)]


def reshape(b: GraphBuilder, x: SSAValue, *shape: int) -> SSAValue:
    return b.op("Reshape", x, b.constant(shape, "int64"), shape=shape)


def pad(b: GraphBuilder, x: SSAValue, pads: list[int], shape: list[int], fill: float = 0):
    return b.op("Pad", x, b.constant(pads, "int64"), b.constant(fill), shape=shape)


def conv(b: GraphBuilder, x: SSAValue) -> SSAValue:
    w = b.weight(np.ones((2, 3, 3, 3), np.float32))
    return b.op("Conv", x, w, shape=(1, 2, 4, 4), kernel_shape=[3, 3])


SIMPLIFIED: dict[str, tuple[Case, list[str]]] = {
    "identity": (lambda b, x: b.op("Identity", x), []),
    "same reshape": (lambda b, x: reshape(b, x, 2, 3), []),
    "reshape of reshape": (lambda b, x: reshape(b, reshape(b, x, 6), 3, 2), ["Reshape"]),
    "reshape back": (lambda b, x: b.op("Relu", reshape(b, reshape(b, x, 6), 2, 3)), ["Relu"]),
    "flatten of unsqueeze": (
        lambda b, x: b.op(
            "Flatten",
            b.op("Unsqueeze", x, b.constant([0], "int64"), shape=(1, 2, 3)),
            shape=(1, 6),
            axis=1,
        ),
        ["Reshape"],
    ),
    "kept transpose": (lambda b, x: b.op("Transpose", x, shape=(3, 2), perm=[1, 0]), ["Transpose"]),
    "no transpose": (lambda b, x: b.op("Transpose", x, perm=[0, 1]), []),
    "transpose back": (
        lambda b, x: b.op("Transpose", b.op("Transpose", x, shape=(3, 2)), shape=(2, 3)),
        [],
    ),
    "transpose of ones": (
        lambda b, x: b.op("Transpose", reshape(b, x, 2, 1, 3), shape=(1, 2, 3), perm=[1, 0, 2]),
        ["Reshape"],
    ),
    "same cast": (lambda b, x: b.op("Cast", x, to=1), []),
    "no padding": (lambda b, x: pad(b, x, [0] * 4, [2, 3]), []),
    "whole slice": (
        lambda b, x: b.op("Slice", x, *(b.constant([v], "int64") for v in (0, 9, 1)), shape=(2, 3)),
        [],
    ),
    "reversing slice": (
        lambda b, x: b.op(
            "Slice", x, *(b.constant([v], "int64") for v in (-1, -9, 1, -1)), shape=(2, 3)
        ),
        ["Slice"],
    ),
    "concat of one": (lambda b, x: b.op("Concat", x, axis=0), []),
    "concat of two": (lambda b, x: b.op("Concat", x, x, shape=(4, 3), axis=0), ["Concat"]),
    "concat along the same axis": (
        lambda b, x: b.op("Add", *(b.op("Concat", x, x, shape=(2, 6), axis=a) for a in (1, -1))),
        ["Concat", "Add"],
    ),
    "concat with nothing": (
        lambda b, x: b.op("Concat", x, b.constant(np.ones((2, 0))), shape=(2, 3), axis=1),
        [],
    ),
    "split in one": (lambda b, x: b.op("Split", x, axis=1, num_outputs=1), []),
    "same tile": (lambda b, x: b.op("Tile", x, b.constant([1, 1], "int64"), shape=(2, 3)), []),
    "blocks of one": (
        lambda b, x: b.op(
            "DepthToSpace", reshape(b, x, 1, 2, 3, 1), shape=(1, 2, 3, 1), blocksize=1
        ),
        ["Reshape"],
    ),
    "the only row": (
        lambda b, x: b.op(
            "Gather", reshape(b, x, 1, 2, 3), b.constant([0], "int64"), shape=(1, 2, 3)
        ),
        ["Reshape"],
    ),
    "one of two rows": (
        lambda b, x: b.op("Gather", x, b.constant([1], "int64"), shape=(1, 3)),
        ["Gather"],
    ),
    "same expand": (lambda b, x: b.op("Expand", x, b.constant([2, 3], "int64"), shape=(2, 3)), []),
    "times one": (lambda b, x: b.op("Mul", b.constant(1), x), []),
    "by one": (lambda b, x: b.op("Div", x, b.constant(1)), []),
    "one by": (lambda b, x: b.op("Div", b.constant(1), x), ["Div"]),
    "plus zero": (lambda b, x: b.op("Add", x, b.constant(0)), ["Add"]),
    "zero plus": (lambda b, x: b.op("Add", b.constant(0), x), ["Add"]),
    "plus minus zero": (lambda b, x: b.op("Add", x, b.constant(-0.0)), []),
    "minus zero": (lambda b, x: b.op("Sub", x, b.constant(0)), []),
    "zero minus": (lambda b, x: b.op("Sub", b.constant(0), x), ["Sub"]),
    "broadcast times one": (
        lambda b, x: b.op("Mul", x, b.constant(np.ones((1, 1, 1)))),
        ["Mul"],
    ),
    "relu twice": (lambda b, x: b.op("Relu", b.op("Relu", x)), ["Relu"]),
    "neg twice": (lambda b, x: b.op("Neg", b.op("Neg", x)), []),
    "clip twice": (
        lambda b, x: b.op("Clip", b.op("Clip", x, b.constant(0)), b.constant(0)),
        ["Clip"],
    ),
    "another clip": (
        lambda b, x: b.op("Clip", b.op("Clip", x, b.constant(0)), b.constant(1)),
        ["Clip", "Clip"],
    ),
    "computed twice": (lambda b, x: b.op("Add", b.op("Relu", x), b.op("Relu", x)), ["Relu", "Add"]),
    "other attributes": (
        lambda b, x: b.op("Add", b.op("Softmax", x, axis=0), b.op("Softmax", x, axis=1)),
        ["Softmax", "Softmax", "Add"],
    ),
    "dead": (lambda b, x: [b.op("Tanh", x), b.op("Relu", x)][1], ["Relu"]),
}


@pytest.mark.parametrize("name", SIMPLIFIED)
def test_simplification(name: str):
    case, left = SIMPLIFIED[name]
    assert after(case) == left


def stacked(b: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    """Concats along the second axis, and stacks along another."""
    parts = [x, b.op("Relu", x)]
    concat = b.op("Concat", *parts, shape=(2, 6), axis=-1)
    place = b.constant([axis], "int64")
    shape = (2, 1, 3) if axis == 1 else (1, 2, 3)
    whole = tuple(2 if i == axis else n for i, n in enumerate(shape))
    layers = [b.op("Unsqueeze", part, place, shape=shape) for part in parts]
    both = b.op("Concat", *layers, shape=whole, axis=axis)
    return b.op("Concat", b.op("Tanh", concat), reshape(b, both, 2, 6), shape=(2, 12), axis=1)


@pytest.mark.parametrize(("axis", "concats"), [(1, 2), (0, 3)])
def test_stacks_are_concats_of_another_shape(axis: int, concats: int):
    left = after(lambda b, x: stacked(b, x, axis))
    assert left.count("Concat") == concats


def test_integers_have_one_zero():
    assert after(lambda b, x: b.op("Add", x, b.constant(0, "int32")), dtype="int32") == []


PADS = [0, 0, 1, 1, 0, 0, 1, 1]


def test_zero_padding_moves_into_a_convolution():
    case: Case = lambda b, x: conv(b, pad(b, x, PADS, [1, 3, 6, 6]))  # noqa: E731
    assert after(case, (1, 3, 4, 4)) == ["Conv"]


def test_other_padding_stays():
    case: Case = lambda b, x: conv(b, pad(b, x, PADS, [1, 3, 6, 6], 2))  # noqa: E731
    assert after(case, (1, 3, 4, 4)) == ["Pad", "Conv"]


def test_cropping_stays():
    """Without the oracle, which does not know negative padding."""
    b = GraphBuilder()
    crop = pad(b, b.input("x", (1, 3, 4, 6)), [0, 0, 1, -1, 0, 0, 1, 1], [1, 3, 6, 6])
    module = b.finish(conv(b, crop))
    Runner().run(module, parse("canonicalize"))
    assert '"Pad"' in str(module)


@settings(max_examples=60, deadline=None)
@given(dataflow_graphs(max_operators=20))
def test_results_stay_and_a_second_time_changes_nothing(model: Model):
    graph = run(model, "canonicalize")
    named = [op.node_name for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    assert all(named)
    text = str(model.module)
    run(model, "canonicalize")
    assert str(model.module) == text
