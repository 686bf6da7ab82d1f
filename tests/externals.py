"""Models whose tensors are stored in files, wherever ONNX's format has tensors."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.tensors import inner_tensors

PADDING = b"padding"
"""The bytes before each tensor of a file: no offset is aligned."""


def files_of(
    model: onnx.ModelProto, chosen: Callable[[], bool] = lambda: True
) -> tuple[onnx.ModelProto, dict[str, bytes]]:
    """A model with the chosen tensors in files next to it, and the content of these by name.

    Strings, which ONNX keeps inside, stay.
    """
    outside = onnx.ModelProto()
    outside.CopyFrom(model)
    groups = {"weights.bin": outside.graph.initializer, "inner/w.bin": inner_tensors(outside)}
    files = {name: _moved(name, list(tensors), chosen) for name, tensors in groups.items()}
    return outside, files


def _moved(location: str, tensors: Iterable[TensorProto], chosen: Callable[[], bool]) -> bytes:
    content = b""
    for tensor in tensors:
        if tensor.data_type == TensorProto.STRING or not chosen():
            continue
        raw = numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name).raw_data
        content += PADDING
        entries = {"location": location, "offset": len(content), "length": len(raw)}
        moved = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        moved.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            moved.external_data.add(key=key, value=str(value))
        tensor.CopyFrom(moved)
        content += raw
    return content


def put_outside(
    model: onnx.ModelProto, folder: Path, chosen: Callable[[], bool] = lambda: True
) -> Path:
    """Save a model with the chosen tensors in files of its folder; the path of the model."""
    outside, files = files_of(model, chosen)
    for name, content in {"model.onnx": outside.SerializeToString(), **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / "model.onnx"


def sparse(name: str, array: np.ndarray) -> onnx.SparseTensorProto:
    """An array as a sparse tensor with the indices of the flattened array; -0.0 stays."""
    places = np.flatnonzero((array != 0) | np.signbit(array.astype(np.float64)))
    values = numpy_helper.from_array(array.reshape(-1)[places], name)
    indices = numpy_helper.from_array(places.astype(np.int64), f"{name}_indices")
    return helper.make_sparse_tensor(values, indices, array.shape)
