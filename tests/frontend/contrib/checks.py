"""One operator of onnxruntime: imported, exported, and compared with onnxruntime's kernel."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported
from tests.frontend.checks import run
from tests.lowered import import_lowered

Operands = Sequence[np.ndarray | None]
NUMBERS = np.random.default_rng(3)
_START = NUMBERS.bit_generator.state


def restart() -> None:
    """Draw the same numbers again, so that a test's inputs do not depend on the tests before it."""
    NUMBERS.bit_generator.state = _START


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Fresh random numbers."""
    return np.asarray(NUMBERS.standard_normal(shape), dtype)


def positive(*shape: int) -> np.ndarray:
    """Fresh random numbers between 0.01 and 0.06, such as scales."""
    return np.asarray(NUMBERS.uniform(0.01, 0.06, shape), np.float32)


def whole(low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    """Fresh random integers from low to high - 1."""
    return np.asarray(NUMBERS.integers(low, high, shape), dtype)


def model_of(
    op_type: str,
    operands: Operands,
    outputs: Sequence[str] = ("y",),
    constants: Collection[int] = (),
    domain: str = "com.microsoft",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; the operands with the numbers `constants` are initializers.

    An output is float32, unless its dtype follows its name: `y:int8`.
    """
    typed = [output.partition(":")[::2] for output in outputs]
    names = ["" if operand is None else f"i{i}" for i, operand in enumerate(operands)]
    node = helper.make_node(
        op_type, names, [n for n, _ in typed], name="node", domain=domain, **attributes
    )
    inputs: list[onnx.ValueInfoProto] = []
    weights: list[onnx.TensorProto] = []
    for i, operand in enumerate(operands):
        if operand is None:
            continue
        if i in constants:
            weights.append(numpy_helper.from_array(operand, f"i{i}"))
        else:
            dtype = helper.np_dtype_to_tensor_dtype(operand.dtype)
            inputs.append(helper.make_tensor_value_info(f"i{i}", dtype, operand.shape))
    results = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype or "float32")), None
        )
        for name, dtype in typed
        if name
    ]
    graph = helper.make_graph([node], "g", inputs, results, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def fed(model: onnx.ModelProto, operands: Operands) -> Mapping[str, np.ndarray]:
    """The inputs of a model of one node."""
    names = {info.name for info in model.graph.input}
    pairs = {f"i{i}": operand for i, operand in enumerate(operands) if operand is not None}
    return {name: operand for name, operand in pairs.items() if name in names}


def imported_results(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> tuple[Imported, list[np.ndarray]]:
    """The model imported, and its results."""
    imported = import_lowered(model)
    return imported, run(export_model(imported.module, imported.weights), inputs)


def check(
    op_type: str,
    operands: Operands,
    outputs: Sequence[str] = ("y",),
    constants: Collection[int] = (),
    tolerance: float = 1e-4,
    **attributes: Any,
) -> Imported:
    """Compare a node with onnxruntime's kernel; quantised results may be off by one."""
    model = model_of(op_type, operands, outputs, constants, **attributes)
    inputs = fed(model, operands)
    imported, got = imported_results(model, inputs)
    for actual, wanted in zip(got, run(model, inputs), strict=True):
        compare(actual, wanted, tolerance)
    return imported


def compare(actual: np.ndarray, wanted: np.ndarray, tolerance: float = 1e-4) -> None:
    """Equal dtypes and shapes, close values; roundings of bytes may differ by one."""
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind != "f":
        tolerance = 1 if wanted.dtype.itemsize == 1 else 0
        assert np.abs(actual.astype(np.int64) - wanted).max(initial=0) <= tolerance
        return
    scale = float(np.abs(wanted).max(initial=1e-6))
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance * scale)
