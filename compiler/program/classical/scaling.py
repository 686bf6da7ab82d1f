"""Scaling, thresholds, norms and columns of rows."""

from collections.abc import Sequence

import numpy as np

from compiler.frontend.rules.classical import check_columns
from compiler.net.operators import check_room


def normalizer(x: np.ndarray, *, norm: str = "MAX") -> tuple[np.ndarray]:
    """Rows divided by their maximum, or by their norm of order 1 or 2, unless that is zero.

    A maximum passes over NaN, and the squares of large numbers overflow, as in onnxruntime.
    """
    rows = x.astype(np.float32)
    with np.errstate(all="ignore"):
        if norm == "MAX":
            lowest = np.finfo(np.float32).min
            divisors = np.fmax.reduce(rows, -1, keepdims=True, initial=lowest)
        elif norm == "L1":
            divisors = abs(rows).sum(-1, keepdims=True)
        else:
            wide = rows if x.dtype == np.float32 else x.astype(np.float64)
            squares = (wide * wide).astype(np.float32)
            divisors = squares.sum(-1, keepdims=True)
            scaled = np.copysign(np.sqrt(squares / divisors), rows)
            return (np.where(divisors != 0, scaled, rows),)
        return (np.divide(rows, divisors, out=rows, where=divisors != 0),)


def scaler(
    x: np.ndarray, *, offset: Sequence[float] = (), scale: Sequence[float] = ()
) -> tuple[np.ndarray]:
    """(x - offset) * scale as float32; both are of a column, or of all."""
    for numbers in (offset, scale):
        check_columns(len(numbers) or 1, x.shape)
    result = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    with np.errstate(all="ignore"):
        if len(offset):
            result = result - np.asarray(offset, np.float32)
        if len(scale):
            result = result * np.asarray(scale, np.float32)
        return (result.astype(np.float32, copy=False),)


def binarizer(x: np.ndarray, *, threshold: float = 0.0) -> tuple[np.ndarray]:
    """1 for what is greater than the threshold, 0 for everything else, NaN included."""
    return ((x > threshold).astype(x.dtype),)


def imputer(
    x: np.ndarray,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> tuple[np.ndarray]:
    """Numbers of a column, or one for all, where the input has the number to replace."""
    integral = x.dtype.kind == "i"
    replaced = replaced_value_int64 if integral else x.dtype.type(replaced_value_float)
    missing = np.isnan(x) if replaced != replaced else x == replaced
    imputed = np.array(imputed_value_int64s if integral else imputed_value_floats, x.dtype)
    check_columns(imputed.size, x.shape)
    return (np.where(missing, imputed.reshape(-1 if x.ndim else ()), x),)


def array_feature_extractor(x: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray]:
    """Some columns of the last axis, clamped to existing ones; a vector is a single row."""
    rows = x if x.ndim > 1 else x.reshape(1, -1)
    return (rows.take(columns.ravel(), -1, mode="clip"),)


def feature_vectorizer(
    *inputs: np.ndarray, inputdimensions: Sequence[int] | None = None
) -> tuple[np.ndarray]:
    """The rows of all inputs side by side as float32; a vector is a single row.

    Each input has the width that `inputdimensions` says: what is beyond it is left out, what is
    missing is zero. Raises ValueError where widths or rows do not fit.
    """
    if not all(x.ndim for x in inputs):
        raise ValueError("an input is a scalar")
    matrices = [x[None] if x.ndim == 1 else x for x in inputs]
    rows = [x.reshape(len(x), int(np.prod(x.shape[1:]))) for x in matrices]
    widths = [r.shape[1] for r in rows] if inputdimensions is None else inputdimensions
    if len(widths) != len(rows):
        raise ValueError(f"it has {len(rows)} inputs and {len(widths)} inputdimensions")
    if len({len(r) for r in rows}) > 1:
        raise ValueError("its inputs have different numbers of rows")
    check_room(np.dtype(np.float32), (len(rows[0]), sum(widths)))
    result = np.zeros((len(rows[0]), sum(widths)), np.float32)
    ends = np.cumsum(widths)
    with np.errstate(over="ignore"):
        for values, width, end in zip(rows, widths, ends, strict=True):
            used = values[:, :width]
            result[:, end - width : end - width + used.shape[1]] = used
    return (result,)
