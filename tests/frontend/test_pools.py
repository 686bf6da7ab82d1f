"""Pools whose windows reach beyond the image are cropped to it, and nothing else changes."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper

import compiler
from compiler.errors import ShapeError
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from tests.frontend.checks import assert_close, operators, run, types

Array = NDArray[Any]
Attributes = Mapping[str, Any]

TORCH = {"kernel_shape": [320, 320], "strides": [320, 320], "ceil_mode": 1}
"""The last pool of an efficientnet as PyTorch exports it; the image is smaller."""


def pool(
    op_type: str, shape: tuple[int, ...], outputs: int = 1, /, dtype: Any = np.float32, **given: Any
) -> onnx.ModelProto:
    """A model of one pool, of opset 22."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    kinds = {"y": element, "places": int(TensorProto.INT64)}
    names = ["y", "places"][:outputs]
    node = helper.make_node(op_type, ["x"], names, **given)
    free = [None] * len(shape)
    results = [helper.make_tensor_value_info(name, kinds[name], free) for name in names]
    x = helper.make_tensor_value_info("x", element, shape)
    graph = helper.make_graph([node], "g", [x], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@st.composite
def wide_pools(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape and attributes of a pool whose windows may be larger than the image."""
    rank = draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *numbers(1, 5))
    kernel = numbers(1, 9)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": numbers(1, 6)}
    if draw(st.booleans()):
        attributes["pads"] = [draw(st.integers(0, size - 1)) for size in kernel * 2]
    attributes["ceil_mode"] = draw(st.integers(0, 1))
    if draw(st.integers(0, 3)) == 0:
        attributes["dilations"] = numbers(1, 3)
    return shape, attributes


def own_attributes(op_type: str, data: st.DataObject) -> dict[str, int]:
    """Attributes that only one of the operators has."""
    match op_type:
        case "AveragePool":
            return {"count_include_pad": data.draw(st.integers(0, 1))}
        case "LpPool":
            return {"p": data.draw(st.integers(1, 3))}
        case _:
            return {}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), wide_pools(), st.data())
def test_a_pool_of_any_window_is_onnxruntimes(
    op_type: str, case: tuple[tuple[int, ...], Attributes], data: st.DataObject
):
    shape, attributes = case
    has_places = op_type == "MaxPool" and "dilations" not in attributes  # no window is empty
    outputs = 1 + (has_places and data.draw(st.booleans()))
    model = pool(op_type, shape, outputs, **attributes, **own_attributes(op_type, data))
    try:
        imported = import_model(model)
    except ShapeError:  # no window fits
        assume(False)
        raise
    imported.module.verify()
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = generator.standard_normal(shape, np.float32)
    y, *places = interpret(imported.module, imported.weights, {"x": x}).values()
    y = np.maximum(y, np.finfo(np.float32).min)  # onnxruntime's maximum of no elements
    assert_close([y, *places], run(model, {"x": x}))


@pytest.mark.parametrize(
    ("op_type", "shape", "attributes", "left"),
    [
        ("AveragePool", (2, 5, 2, 2), TORCH, []),
        ("MaxPool", (2, 5, 2, 3), TORCH, []),
        ("LpPool", (2, 5, 4), {"kernel_shape": [9], "strides": [9], "pads": [3, 2]}, []),
        ("AveragePool", (2, 5, 7, 7), {"kernel_shape": [7, 7]}, []),
        ("MaxPool", (2, 5, 2, 8), {"kernel_shape": [9, 2], "pads": [4, 0, 3, 0]}, [2, 2]),
        ("MaxPool", (1, 5, 8, 8), {"kernel_shape": [3, 3], "pads": [1] * 4}, [3, 3]),
    ],
)
def test_what_is_left_of_a_window(
    op_type: str, shape: tuple[int, ...], attributes: Attributes, left: list[int]
):
    imported = import_model(pool(op_type, shape, **attributes))
    assert types(imported) == [op_type if left else f"Global{op_type}"]
    (op,) = operators(imported)
    assert not left or op["kernel_shape"] == left


@pytest.mark.parametrize(
    ("dtype", "shape", "attributes"),
    [
        ("float32", (2, 2, 7), {"kernel_shape": [3], "pads": [1, 2]}),
        (
            "float16",
            (2, 2, 5, 4),
            {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]},
        ),
        ("float32", (2, 2, 4, 3, 5), {"kernel_shape": [2, 2, 3], "dilations": [2, 1, 1]}),
        (
            "int8",
            (2, 2, 9, 7),
            {"kernel_shape": [1, 2], "strides": [5, 3], "auto_pad": "SAME_LOWER"},
        ),
    ],
)
def test_column_major_indices_name_the_elements_that_row_major_ones_do(
    dtype: str, shape: tuple[int, ...], attributes: Attributes
):
    """Of equal elements the first in rows, which a column may have last; as in onnxruntime."""
    x = np.random.default_rng(3).integers(0, 2, shape).astype(dtype)
    results: list[Any] = []
    for order in (0, 1):
        model = pool("MaxPool", shape, 2, dtype, storage_order=order, **attributes)
        module = compiler.compile(model, budget=0, semantics="onnxruntime")
        results.append([*module.run({"x": x}).values()])
        np.testing.assert_array_equal(results[-1], run(model, {"x": x}))
    (largest, rows), (_, columns) = results
    image, *place = cast(
        tuple[Array, ...], np.unravel_index(rows, (shape[0] * shape[1], *shape[2:]))
    )
    columns_first = (shape[0] * shape[1], *shape[:1:-1])
    wanted = np.ravel_multi_index((image, *place[::-1]), columns_first)
    np.testing.assert_array_equal(columns, wanted)
    np.testing.assert_array_equal(x.reshape(-1)[rows], largest)
