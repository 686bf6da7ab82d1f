"""Weights as a safetensors file (ml_dtypes' included), written and read without a second copy.

The format: the header's length in 8 bytes, the header as JSON, then the tensors without gaps.
"""

import json
import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy

from compiler.backends.base import Array
from compiler.backends.memory import ALIGNMENT, aligned_bytes, padded_size
from compiler.errors import ArtifactError
from compiler.support.caches import check_regular
from compiler.support.memory import require
from compiler.tensors.dtypes import numpy_dtype

CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "int64": "I64",
    "uint64": "U64",
    "float64": "F64",
}
"""The format's name of each dtype."""

TYPE_NAMES = {code: name for name, code in CODES.items()}


DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""The errors of reading a damaged file."""


def write_weights(write: Callable[[Any], Any], weights: Mapping[str, Array]) -> None:
    """Write a safetensors file piece by piece; the widest elements first, so that all are aligned.

    `write` takes bytes, or a flat array of them.
    """
    order = sorted(weights, key=lambda name: (-weights[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        array = weights[name]
        start = end
        end = end + array.nbytes
        header[name] = {
            "dtype": CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    # The format allows spaces after the header: with them the data begin aligned in a mapped file.
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    write(len(text).to_bytes(8, "little") + text)
    for name in order:
        write(numpy.ascontiguousarray(weights[name]).reshape(-1).view(numpy.uint8))


def in_one_block(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Aligned copies of tensors, in one block of memory."""
    total = sum(padded_size(tensor.nbytes) for tensor in tensors.values())
    require(total, "the block of weights")
    block = aligned_bytes(total)
    weights: dict[str, Array] = {}
    at = 0
    for name, tensor in tensors.items():
        region = block[at : at + tensor.nbytes]
        weights[name] = region.view(tensor.dtype).reshape(tensor.shape)
        weights[name][...] = tensor
        at += padded_size(tensor.nbytes)
    return weights


Placing = Callable[[Mapping[str, Array]], dict[str, Array]]
"""Moves tensors, mapped from their file, to where they are used."""


def read_weights(path: Path, place: Placing = in_one_block) -> dict[str, Array]:
    """Every tensor, where `place` puts it; ArtifactError if the file is damaged."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data = numpy.frombuffer(mapped, numpy.uint8)
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:start].tobytes())
        header.pop("__metadata__", None)
        return place({name: _tensor(entry, data[start:]) for name, entry in header.items()})
    except DAMAGED as error:
        raise ArtifactError(f"{path} is not a whole safetensors file: {error}") from error


def _tensor(entry: Mapping[str, Any], data: Array) -> Array:
    """The tensor of an entry of the header, in the file's data."""
    values = data[slice(*entry["data_offsets"])]
    return values.view(numpy_dtype(TYPE_NAMES[entry["dtype"]])).reshape(entry["shape"])
