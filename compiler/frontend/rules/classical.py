"""Rules for operators of classical models (ai.onnx.ml) that standard operators compute."""

from collections.abc import Sequence

import numpy as np

from compiler.frontend.rules.call import Call, RewriteRule
from compiler.frontend.rules.types import in_type
from compiler.net.graph import Value
from compiler.net.operators import ShapeMismatch
from compiler.support.registry import Registrar
from compiler.tensors.dtypes import numpy_dtype

ML_DOMAIN = "ai.onnx.ml"
"""The domain of classical models."""

CLASSICAL: dict[str, RewriteRule] = {}
"""The rule of each operator."""


_classical = Registrar(CLASSICAL)


def check_columns(count: int, shape: Sequence[int]) -> None:
    """Raise ShapeMismatch unless so many numbers are one for all, or one for each column.

    Several are for vectors and matrices: by the ONNX text the columns of more axes are along the
    last, or not defined (Scaler), while onnxruntime counts them along the second.
    """
    if count == 1:
        return
    if not shape or count != shape[-1]:
        raise ShapeMismatch(f"it has {count} values for {shape[-1] if shape else 1} columns")
    if len(shape) > 2:
        raise ShapeMismatch(
            f"it has {count} values for the columns of {len(shape)} axes, of which onnxruntime"
            " takes others than the ONNX text: reshape its input to [rows, columns]"
        )


@_classical("ArrayFeatureExtractor")
def rewrite_columns(call: Call) -> list[Value]:
    """Some columns of the last axis; a vector is a single row."""
    x = call.data
    columns = call.reshaped(call.operand(1), [-1])
    call.check_indices(1, 0, x.shape[-1] - 1)
    rows = x if x.rank > 1 else call.reshaped(x, [1, -1])
    return [call.one("Gather", rows, columns, axis=-1)]


@_classical("Imputer")
def rewrite_imputer(call: Call) -> list[Value]:
    """Numbers of a column, or one for all, where the input has the number to replace."""
    x = call.data
    kind = "float" if "float" in call.data.dtype else "int64"
    imputed = np.array(call.attributes.get(f"imputed_value_{kind}s", ()), numpy_dtype(x.dtype))
    check_columns(imputed.size, x.shape)
    replaced = call.attributes.get(f"replaced_value_{kind}", 0)
    missing = (
        call.one("IsNaN", x)
        if np.isnan(replaced)
        else call.one("Equal", call.data, call.scalar(replaced))
    )
    return [call.one("Where", missing, call.scalar(imputed), x)]


@_classical("Scaler")
def rewrite_scaler(call: Call) -> list[Value]:
    """`(x - offset) * scale` as float32; both are of a column, or of all.

    It is computed in float64 where x has that: the difference of two large numbers may be small.
    """
    x = call.data if call.data.dtype == "float64" else in_type(call, call.data, "float32")
    for op_type, name, neutral in (("Sub", "offset", 0), ("Mul", "scale", 1)):
        numbers = np.array(np.array(call.attributes.get(name) or neutral, np.float32), x.dtype)
        check_columns(numbers.size, x.shape)
        x = call.one(op_type, x, call.builder.constant(numbers))
    return [in_type(call, x, "float32")]
