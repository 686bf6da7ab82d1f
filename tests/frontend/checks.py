"""Import of a model, export as ONNX, and comparison of both under onnxruntime."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, parser

from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported
from compiler.ir.dataflow import OperatorOp
from compiler.net.operators import KINDS
from tests.lowered import import_lowered

Arrays = Mapping[str, np.ndarray]


def parse(
    text: str, opset: int = 18, /, **initializers: np.ndarray | np.generic
) -> onnx.ModelProto:
    """A model in ONNX's textual form, with initializers added by name."""
    header = (
        "" if text.lstrip().startswith("<") else f'<ir_version: 8, opset_import: ["": {opset}]>'
    )
    model = parser.parse_model(f"{header}\n{text}")
    for name, array in initializers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return model


def run(model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    """The model's outputs under onnxruntime, unoptimised."""
    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(model.SerializeToString(), options, providers)
    return session.run(None, dict(inputs))


def random_inputs(imported: Imported, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of the imported graph's types."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for info in export_model(imported.module, imported.weights).graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        arrays[info.name] = (generator.standard_normal(shape) * 3).astype(dtype)
    return arrays


def operators(imported: Imported) -> list[OperatorOp]:
    """The operators of the graph, in order."""
    return [op for op in imported.module.walk() if isinstance(op, OperatorOp)]


def types(imported: Imported) -> list[str]:
    """The operator types of the graph, in order."""
    return [op.type_name for op in operators(imported)]


def counts(imported: Imported) -> Counter[str]:
    """The number of operators of each type."""
    return Counter(types(imported))


def assert_close(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Equal dtypes and shapes, and values within 1e-4 of the output's scale."""
    for actual, wanted in zip(got, expected, strict=True):
        assert actual.dtype == wanted.dtype
        assert actual.shape == wanted.shape
        scale = np.abs(wanted).max(initial=1e-6) if wanted.dtype.kind == "f" else 1
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5 * float(scale))


def check(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None) -> Imported:
    """Import, verify, and compare with the original on two random inputs."""
    imported = import_lowered(model, shapes)
    imported.module.verify()
    assert set(types(imported)) <= set(KINDS)
    again = export_model(imported.module, imported.weights)
    for seed in range(2):
        inputs = random_inputs(imported, seed)
        assert_close(run(again, inputs), run(model, inputs))
    return imported
