"""Models of control flow as text, compiled to static modules and compared with onnxruntime."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

import compiler
from compiler.artifact.module import Module

Feeds = Mapping[str, Any]


def model_of(text: str, weights: Feeds | None = None) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form."""
    graph = parser.parse_graph(text)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in (weights or {}).items())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    checker: Any = onnx.checker
    checker.check_model(model)
    return model


def static(model: onnx.ModelProto, **options: Any) -> Module:
    """The model as one schedule."""
    module = compiler.compile(model, dynamic=False, **options)
    assert isinstance(module, Module)
    return module


def reference(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    """The outputs by onnxruntime."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def check(module: Module, model: onnx.ModelProto, feeds: Feeds) -> None:
    """Compare a run with onnxruntime: floats to rounding, others exactly."""
    arrays = {name: np.asarray(value) for name, value in feeds.items()}
    for found, wanted in zip(module.run(arrays).values(), reference(model, arrays), strict=True):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


def kinds(module: Module) -> list[str]:
    """The kinds of control tasks, those in bodies included."""
    return [t.control.form.kind for t in module.schedule.all_tasks if t.control is not None]
