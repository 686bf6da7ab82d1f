"""Rounds inputs and weights to a precision: the error a model has before anything is computed."""

from pathlib import Path
from typing import Any, cast

import numpy as np

from compiler.backends.memory import Array
from compiler.graph.packing import round_mantissa

MANTISSA = {"tf32": 10, "fp16": 10, "bf16": 7, "fp32": 22}
"""Bits of the mantissa that are kept; of float32's own 23 one less, to show its last bit."""


def rounded(array: Array, precision: str) -> Array:
    """A float32 or float64 array with fewer bits of mantissa, in its own type; others as is."""
    if array.dtype.name not in ("float32", "float64"):
        return array
    short = round_mantissa(array.astype(np.float32), MANTISSA[precision])
    return short.astype(array.dtype).reshape(array.shape)


def rounded_weights(model: Any, precision: str) -> Any:
    """A ModelProto, copied or read from a path, with its float32 initializers rounded."""
    import onnx
    from onnx import numpy_helper

    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        folder = ""
        proto.CopyFrom(model)
    else:
        proto = cast(Any, onnx).load(Path(model))
        folder = str(Path(model).parent)
    for tensor in proto.graph.initializer:
        if tensor.data_type == tensor.FLOAT:
            array = rounded(numpy_helper.to_array(tensor, folder), precision)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return proto
