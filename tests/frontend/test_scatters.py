"""Scatters of one update for each element become choices, and nothing else changes."""

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import OperatorOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)


def draw(*shape: int) -> Array:
    """Random numbers."""
    return RANDOM.standard_normal(shape).astype("float32")


def scattered(
    op_type: str,
    data: Array,
    indices: Array,
    updates: Array,
    opset: int = 18,
    order: tuple[int, ...] = (),
    **attributes: Any,
) -> list[str]:
    """Compare a scatter, perhaps between transposes, with onnxruntime; returns what it becomes."""
    arrays = {"data": data, "indices": indices, "updates": updates}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    names = ("data", "y")
    nodes: list[NodeProto] = []
    if order:
        back = [order.index(axis) for axis in range(len(order))]
        names = ("first", "last")
        nodes.append(helper.make_node("Transpose", ["data"], ["first"], perm=order))
        nodes.append(helper.make_node("Transpose", ["last"], ["y"], perm=back))
    operands = [names[0], "indices", "updates"]
    nodes.insert(len(nodes) // 2, helper.make_node(op_type, operands, [names[1]], **attributes))
    graph = helper.make_graph(nodes, "scatter", infos, [result])
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    imported = import_model(model)
    Runner().run(imported.module, parse("canonicalize"))
    (got,) = interpret(imported.module, imported.weights, arrays).values()
    (wanted,) = run_onnxruntime(model, arrays).values()
    assert np.array_equal(got, wanted)
    return [op.type_name for op in imported.module.walk() if isinstance(op, OperatorOp)]


@pytest.mark.parametrize(
    ("shape", "indices", "opset"),
    [
        ((7, 2, 3), [[-2]], 18),
        ((7, 2, 3), [[3, -1]], 18),
        ((7, 2, 3), [3, -1], 16),
        ((7, 2, 3), [[[3, -1, 2]]], 13),
    ],
)
def test_one_slice_is_chosen(shape: tuple[int, ...], indices: Any, opset: int):
    named = np.array(indices)
    updates = draw(*named.shape[:-1], *shape[named.shape[-1] :])
    operators = scattered("ScatterND", draw(*shape), named, updates, opset)
    assert "Where" in operators
    assert "ScatterND" not in operators


@pytest.mark.parametrize(("axis", "dtype", "opset"), [(1, "int64", 18), (0, "int32", 11)])
def test_one_element_of_each_column_is_chosen(axis: int, dtype: str, opset: int):
    shape = [4, 5, 3]
    extent, shape[axis] = shape[axis], 1
    indices = RANDOM.integers(-extent, extent, shape).astype(dtype)
    data = draw(4, 5, 3)
    operators = scattered("ScatterElements", data, indices, draw(*shape), opset, axis=axis)
    assert "Where" in operators
    assert "ScatterElements" not in operators


@pytest.mark.parametrize("index", [5, -3])
def test_the_axis_of_a_cache_is_not_moved_to_the_front_and_back(index: int):
    updates = draw(1, 2, 3, 4)
    order = (2, 0, 1, 3)
    operators = scattered("ScatterND", draw(2, 3, 7, 4), np.array([[index]]), updates, order=order)
    assert operators.count("Transpose") <= 1  # of the update
    operators = scattered(
        "ScatterND", draw(2, 3, 7, 4), np.array([[index, 1]]), draw(1, 3, 4), order=order
    )
    assert "Where" in operators


def test_other_scatters_stay():
    data = draw(7, 2)
    assert "ScatterND" in scattered("ScatterND", data, np.array([[1], [2]]), draw(2, 2))
    more = scattered("ScatterND", data, np.array([[1]]), draw(1, 2), reduction="add")
    assert "ScatterND" in more
    part = scattered("ScatterElements", data, np.array([[1]]), draw(1, 1), axis=0)
    assert "ScatterElements" in part
