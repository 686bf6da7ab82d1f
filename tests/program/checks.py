"""Models for programs, and their comparison with onnxruntime."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime

import compiler
from compiler.program.model import DynamicModule

HEADER = '<ir_version: 10, opset_import: ["": 21]>'


def model_of(text: str) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form, of opset 21."""
    model = onnx.parser.parse_model(f"{HEADER}\n{text}")
    cast(Any, onnx.checker).check_model(model)
    return model


def compiled(text: str, **options: Any) -> DynamicModule:
    """The dynamic module of a graph in ONNX's text form."""
    module = compiler.compile(model_of(text), **options)
    assert isinstance(module, DynamicModule)
    return module


def reference(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by onnxruntime, without its optimiser."""
    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(inputs)), strict=True))


def check(module: DynamicModule, model: onnx.ModelProto, inputs: Mapping[str, Any]) -> None:
    """Compare a run with onnxruntime's."""
    expected, found = reference(model, inputs), module.run(inputs)
    assert [*found] == [*expected]
    for name, wanted in expected.items():
        assert_equal(found[name], wanted)


def assert_equal(found: Any, wanted: Any) -> None:
    """Compare tensors, or sequences of them."""
    if isinstance(wanted, list):
        pairs = zip(cast(list[Any], found), cast(list[Any], wanted), strict=True)
        for item, other in pairs:
            assert_equal(item, other)
        return
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, wanted)
