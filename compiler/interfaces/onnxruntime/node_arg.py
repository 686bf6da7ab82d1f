"""The inputs, outputs and metadata of a model in onnxruntime's words."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from compiler.tensors.dtypes import numpy_dtype

Size = int | str | None
"""A dimension: its size, its symbol, or None if nothing is known of it."""


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or an output; `type` is text such as `tensor(float)`."""

    name: str
    type: str
    shape: list[Size]

    def __str__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape})"


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """The origin of a model; of a saved module only the graph's name is known."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict[str, str])


def metadata_of(model: onnx.ModelProto) -> ModelMetadata:
    """The metadata of a model."""
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version,
        custom_metadata_map={entry.key: entry.value for entry in model.metadata_props},
    )


def node_arg(info: onnx.ValueInfoProto) -> NodeArg:
    """An input or output as the model declares it."""
    # The sizes and symbols of a declared tensor; empty if it has no shape.
    dims = info.type.tensor_type.shape.dim
    return NodeArg(
        info.name,
        ort_type(info.type),
        [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims],
    )


def node_arg_of(spec: Any) -> NodeArg:
    """An input or output of a compiled module."""
    tensor = getattr(spec, "kind", "tensor") in ("tensor", "input", "output")
    return NodeArg(spec.name, _type_text_of(spec), list(spec.shape or ()) if tensor else [])


def _type_text_of(spec: Any) -> str:
    """A compiled module's type as onnxruntime writes it."""
    kind = getattr(spec, "kind", "tensor")
    if kind in ("sequence", "optional"):
        word = "seq" if kind == "sequence" else kind
        return word if spec.element is None else f"{word}({_type_text_of(spec.element)})"
    dtype = np.dtype(object) if spec.dtype == "str_" else numpy_dtype(spec.dtype)
    if kind == "map":
        keys = "string" if spec.keys == "str_" else spec.keys
        return f"map({keys},{tensor_text(dtype)})"
    return tensor_text(dtype)


def ort_type(type: onnx.TypeProto) -> str:
    """A type as onnxruntime writes it: `tensor(float)`, `seq(map(int64,tensor(float)))`."""
    kind = type.WhichOneof("value")
    if kind == "sequence_type":
        return f"seq({ort_type(type.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({ort_type(type.optional_type.elem_type)})"
    if kind == "map_type":
        value = ort_type(type.map_type.value_type)
        return f"map({element_text(type.map_type.key_type)},{value})"
    if kind == "sparse_tensor_type":
        return f"sparse_tensor({element_text(type.sparse_tensor_type.elem_type)})"
    return f"tensor({element_text(type.tensor_type.elem_type)})"


def element_text(element: int) -> str:
    """An element type by its number in ONNX: `float` for 1."""
    return onnx.TensorProto.DataType.Name(element).lower()


def element_of(dtype: "np.dtype[Any]") -> int:
    """The number in ONNX of a numpy dtype; raises ValueError if there is none."""
    if dtype.kind in "OSU":
        return onnx.TensorProto.STRING
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def tensor_text(dtype: "np.dtype[Any]") -> str:
    """The type of arrays of a dtype: `tensor(float)` for float32."""
    return f"tensor({element_text(element_of(dtype))})"


def element_dtype(element: Any) -> "np.dtype[Any]":
    """A numpy dtype of numpy's name or type, or of ONNX's number."""
    return np.dtype(
        helper.tensor_dtype_to_np_dtype(element) if isinstance(element, int) else element
    )


def dtype_of_type(text: str) -> "np.dtype[Any] | None":
    """The dtype of a tensor's type; None for sequences and other types that are not tensors."""
    if not text.startswith("tensor("):
        return None
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    number = onnx.TensorProto.DataType.Value(name)
    return (
        np.dtype(object) if name == "STRING" else np.dtype(helper.tensor_dtype_to_np_dtype(number))
    )
