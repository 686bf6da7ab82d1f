"""Concats and Splits of many tensors become trees, unless they are views."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.graph.fusion.state import MOST_TENSORS
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.types import shape_of
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.strategies import Model


def fused(model: Model, most: int) -> GraphOp:
    """The groups of a model, whose results stay; none reads or writes more than `most` tensors."""
    graph = run(model, "fuse-operators")
    for group in graph.groups:
        assert sum(0 not in shape_of(value.type) for value in group.inputs) <= most
        assert len(group.outputs) <= most
    return graph


def sizes_of(count: int) -> list[int]:
    """How many columns each part has: some none."""
    return [i % 4 for i in range(1, count + 1)]


def concat(count: int, axis: int = -1) -> Model:
    """Tensors of two rows, or of two columns, next to each other."""
    b = GraphBuilder()
    shapes = [(2, size) if axis else (size, 2) for size in sizes_of(count)]
    parts = [b.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    total = sum(sizes_of(count))
    result = b.op("Concat", *parts, shape=(2, total) if axis else (total, 2), axis=axis)
    module = b.finish(result)
    chance = np.random.default_rng()
    inputs: dict[str, NDArray[Any]] = {
        f"x{i}": chance.random(s).astype(np.float32) for i, s in enumerate(shapes)
    }
    return Model(module, b.weights, inputs)


def split(count: int, axis: int = -1) -> Model:
    """Columns or rows of a tensor in parts, with a function of each."""
    b = GraphBuilder()
    sizes, total = sizes_of(count), sum(sizes_of(count))
    x = b.input("x", (2, total) if axis else (total, 2))
    shapes = [(2, size) if axis else (size, 2) for size in sizes]
    parts = b.split("Split", [x, b.constant(sizes, "int64")], shapes, axis=axis)
    module = b.finish(*(b.op("Exp", part) for part in parts))
    data = np.random.default_rng().random(shape_of(x.type)).astype(np.float32)
    inputs: dict[str, NDArray[Any]] = {"x": data}
    return Model(module, b.weights, inputs)


@pytest.mark.parametrize("make", [concat, split])
def test_parts_that_a_kernel_may_have_stay_one_operator(make: Callable[[int], Model]):
    graph = fused(make(MOST_TENSORS), 2 * MOST_TENSORS)
    assert sum(kind in ("Concat", "Split") for group in nodes_of(graph) for kind in group) == 1


@pytest.mark.parametrize("count", [MOST_TENSORS + 1, 200, 1500])
def test_a_concat_of_many_tensors(count: int):
    graph = fused(concat(count), MOST_TENSORS)
    assert len(nodes_of(graph)) <= count // MOST_TENSORS + 2


def test_a_split_into_many_tensors():
    fused(split(200), MOST_TENSORS)


@pytest.mark.parametrize("count", [3, 4, 9, 10, 30])
@pytest.mark.parametrize("make", [concat, split])
def test_trees_of_several_levels(
    make: Callable[[int], Model], count: int, monkeypatch: pytest.MonkeyPatch
):
    for module in ("passes.graph.split_wide_concats", "graph.fusion.rules"):
        monkeypatch.setattr(f"compiler.{module}.MOST_TENSORS", 3)
    fused(make(count), 3)


def test_views_stay_one_operator():
    graph = run(split(100, axis=0), "fuse-operators")
    left = [op for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    assert [op.type_name for op in left] == ["Split"]
