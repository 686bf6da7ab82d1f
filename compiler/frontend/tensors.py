"""Conversion of a protobuf's tensors to numpy arrays."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedWriter
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.errors import ModelError
from compiler.frontend.external import ModelFolder, read_external
from compiler.net.operators import LARGEST_TENSOR

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

_ALIGNMENT = 64
"""Tensors in a file of several begin at multiples of this many bytes."""

_DATA_FIELDS = (
    *("float_data", "double_data", "int32_data", "int64_data", "uint64_data"),
    "string_data",
)
"""The fields of a tensor's numbers where they are not its `raw_data`."""


def array_of(tensor: onnx.TensorProto, folder: ModelFolder | None) -> np.ndarray:
    """The numpy array of a tensor; raises ModelError if its data are missing or of wrong size."""
    dtype = _checked_dtype(tensor)
    nbytes = stored_bytes(tensor)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        data = _external_bytes(tensor, folder, dtype)
        if dtype.name not in _PACKED_BITS:
            return data.view(dtype).reshape(tensor.dims)
        inside = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        inside.raw_data = data.tobytes()
        return _inline_array(inside)
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


def initializers_of(graph: onnx.GraphProto) -> Mapping[str, tuple[int, Sequence[int]]]:
    """The element type and the shape of each initializer of a graph, dense or sparse, by name."""
    dense = {tensor.name: (tensor.data_type, tensor.dims) for tensor in graph.initializer}
    pairs = ((sparse.values, sparse.dims) for sparse in graph.sparse_initializer)
    return {**dense, **{values.name: (values.data_type, dims) for values, dims in pairs}}


def inner_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The tensors of a model other than the dense initializers of its main graph.

    They are the values of attributes, at any depth, the initializers of bodies, and the parts of
    sparse tensors.
    """
    yield from _parts_of(model.graph.sparse_initializer)
    yield from _tensors_of(model.graph.node)
    for function in model.functions:
        yield from _tensors_of(function.node)
        yield from _attribute_tensors(function.attribute_proto)


def _tensors_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        yield from (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors)
        sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        yield from _parts_of((*sparse, *attribute.sparse_tensors))
        for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from body.initializer
            yield from _parts_of(body.sparse_initializer)
            yield from _tensors_of(body.node)


def _parts_of(tensors: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for tensor in tensors:
        yield from (tensor.values, tensor.indices)


def bring_inside(tensors: Iterable[onnx.TensorProto], folder: ModelFolder | None) -> None:
    """Put the bytes of tensors that are in other files into the tensors; raises ModelError."""
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            dtype = _checked_dtype(tensor)
            tensor.raw_data = _external_bytes(tensor, folder, dtype).tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


def write_outside(
    tensor: onnx.TensorProto, name: str, array: np.ndarray, file: BufferedWriter
) -> None:
    """Make an empty tensor one of an array whose bytes are appended to a file in its folder."""
    tensor.name = name
    tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.dims.extend(array.shape)
    if array.dtype.name in _PACKED_BITS:
        array = np.frombuffer(numpy_helper.from_array(array).raw_data, np.uint8)
    file.write(bytes(-file.tell() % _ALIGNMENT))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    location = Path(file.name).name
    for key, value in (("location", location), ("offset", file.tell()), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def arrays_of(graph: onnx.GraphProto, folder: ModelFolder | None) -> dict[str, np.ndarray]:
    """The dense array of each initializer of a graph by name; raises ModelError."""
    dense = {tensor.name: array_of(tensor, folder) for tensor in graph.initializer}
    sparse = ((s.values.name, dense_array_of(s, folder)) for s in graph.sparse_initializer)
    return dense | dict(sparse)


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


def stored_bytes(tensor: onnx.TensorProto) -> int:
    """The bytes of a tensor's elements in a file; 0 for texts and types that onnx does not know."""
    if tensor.data_type not in helper.get_all_tensor_dtypes():
        return 0
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    bits = 0 if dtype.hasobject else _PACKED_BITS.get(dtype.name, 8 * dtype.itemsize)
    return -(-prod(tensor.dims) * bits // 8)


def _external_bytes(
    tensor: onnx.TensorProto, folder: ModelFolder | None, dtype: np.dtype
) -> np.ndarray:
    """The bytes of a tensor in another file, read-only."""
    if dtype.hasobject:
        raise ModelError(
            f"the tensor {tensor.name!r} has strings in another file, which ONNX does not allow: "
            "save the model with them inside"
        )
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        keys = [entry.key for entry in tensor.external_data]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ModelError(
            f"the external data of tensor {tensor.name!r} have the key {twice!r} more than once, "
            "and readers differ on which counts: export or download the model again"
        )
    if any(isinstance(text, bytes) for entry in entries.items() for text in entry):
        raise ModelError(
            f"the location of the data of tensor {tensor.name!r} is not UTF-8 text: the model is "
            "damaged, export or download it again"
        )
    return read_external(tensor.name, entries, folder, stored_bytes(tensor))


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
