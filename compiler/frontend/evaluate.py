"""Evaluates one operator whose inputs are all known, and infers the types of one that runs later.

Nothing is compiled: numpy for what should not copy, onnx.reference for everything else.
"""

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import onnx
from onnx import TypeProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from compiler.frontend.graph import Attributes, Contradiction, Inputs, Unsupported, Value
from compiler.ir.operators import STRUCTURAL_INPUTS

_LARGEST_SHAPE_DATA = 4096


@cache
def schema_of(op_type: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """The schema of an operator at an opset, or None where there is none."""
    if not onnx.defs.has(op_type, opset, domain):
        return None
    return onnx.defs.get_schema(op_type, opset, domain)


@cache
def element_type(dtype: str) -> int:
    """The ONNX element type of a dtype name."""
    name = "str_" if dtype == "object" or dtype.startswith("<U") else dtype
    by_name = {_dtype_name(t): t for t in onnx.TensorProto.DataType.values() if t}
    return by_name[name]


@cache
def _dtype_name(element: int) -> str:
    if element == onnx.TensorProto.STRING:
        return "str_"
    if element not in onnx.TensorProto.DataType.values():
        return f"type {element}"
    return str(helper.tensor_dtype_to_np_dtype(element))


def dtype_name(element: int) -> str:
    """The dtype name of an ONNX element type, `str_` for strings; empty if undefined."""
    return _dtype_name(element) if element else ""


@cache
def onnx_type(dtype: str) -> str:
    """The type of tensors of a dtype as schemas write it, such as `tensor(float)`."""
    return f"tensor({onnx.TensorProto.DataType.Name(element_type(dtype)).lower()})"


def make_node(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Attributes, domain=""
) -> onnx.NodeProto:
    """A node of Python attribute values."""
    node = helper.make_node(op_type, inputs, outputs, domain=domain)
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(value)
        empty = isinstance(value, list) and not value
        kind = onnx.AttributeProto.INTS if empty else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    return node


def type_proto(value: Value) -> TypeProto:
    """The ONNX type of a value."""
    return helper.make_tensor_type_proto(element_type(value.dtype), value.shape)


def _input_names(inputs: Inputs) -> list[str]:
    return ["" if value is None else f"i{i}" for i, value in enumerate(inputs)]


def _known_data(op_type: str, names: list[str], inputs: Inputs) -> dict[str, onnx.TensorProto]:
    return {
        names[i]: numpy_helper.from_array(np.ascontiguousarray(value.array))
        for i in STRUCTURAL_INPUTS.get(op_type, ())
        if i < len(inputs)
        and (value := inputs[i]) is not None
        and value.array is not None
        and value.array.size <= _LARGEST_SHAPE_DATA
    }


def infer_types(
    op_type: str, inputs: Inputs, attributes: Attributes, outputs: Sequence[str], opset: int
) -> list[TypeProto]:
    """The types of the outputs, as far as the schema's inference can tell.

    Raises Contradiction if the inputs do not fit the operator.
    """
    schema = schema_of(op_type, opset)
    names = _input_names(inputs)
    node = make_node(op_type, names, outputs, attributes)
    types = {n: type_proto(v) for n, v in zip(names, inputs, strict=True) if v is not None}
    data = _known_data(op_type, names, inputs)
    imports = [helper.make_opsetid("", opset)]
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=imports, ir_version=10
        )
    except Exception as error:  # onnx raises InferenceError, RuntimeError and its checker's errors
        raise Contradiction(str(error).splitlines()[0]) from error
    return [found.get(name, TypeProto()) if name else TypeProto() for name in outputs]


@lru_cache(maxsize=1024)
def _evaluator(serialized: bytes, domain: str, opset: int) -> ReferenceEvaluator:
    node = onnx.NodeProto.FromString(serialized)
    inputs = [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    imports = [helper.make_opsetid(domain, opset)]
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=imports))


