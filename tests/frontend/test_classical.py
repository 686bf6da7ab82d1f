"""Operators of classical models that are imported as standard ones, against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.errors import ShapeError
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.frontend.rules.classical import ML_DOMAIN
from tests.frontend.checks import run, types

ROWS = np.random.default_rng(1).integers(-3, 3, (6, 4))


def model_of(op_type: str, x: np.ndarray, columns: Any = None, **attributes: Any):
    """A model of one node that reads x and perhaps constant columns."""
    inputs = ["x"] if columns is None else ["x", "columns"]
    node = helper.make_node(op_type, inputs, ["y"], domain=ML_DOMAIN, **attributes)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    info = helper.make_tensor_value_info("x", element, x.shape)
    result = 1 if op_type == "Scaler" else element
    graph = helper.make_graph(
        [node], "g", [info], [helper.make_tensor_value_info("y", result, None)]
    )
    if columns is not None:
        array = np.array(columns, np.int64)
        graph.initializer.append(onnx.numpy_helper.from_array(array, "columns"))
    imports = [helper.make_opsetid(ML_DOMAIN, 1), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(model: onnx.ModelProto, x: np.ndarray) -> list[str]:
    """Compare with onnxruntime; the operators of the imported graph."""
    imported = import_model(model)
    imported.module.verify()
    (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
    (wanted,) = run(model, {"x": x})
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, 1e-6)
    return types(imported)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(6, 4), (24,), (2, 3, 4)])
@pytest.mark.parametrize("columns", [[2], [[3, 0, 3]]])
def test_columns(dtype: Any, shape: tuple[int, ...], columns: Any):
    x = ROWS.astype(dtype).reshape(shape)
    assert "Gather" in check(model_of("ArrayFeatureExtractor", x, columns), x)


def test_columns_beyond_the_input_are_refused():
    with pytest.raises(ShapeError, match=r"input 1 has the index 4, which is outside \[0, 3\]"):
        import_model(model_of("ArrayFeatureExtractor", ROWS, [4]))


@pytest.mark.parametrize("replaced", [np.nan, 0.0, -2.0])
@pytest.mark.parametrize("values", [[7.5], [1.5, 2.5, 3.5, 4.5]])
def test_missing_floats_are_imputed(replaced: float, values: list[float]):
    x = np.where(ROWS == 1, np.nan, ROWS).astype(np.float32)
    attributes = {"imputed_value_floats": values, "replaced_value_float": replaced}
    check(model_of("Imputer", x, **attributes), x)


@pytest.mark.parametrize("values", [[7], [5, 6, 7, 8]])
def test_missing_integers_are_imputed(values: list[int]):
    attributes = {"imputed_value_int64s": values, "replaced_value_int64": -2}
    check(model_of("Imputer", ROWS, **attributes), ROWS)


def test_values_of_other_columns_are_refused():
    with pytest.raises(ShapeError, match="it has 3 values for 4 columns"):
        import_model(model_of("Imputer", ROWS, imputed_value_int64s=[1, 2, 3]))


@pytest.mark.parametrize(
    ("shape", "count"), [((2, 3, 4), 4), ((2, 4, 3), 4), ((6, 1), 4), ((2, 3, 3), 3)]
)
@pytest.mark.parametrize("name", ["imputed_value_floats", "offset", "scale"])
def test_values_of_columns_that_onnxruntime_counts_otherwise_are_refused(
    shape: tuple[int, ...], count: int, name: str
):
    op_type = "Imputer" if name.startswith("imputed") else "Scaler"
    model = model_of(op_type, np.ones(shape, np.float32), **{name: [2.0, 3.0, 4.0, 5.0][:count]})
    with pytest.raises(ShapeError, match=f"it has {count} values for"):
        import_model(model)


def test_one_value_is_for_all_axes():
    x = ROWS.astype(np.float32).reshape(2, 3, 4)
    check(model_of("Scaler", x, offset=[1.5], scale=[2.0]), x)
    check(model_of("Imputer", x, imputed_value_floats=[1.5]), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("offset", [[1.5], [1.0, 2.0, 3.0, 4.0]])
def test_columns_are_scaled(dtype: Any, offset: list[float]):
    x = ROWS.astype(dtype)
    scale = [0.25, 2.0, 3.0, 4.0][: len(offset)]
    check(model_of("Scaler", x, offset=offset, scale=scale), x)
