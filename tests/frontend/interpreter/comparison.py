"""Comparison of the interpreter's results with onnxruntime's, and with its results in float64."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from compiler.frontend.interpreter import evaluate_node
from compiler.net.operators import OPERATORS
from compiler.tensors.dtypes import FLOAT8
from tests.operator_cases import OPSET, Array, Case

_TOLERANCE = {
    **{"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-9},
    **dict.fromkeys(FLOAT8, 0.0),
}
_NOT_THERE = ("NOT_IMPLEMENTED", "Could not find an implementation", "INVALID_GRAPH")


class Refused(Exception):
    """Raised where onnxruntime does not run a case; `known` if it says that it cannot."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.known = any(text in reason for text in _NOT_THERE)


def evaluate(case: Case, precise: bool = False) -> list[Array | None]:
    """The interpreter's results."""
    wanted = [True] * case.outputs
    return evaluate_node(case.op_type, case.inputs, case.attributes, wanted, precise)


def model_of(case: Case, opset: int = OPSET) -> onnx.ModelProto:
    """A model of one operator whose inputs are the graph's."""
    names = ["" if array is None else f"i{i}" for i, array in enumerate(case.inputs)]
    outputs = [f"o{i}" for i in range(case.outputs)]
    attributes = {k: v for k, v in case.attributes.items() if v != []}
    domain = OPERATORS[case.op_type].domain
    node = helper.make_node(case.op_type, names, outputs, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, case.inputs, strict=True)
        if a is not None
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "case", infos, results)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def onnxruntime_results(case: Case, opset: int = OPSET) -> list[Array]:
    """The results of onnxruntime without optimisations; raises Refused."""
    feeds = {f"i{i}": np.asarray(a) for i, a in enumerate(case.inputs) if a is not None}
    if any(array.dtype.name == "bfloat16" for array in feeds.values()):
        raise Refused("NOT_IMPLEMENTED: its Python interface takes no bfloat16")
    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = model_of(case, opset).SerializeToString()
    try:
        session = runtime.InferenceSession(data, options, ["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception as error:  # onnxruntime has an exception class for each status
        raise Refused(str(error)) from error


def difference(got: Array | None, expected: Array | None) -> str:
    """How an array differs from an expected one; empty if it agrees."""
    if got is None or expected is None:
        return "" if got is expected else "one of them is missing"
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return f"{got.dtype}{got.shape} for {expected.dtype}{expected.shape}"
    if got.dtype.name not in _TOLERANCE:
        return "" if (got == expected).all() else "other values"
    near = _TOLERANCE[got.dtype.name]
    pair = got.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(pair[1][np.isfinite(pair[1])])
    scale = max(float(finite.max(initial=0.0)), 1e-3)
    return "" if np.allclose(*pair, rtol=near, atol=near / 10 * scale, equal_nan=True) else "values"


def differences(got: Sequence[Array | None], expected: Sequence[Array | None]) -> str:
    """The first difference of several results; empty if there is none."""
    for a, b in zip(got, expected, strict=True):
        if text := difference(a, b):
            return text
    return ""


def rounded_from_float64(case: Case) -> list[Array | None]:
    """The results with all floats in float64, rounded once at the end to the model's types."""
    results = evaluate(case)
    exact = evaluate(case, precise=True)
    return [
        b if a is None or b is None or a.dtype == b.dtype else b.astype(np.float32).astype(a.dtype)
        for a, b in zip(results, exact, strict=True)
    ]
