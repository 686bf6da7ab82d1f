"""The second judge: the imported graph in float64, each float kept in the range of its own type.

It shares the frontend with what it judges, so it sees mistakes of passes and kernels, and it
judges alone what onnxruntime has no kernel for.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler import FlowloomError
from compiler.frontend.importing import Imported
from compiler.frontend.interpreter import Arrays, evaluated, interpret
from compiler.frontend.semantics import Semantics
from compiler.graph.fusion.whole import Whole, whole_kernels
from compiler.ir import dataflow
from compiler.ir.groups import graph_of, operators, outer_value
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attributes_of
from compiler.net.operators.fourier import Transform
from compiler.target.target import parse_target
from compiler.tensors.dtypes import numpy_dtype
from tests.fuzz.case import Case
from tests.fuzz.oracle import (
    EXACT,
    Noise,
    Oracle,
    Refused,
    Value,
    absolute_error,
    free_names,
    is_exact,
    is_float,
    largest,
    limits_of,
    value_info,
)
from tests.lowered import import_lowered

Array = NDArray[Any]

_POWERS = frozenset({"LpPool", "GlobalLpPool", "LpNormalization", "ReduceL2"})
"""Operators that may be finite where the powers of elements that they sum are not."""

_ROUNDING = frozenset({"Cast", "CastLike", "Range"})
"""Operators of `EXACT` whose results the types of the model round, unlike float64."""


class Precise:
    """A graph in float64; `values` are its outputs, `dtypes` those of the model."""

    name = "float64"

    def __init__(self, case: Case) -> None:
        """Raises Refused where the frontend or the interpreter refuses the graph."""
        imported = _imported(case.model, case.input_shapes, case.semantics, case.target)
        self._module, self._weights = imported.module, imported.weights
        self._feeds = case.feeds
        graph = graph_of(self._module)
        names = [name.data for name in graph.output_names]
        yielded = [outer_value(value) for value in graph.results_yielded]
        self.dtypes = {n: _dtype(v) for n, v in zip(names, yielded, strict=True)}
        rounded, inexact = _rounded(self._module), _inexact_names(case.proto)
        pairs = [*zip(names, yielded, strict=True)]
        weights = {n for n, v in pairs if isinstance(v.owner, dataflow.WeightOp)}
        self._folded = {n: op_type for n, op_type in inexact.items() if n in weights}
        self.inexact = {n for n, v in pairs if v in rounded} | self._folded.keys()
        self.doubtful = False
        self.values: dict[str, Any] = self.perturbed(None)

    def perturbed(self, noise: Noise | None) -> dict[str, Array]:
        """The outputs where inexact operators err by a few units in the last place."""

        def evaluate(op: dataflow.OperatorOp, operands: Arrays, precise: bool) -> Arrays:
            _check_powers(op, operands)
            _check_casts(op, operands)
            results = evaluated(op, _near(op, operands, noise), precise)
            pairs = zip(op.outputs, results, strict=True)
            return [_erring(op, value, result, operands, noise) for value, result in pairs]

        try:
            results = interpret(
                self._module, self._weights, self._feeds, precise=True, evaluate=evaluate
            )
        except FlowloomError as error:
            raise Refused(str(error)) from error
        if noise is not None:
            for name, op_type in self._folded.items():
                grown = absolute_error(op_type, largest([results[name]]))
                results[name] = noise.on(results[name], grown, self.dtypes[name])
        return results


class Either(Oracle):
    """Evaluates nodes by onnxruntime, and by the interpreter where that has no kernel for them."""

    def __init__(self, model: onnx.ModelProto, semantics: str = "onnx") -> None:
        super().__init__(model, semantics)
        self._constants = {tensor.name for tensor in model.graph.initializer}
        nodes = [node for node in model.graph.node if node.op_type == "Constant"]
        self._constants.update(name for node in nodes for name in node.output)

    def step(self, node: onnx.NodeProto, values: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of one node by name; raises Refused."""
        try:
            return super().step(node, values)
        except Refused as refusal:
            if not re.search("NOT_IMPLEMENTED|Could not find an impl|INVALID_GRAPH", str(refusal)):
                raise
        return self._interpreted(node, {name: values[name] for name in free_names(node)})

    def _interpreted(self, node: onnx.NodeProto, feeds: Mapping[str, Value]) -> dict[str, Value]:
        model = self.model_of(node, {})
        for name, value in feeds.items():
            if name in self._constants:
                model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
            else:
                model.graph.input.append(value_info(name, value))
        try:
            typed = onnx.shape_inference.infer_shapes(model)
        except onnx.shape_inference.InferenceError as error:  # of an opset without the operator
            raise Refused(str(error)) from error
        imported = _imported(typed.SerializeToString(), semantics=self.semantics)
        try:
            return interpret(imported.module, imported.weights, feeds)
        except FlowloomError as error:
            raise Refused(str(error)) from error


def _imported(
    model: bytes,
    shapes: dict[str, list[int]] | None = None,
    semantics: str = "onnx",
    target: str = "cpu",
) -> Imported:
    # products by unit roots are zero to other digits than a target's transform gives them
    has_kernel = whole_kernels(parse_target(target))

    def has_transform(whole: Whole) -> bool:
        return isinstance(whole, Transform) and has_kernel(whole)

    try:
        return import_lowered(
            model,
            shapes,
            regions=True,
            semantics=Semantics.parse(semantics),
            has_kernel=has_transform,
        )
    except FlowloomError as error:
        raise Refused(str(error)) from error


