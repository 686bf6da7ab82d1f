"""Twice as many operators take about twice as many steps, also where many use one result."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from compiler.graph.aliases import plan_views
from compiler.graph.fusion.fusion_graph import read_fusion_graph
from compiler.graph.fusion.policy import plan_fusion
from compiler.graph.fusion.state import FusionRules
from compiler.graph.network import read_network
from compiler.graph.shared_weights import find_stacks
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from tests.graphs import GraphBuilder

FEW, MOST = 150, 2.6
"""The operators of the smaller graph, and how many times the steps may grow in one twice as big."""


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def graph_of(build: GraphBuilder, *outputs: SSAValue) -> GraphOp:
    (graph,) = graphs_of(build.finish(*outputs))
    return graph


def hub(size: int) -> GraphOp:
    """A matmul whose result many elementwise operators read, each for an output."""
    build = GraphBuilder()
    weight = build.weight(np.ones((8, 8), np.float32))
    middle = build.op("MatMul", build.input("x", (8, 8)), weight, shape=(8, 8))
    powers = [build.constant(0.5 + i, "float32") for i in range(size)]
    return graph_of(build, *(build.op("Pow", middle, power) for power in powers))


def chain(size: int) -> GraphOp:
    """Matmuls with one matrix, each of the one before."""
    build = GraphBuilder()
    weight, value = build.weight(np.ones((8, 8), np.float32)), build.input("x", (8, 8))
    for _ in range(size):
        value = build.op("MatMul", value, weight, shape=(8, 8))
    return graph_of(build, value)


def rails(size: int) -> GraphOp:
    """Pairs of matmuls with one matrix, each pair of the one before."""
    build = GraphBuilder()
    weight = build.weight(np.ones((8, 8), np.float32))
    left, right = build.input("x", (8, 8)), build.input("y", (8, 8))
    for _ in range(size // 2):
        total, difference = build.op("Add", left, right), build.op("Sub", left, right)
        left = build.op("MatMul", total, weight, shape=(8, 8))
        right = build.op("MatMul", difference, weight, shape=(8, 8))
    return graph_of(build, left, right)


def test_fusion_around_a_result_with_many_users_takes_linear_steps():
    def fuse(size: int) -> Callable[[], object]:
        graph = hub(size)
        plan = plan_views(graph)
        fusion_graph = read_fusion_graph(graph, plan.views)
        return lambda: plan_fusion(fusion_graph, FusionRules())

    assert steps(fuse(8 * FEW)) <= MOST * steps(fuse(4 * FEW))


def test_stacking_gemms_that_need_each_other_takes_linear_steps():
    few, many = (read_network(chain(size)) for size in (FEW, 2 * FEW))
    assert not find_stacks(few, 16)
    assert steps(lambda: find_stacks(many, 16)) <= MOST * steps(lambda: find_stacks(few, 16))


def test_gemms_that_stand_side_by_side_are_stacked_pair_by_pair():
    network = read_network(rails(FEW))
    stacks = [stack.gemms for stack in find_stacks(network, 16)]
    assert [[network.operators[i].type for i in stack] for stack in stacks] == [
        ["MatMul", "MatMul"] for _ in range(FEW // 2)
    ]
    assert [i for stack in stacks for i in stack] == sorted(i for stack in stacks for i in stack)
