"""Scaling, norms and columns of rows."""

from collections.abc import Sequence

import numpy as np


def normalizer(x: np.ndarray, norm: bytes = b"MAX") -> tuple[np.ndarray]:
    """Rows divided by their maximum, or by their norm of order 1 or 2, unless that is zero."""
    rows = x.astype(np.float32)
    if norm == b"MAX":
        divisors = rows.max(-1, keepdims=True, initial=-np.inf)
    else:
        divisors = np.linalg.norm(rows, 1 if norm == b"L1" else 2, -1, True)
    return (np.divide(rows, divisors, out=rows, where=divisors != 0),)


def scaler(
    x: np.ndarray, offset: Sequence[float] = (), scale: Sequence[float] = ()
) -> tuple[np.ndarray]:
    """(x - offset) * scale as float32; both are of a column, or of all."""
    result = x.astype(np.float32)
    if len(offset):
        result -= np.asarray(offset, np.float32)
    if len(scale):
        result *= np.asarray(scale, np.float32)
    return (result,)


def imputer(
    x: np.ndarray,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> tuple[np.ndarray]:
    """Numbers of a column, or one for all, where the input has the number to replace."""
    whole = x.dtype.kind == "i"
    replaced = replaced_value_int64 if whole else x.dtype.type(replaced_value_float)
    missing = np.isnan(x) if replaced != replaced else x == replaced
    imputed = np.array(imputed_value_int64s if whole else imputed_value_floats, x.dtype)
    return (np.where(missing, imputed, x),)


def array_feature_extractor(x: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray]:
    """Some columns of the last axis; a vector is a single row."""
    rows = x if x.ndim > 1 else x[None]
    return (rows.take(columns.ravel(), -1),)
