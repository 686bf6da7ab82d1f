"""Counted FLOPs and bytes against figures computed by hand."""

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from compiler.graph.cost import (
    Roofline,
    Work,
    cost_of,
    estimate,
    flops_of,
    is_cheap,
    work_of,
)
from compiler.ir.dataflow import OperatorOp
from tests.apply_passes import run
from tests.graphs import GraphBuilder
from tests.strategies import Model

DEVICE = Roofline(flops_per_ns=10, bytes_per_ns=2, launch_ns=100, cache_bytes=1000)


def flops(value: SSAValue) -> int:
    assert isinstance(value.owner, OperatorOp)
    return flops_of(value.owner)


def test_flops():
    b = GraphBuilder()
    x, image = b.input("x", (5, 7)), b.input("i", (1, 4, 8, 8))
    assert flops(b.op("Add", x, x)) == 35
    assert flops(b.op("MatMul", x, b.input("y", (7, 3)), shape=(5, 3))) == 2 * 5 * 7 * 3
    assert flops(b.op("Gemm", x, b.input("z", (5, 3)), shape=(7, 3), transA=1)) == 2 * 7 * 5 * 3
    w = b.input("w", (6, 2, 3, 3))
    assert flops(b.op("Conv", image, w, shape=(1, 6, 6, 6), group=2)) == 2 * 6 * 36 * 2 * 9
    t = b.input("t", (4, 6, 2, 2))
    assert flops(b.op("ConvTranspose", image, t, shape=(1, 6, 9, 9))) == 2 * 256 * 6 * 4
    pool = b.op("MaxPool", image, shape=(1, 4, 4, 4), kernel_shape=[2, 2])
    assert flops(pool) == 64 * 4
    assert flops(b.op("ReduceSum", x, b.constant([1], "int64"), shape=(5, 1))) == 35
    e = b.op("Einsum", x, b.input("v", (7, 9)), shape=(5, 9), equation="ij,jk->ik")
    assert flops(e) == 2 * 5 * 7 * 9
    assert flops(b.op("Einsum", x, shape=(7, 5), equation="ij->ji")) == 2 * 35
    assert flops(b.op("Transpose", x, shape=(7, 5))) == 0
    first = b.split("TopK", [x, b.constant([5], "int64")], [(5, 5), (5, 5)], axis=1)[0]
    assert flops(first) == 35 * 3 * 10  # 3 comparisons of each element with a heap of 5


def test_a_group_moves_what_enters_and_leaves_it():
    b = GraphBuilder()
    x = b.input("x", (4, 4))
    w = b.weight(np.ones((4, 4), np.float32))
    r = b.op("Relu", b.op("Add", b.op("MatMul", x, w, shape=(4, 4)), x))
    model = Model(b.finish(r), b.weights, {"x": np.ones((4, 4), np.float32)})
    (group,) = run(model, "fuse-operators").groups
    assert work_of(group) == Work(2 * 64 + 16 + 16, 3 * 64)
    assert cost_of(group, DEVICE) == 100 + 96
    group.cost = IntegerAttr(0, i64)
    assert cost_of(group, DEVICE) == 0


def test_gather_reads_what_it_picks():
    b = GraphBuilder()
    table = b.weight(np.ones((1000, 4), np.float32))
    y = b.op("Gather", table, b.input("x", (3,), "int64"), shape=(3, 4), dtype="float32")
    model = Model(b.finish(y), b.weights, {"x": np.arange(3)})
    (group,) = run(model, "fuse-operators").groups
    assert work_of(group).nbytes == 3 * 8 + 48 + 48


@pytest.mark.parametrize(
    ("work", "time"), [(Work(1000, 10), 200), (Work(10, 1000), 600), (Work(0, 0), 100)]
)
def test_roofline(work: Work, time: int):
    assert estimate(work, DEVICE) == time


@pytest.mark.parametrize(
    ("dtype", "exponent", "cheap"),
    [("float32", 2, True), ("float32", 3, True), ("float32", 0.5, False), ("int64", 2, False)],
)
def test_small_whole_powers_of_floats_are_cheap(dtype: str, exponent: float, cheap: bool):
    b = GraphBuilder()
    power = b.op("Pow", b.input("x", (4,), dtype), b.constant(exponent), shape=(4,))
    assert isinstance(power.owner, OperatorOp)
    assert is_cheap(power.owner) == cheap