def _reference(
    op_type: str, inputs: Inputs, attributes: Attributes, outputs: Sequence[str], opset: int
) -> list[np.ndarray | None]:
    names = _input_names(inputs)
    used = [f"o{i}" if name else "" for i, name in enumerate(outputs)]
    node = make_node(op_type, names, used, attributes)
    feeds = {n: v.array for n, v in zip(names, inputs, strict=True) if v is not None}
    try:
        with np.errstate(all="ignore"):
            results = iter(_evaluator(node.SerializeToString(), "", opset).run(None, feeds))
    except Exception as error:  # the reference evaluator raises whatever its numpy code does
        raise Unsupported(f"it cannot be evaluated on constants ({error})") from error
    return [next(results) if name else None for name in used]


def _constant(attributes: Attributes) -> np.ndarray:
    ((name, value),) = attributes.items()
    if name.startswith("value_float"):
        return np.array(value, np.float32)
    if name.startswith("value_int"):
        return np.array(value, np.int64)
    return np.asarray(value)


def _constant_of_shape(shape: np.ndarray, attributes: Attributes) -> np.ndarray:
    value = attributes.get("value", np.zeros(1, np.float32))
    return np.broadcast_to(value.reshape(()), tuple(shape.tolist()))


def _reshape(array: np.ndarray, shape: np.ndarray, attributes: Attributes) -> np.ndarray:
    target = [
        array.shape[i] if size == 0 and not attributes.get("allowzero", 0) else size
        for i, size in enumerate(shape.tolist())
    ]
    return array.reshape(target)


def _gather_elements(array: np.ndarray, indices: np.ndarray, attributes: Attributes) -> np.ndarray:
    """As onnx.reference, which fails where a dimension of the indices is one."""
    axis = attributes.get("axis", 0) % array.ndim
    box = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))
    return np.take_along_axis(array[box], indices, axis)


def clamped(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """A slice's bounds; unlike Python's, a start before the first element becomes that element."""
    first, last, _ = slice(start, end, step).indices(size)
    if step > 0:
        return first, max(first, last)
    return max(first, 0), last if last >= 0 else -size - 1


def _slice(array: np.ndarray, *bounds: np.ndarray | None) -> np.ndarray:
    """The elements from starts to ends, along axes, by steps; see `clamped`."""
    starts, ends, axes, steps = (b if b is None else b.tolist() for b in (*bounds, None, None)[:4])
    box = [slice(None)] * array.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis, step = axes[i] if axes else i, steps[i] if steps else 1
        box[axis] = slice(*clamped(start, end, step, array.shape[axis]), step)
    return array[tuple(box)]


def _with_numpy(op_type: str, arrays: list[np.ndarray | None], attributes: Attributes):
    """The result where numpy does better (mostly: without a copy); None for other operators."""
    match op_type, arrays:
        case "Constant", []:
            return _constant(attributes)
        case "Identity", [array]:
            return array
        case "ConstantOfShape", [shape]:
            return _constant_of_shape(shape, attributes)
        case "Expand", [array, shape]:
            target = np.broadcast_shapes(array.shape, tuple(shape.tolist()))
            return np.broadcast_to(array, target)
        case "Reshape", [array, shape]:
            return _reshape(array, shape, attributes)
        case "Transpose", [array]:
            return np.transpose(array, attributes.get("perm"))
        case "GatherElements", [array, indices]:
            return _gather_elements(array, indices, attributes)
        case "Slice", [array, _, _, *_]:
            return _slice(*arrays)
    return None


def evaluate(
    op_type: str, inputs: Inputs, attributes: Attributes, outputs: Sequence[str], opset: int
) -> list[np.ndarray | None]:
    """The outputs of an operator of the default domain whose inputs are all known."""
    arrays = [None if value is None else value.array for value in inputs]
    result = _with_numpy(op_type, arrays, attributes)
    if result is not None:
        return [result]
    types = infer_types(op_type, inputs, attributes, outputs, opset)
    results = _reference(op_type, inputs, attributes, outputs, opset)
    return [
        None if array is None else _as_declared(array, type)
        for array, type in zip(results, types, strict=True)
    ]


def _as_declared(array: np.ndarray, type: TypeProto) -> np.ndarray:
    """The array in its declared dtype: the reference evaluator sometimes promotes."""
    dtype = dtype_name(type.tensor_type.elem_type)
    array = np.asarray(array)
    return array.astype(dtype, copy=False) if dtype not in ("", "str_") else array
