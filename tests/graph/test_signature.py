"""The inputs of a kernel's signature."""

import re

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue

from compiler.graph.signature import signature
from compiler.ir.dataflow import GroupOp
from tests.apply_passes import run
from tests.graphs import GraphBuilder
from tests.strategies import Model


def group_of(b: GraphBuilder, *outputs: SSAValue) -> GroupOp:
    graph = run(
        Model(b.finish(*outputs), b.weights, {"x": np.ones((2, 4), np.float32)}), "fuse-operators"
    )
    (group,) = graph.groups
    return group


def scaled(weight: bool = True, scale: float = 2, axis: int = 1, dtype: str = "float32") -> GroupOp:
    b = GraphBuilder()
    x = b.input("x", (2, 4))
    other = b.weight(np.ones((2, 4), np.float32)) if weight else x
    y = b.op("Mul", b.op("Add", x, other), b.constant(scale, dtype))
    return group_of(b, b.op("Softmax", y, axis=axis))


def test_it_is_readable_and_a_c_identifier():
    assert re.fullmatch(r"Add_Mul_Softmax_[0-9a-f]{12}", signature(scaled()))


def test_it_depends_on_content():
    variants = [
        scaled(),
        scaled(weight=False),
        scaled(scale=3),
        scaled(scale=-2),
        scaled(axis=0),
    ]
    assert len({signature(group) for group in variants}) == len(variants)


def test_it_does_not_depend_on_names_or_decisions():
    group = scaled()
    name = signature(group)
    assert name == signature(scaled())
    group.stream = group.partition = group.cost = IntegerAttr(3, i64)
    for op in group.operators:
        op.node = StringAttr("other")
    for value in (*group.body.block.args, *group.outputs):
        value.name_hint = "other"
    assert signature(group) == name


def test_it_tells_results_apart():
    b, c = GraphBuilder(), GraphBuilder()
    groups: list[GroupOp] = []
    for build, both in ((b, False), (c, True)):
        a = build.op("Relu", build.input("x", (2, 4)))
        y = build.op("Tanh", a)
        groups.append(group_of(build, y, *[a] * both))
    assert signature(groups[0]) != signature(groups[1])
