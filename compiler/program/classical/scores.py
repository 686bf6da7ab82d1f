"""Labels and post transforms of the scores of classical models."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def labels_in(attributes: Mapping[str, Any]) -> dict[str, Array]:
    """The labels of a classifier's attributes, by attribute."""
    labels = dict[str, Array]()
    for name in ("classlabels_ints", "classlabels_int64s"):
        if name in attributes:
            labels[name] = np.array(attributes[name], np.int64)
    if "classlabels_strings" in attributes:
        labels["classlabels_strings"] = np.array(attributes["classlabels_strings"], object)
    return labels


def labels_of(chosen: Array, ints: Array | Sequence[int], strings: Array | Sequence[str]) -> Array:
    """The labels of the chosen classes, by index."""
    if len(strings):
        return np.asarray(strings, object)[chosen]
    return np.asarray(ints, np.int64)[chosen]


def transformed(
    scores: Array, transform: str, total: float | None = None, dtype: Any = np.float32
) -> Array:
    """The scores of each row (rows, classes), transformed, in a type.

    A single score becomes two with the sum `total`, the second of which is the score itself. No
    softmax changes it, and without a total only PROBIT does.
    """
    scores = scores.astype(dtype, copy=False)
    if scores.shape[1] == 1 and total is not None:
        total = _TOTALS.get(transform, total)
        scores = np.concatenate([scores.dtype.type(total) - scores, scores], 1)
        transform = transform if transform in _TOTALS else "NONE"
    elif scores.shape[1] == 1 and transform != "PROBIT":
        return scores
    if transform == "NONE":
        return scores
    with np.errstate(all="ignore"):
        return _TRANSFORMS[transform](scores)


def logistic(values: Array) -> Array:
    """1 / (1 + exp(-x)) without an overflow."""
    positive = 1 / (1 + np.exp(-abs(values)))
    return np.where(values < 0, 1 - positive, positive)


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _softmax_zero(scores: Array) -> Array:
    """A softmax of the scores that are not zero."""
    largest = scores.max(1, keepdims=True)
    # onnxruntime's bound of zero, and what it makes of such scores
    used = abs(scores) > 1e-7
    powers = np.where(used, np.exp(scores - largest), 0)
    near_zero = scores * np.exp(-largest)
    return np.where(used, powers, near_zero) / powers.sum(1, keepdims=True)


def _probit(scores: Array) -> Array:
    """The normal distribution's quantiles, with Winitzki's inverse of the error function."""
    x = 2 * scores - 1
    log = np.log((1 - x) * (1 + x))
    # the digits of pi and of Winitzki's constant are onnxruntime's
    middle = 2 / (3.14159 * 0.147) + log / 2
    root = np.sqrt(np.sqrt(middle * middle - log / 0.147) - middle)
    return (np.sqrt(2) * np.where(x < 0, -root, root)).astype(scores.dtype)


_TRANSFORMS: Mapping[str, Callable[[Array], Array]] = {
    "LOGISTIC": logistic,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}

_TOTALS: Mapping[str, float] = {"LOGISTIC": 0, "PROBIT": 1}
"""The sums of two scores of one whose transforms are complements."""