def _dtype(value: SSAValue) -> np.dtype[Any]:
    return numpy_dtype(dtype_of(value.type))


def _rounds(op: dataflow.OperatorOp) -> bool:
    """Whether an operator's results in the model's types differ from those in float64."""
    if attributes_of(op).get("reduction", "none") != "none":
        return True
    return op.type_name not in EXACT or op.type_name in _ROUNDING


def _rounded(module: Any) -> set[SSAValue]:
    """The values that rounding errors of some operator reach."""
    found: set[SSAValue] = set()
    for op in operators(graph_of(module)):
        if isinstance(op, dataflow.ControlOp):  # what is in its bodies rounds, or not
            found.update(op.outputs)
        if not isinstance(op, dataflow.OperatorOp):
            continue
        tensors = [v for v in (*op.inputs, *op.outputs) if not isinstance(v.type, NoneType)]
        floats = any(is_float(_dtype(v)) for v in tensors)
        rounds = _rounds(op) and (floats or op.type_name == "Resize")
        if rounds or any(outer_value(v) in found for v in op.inputs):
            found.update(op.outputs)
    return found


def _inexact_names(model: onnx.ModelProto) -> dict[str, str]:
    """The tensors that rounding errors of some node may reach, with the operators that make them.

    Folding makes weights of them.
    """
    names: dict[str, str] = {}
    for node in model.graph.node:
        if not is_exact(node) or names.keys() & free_names(node):
            names |= dict.fromkeys(node.output, node.op_type)
    return names


def _check_powers(op: dataflow.OperatorOp, operands: Arrays) -> None:
    """Refuse elements whose powers are infinite or zero in the type of the model."""
    array = operands[0] if operands else None
    if op.type_name not in _POWERS or array is None or not is_float(_dtype(op.inputs[0])):
        return
    size = np.abs(array[np.isfinite(array) & (array != 0)].astype(np.float64))
    with np.errstate(all="ignore"):
        powers = size ** attributes_of(op).get("p", 2)
    limits = limits_of(_dtype(op.inputs[0]))
    outside = (powers * array.size > float(limits.max)) | (powers < float(limits.smallest_normal))
    if outside.any():
        raise Refused(f"{op.type_name}: a power of an element is out of range")


def _check_casts(op: dataflow.OperatorOp, operands: Arrays) -> None:
    """Refuse NaN that becomes an integer: the text says not which, nor do quantised nodes."""
    array = operands[0] if op.type_name == "Cast" else None
    if array is None or not is_float(array.dtype) or is_float(_dtype(op.outputs[0])):
        return
    if _dtype(op.outputs[0]).kind in "iu" and np.isnan(array.astype(np.float64)).any():
        raise Refused("NaN becomes an integer")


def _near(op: dataflow.OperatorOp, operands: Arrays, noise: Noise | None) -> Arrays:
    """The operands with errors, where the operator rounds; not the scales that decide a size."""
    if noise is None or not _rounds(op) or op.type_name in _ROUNDING:
        return operands
    if op.type_name == "Resize":
        operands = [_spread_out(op, operands[0]), *operands[1:]]
        if not is_float(_dtype(op.inputs[0])):  # errors of the result are enough
            return operands
    some = 1 if op.type_name == "Resize" else len(operands)
    erring = [
        array if array is None else noise.on(array, dtype=_dtype(value))
        for array, value in zip(operands[:some], op.inputs, strict=False)
    ]
    return [*erring, *operands[some:]]


def _spread_out(op: dataflow.OperatorOp, array: Array | None) -> Array | None:
    """The operand of a Resize with NaN near what is not finite, along the axes that change.

    Whether a neighbour of weight zero counts is not decided: rounding moves coordinates.
    """
    if array is None or attributes_of(op).get("mode", "nearest") == "nearest":
        return array
    if not is_float(array.dtype):  # rounded again, with errors
        return array.astype(np.float64)
    wild = ~np.isfinite(array)
    changed = zip(array.shape, shape_of(op.outputs[0].type), strict=True)
    for axis in [axis for axis, (before, after) in enumerate(changed) if before != after]:
        padded = np.pad(wild, [(2, 2) if axis == i else (0, 0) for i in range(wild.ndim)])
        wild = np.lib.stride_tricks.sliding_window_view(padded, 5, axis).any(-1)
    return np.where(wild, np.nan, array)


def _erring(
    op: dataflow.OperatorOp,
    value: SSAValue,
    result: Array | None,
    operands: Arrays,
    noise: Noise | None,
) -> Array | None:
    """A result in the range of its type, with errors where the operator rounds."""
    if result is None or not is_float(result.dtype):
        return result
    dtype = _dtype(value)
    if not is_float(dtype) and noise is not None and operands[0] is not None:
        return noise.whole(result, operands[0])
    ranged = in_range(result, dtype)
    if noise is None or not _rounds(op):
        return ranged
    grown = largest(array for array in operands if array is not None)
    return noise.on(ranged, absolute_error(op.type_name, grown), dtype)


def in_range(array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in float64, infinite or zero where they are in a narrower type."""
    with np.errstate(all="ignore"):
        narrow = array.astype(dtype).astype(np.float64)
    return np.where(np.isinf(narrow) | (narrow == 0), narrow, array)
