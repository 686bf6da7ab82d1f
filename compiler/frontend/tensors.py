"""Conversion of a protobuf's tensors to numpy arrays."""

import sys
from collections.abc import Sequence
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.errors import ModelError
from compiler.frontend.external import ModelFolder, read_external
from compiler.ir.operators import LARGEST_TENSOR

_PACKED_BITS = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
"""Types of which several elements share a byte of a model."""

_DATA_FIELDS = (
    *("float_data", "double_data", "int32_data", "int64_data", "uint64_data"),
    "string_data",
)
"""The fields of a tensor's numbers where they are not its `raw_data`."""


def array_of(tensor: onnx.TensorProto, folder: ModelFolder | None) -> np.ndarray:
    """The numpy array of a tensor; raises ModelError if its data are missing or of wrong size."""
    dtype, nbytes = _checked_dtype(tensor), _stored_bytes(tensor)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external_array(tensor, folder, dtype, nbytes)
    raw = tensor.raw_data  # protobuf copies it each time
    if not (raw or 0 in tensor.dims or any(len(getattr(tensor, name)) for name in _DATA_FIELDS)):
        raise ModelError(
            f"the tensor {tensor.name!r} {list(tensor.dims)} has no data: the model was saved "
            "without its weights; export it with them (examples.zoo.load refills its own files)"
        )
    if tensor.HasField("raw_data") and len(raw) != nbytes:
        raise _damaged(tensor, f"{len(raw)} bytes, not {nbytes}")
    if raw and sys.byteorder == "little" and not dtype.hasobject and dtype.name not in _PACKED_BITS:
        return np.frombuffer(raw, dtype).reshape(tensor.dims)
    return _inline_array(tensor)


def dense_array_of(tensor: onnx.SparseTensorProto, folder: ModelFolder | None) -> np.ndarray:
    """The dense numpy array of a sparse tensor; raises ModelError if it is malformed."""
    values, indices = array_of(tensor.values, folder), array_of(tensor.indices, folder)
    _check_dims(tensor.values.name, tensor.dims)
    shape = tuple(tensor.dims)
    flat = indices.reshape(-1, 1) if indices.ndim == 1 else indices
    limits = [prod(shape)] if indices.ndim == 1 else list(shape)
    fits = flat.ndim == 2 and flat.shape == (values.size, len(limits)) and values.ndim == 1
    if not fits or (flat < 0).any() or (flat >= limits).any():
        raise ModelError(
            f"the indices of the sparse tensor {tensor.values.name!r} do not fit its "
            f"{values.size} values and its shape {list(shape)}: export or download the model again"
        )
    dense = np.zeros(shape, values.dtype)
    where = np.unravel_index(flat[:, 0], shape) if indices.ndim == 1 else tuple(flat.T)
    dense[where] = values
    return dense


def _checked_dtype(tensor: onnx.TensorProto) -> np.dtype:
    """The dtype of a tensor; raises ModelError if its type or its shape is invalid."""
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except KeyError as error:
        raise ModelError(
            f"the tensor {tensor.name!r} has the element type {tensor.data_type}, which onnx "
            f"{onnx.__version__} does not know: export or download the model again"
        ) from error
    _check_dims(tensor.name, tensor.dims)
    return dtype


def _check_dims(name: str, dims: Sequence[int]) -> None:
    if any(size < 0 for size in dims):
        raise ModelError(
            f"the tensor {name!r} has the shape {list(dims)}, with a negative size: "
            "export or download the model again"
        )
    if prod(size or 1 for size in dims) > LARGEST_TENSOR:
        raise ModelError(
            f"the tensor {name!r} {list(dims)} is too large: a tensor may have {LARGEST_TENSOR} "
            "elements; split it into several"
        )


def _stored_bytes(tensor: onnx.TensorProto) -> int:
    """The bytes of a tensor's elements in a file."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    bits = _PACKED_BITS.get(dtype.name, 8 * dtype.itemsize)
    return -(-prod(tensor.dims) * bits // 8)


def _external_array(
    tensor: onnx.TensorProto, folder: ModelFolder | None, dtype: np.dtype, nbytes: int
) -> np.ndarray:
    """The array of a tensor whose bytes are in another file: a memory map if possible."""
    if dtype.hasobject:
        raise ModelError(
            f"the tensor {tensor.name!r} has strings in another file, which ONNX does not allow: "
            "save the model with them inside"
        )
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if any(isinstance(text, bytes) for entry in entries.items() for text in entry):
        raise ModelError(
            f"the location of the data of tensor {tensor.name!r} is not UTF-8 text: the model is "
            "damaged, export or download it again"
        )
    data = read_external(tensor.name, entries, folder, nbytes)
    if dtype.name not in _PACKED_BITS:
        return data.view(dtype).reshape(tensor.dims)
    inside = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    inside.raw_data = data.tobytes()
    return _inline_array(inside)


def _inline_array(tensor: onnx.TensorProto) -> np.ndarray:
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(tensor, str(error)) from error


def _damaged(tensor: onnx.TensorProto, reason: str) -> ModelError:
    return ModelError(
        f"the data of tensor {tensor.name!r} do not fit its shape {list(tensor.dims)} ({reason}): "
        "the file is damaged, export or download it again"
    )
