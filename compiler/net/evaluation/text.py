"""Numbers as texts, and texts as numbers."""

import re
from typing import Any

import numpy as np

Array = np.ndarray

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.A | re.I)
_INTEGER = re.compile(r"[+-]?\d+", re.A)
_SPACE = " \t\n\r\f\v"


def is_text(array: Array) -> bool:
    """Whether an array holds texts."""
    return array.dtype.kind in "OSU"


def texts_in(array: Array) -> list[str]:
    """The elements of a tensor of texts in order; bytes are UTF-8."""
    return [t.decode() if isinstance(t, bytes) else str(t) for t in array.ravel().tolist()]


def number_in(text: str) -> float:
    """The number that a text is, in plain or scientific form, or INF or NaN in any case.

    Raises ValueError for other texts: ONNX leaves them undefined.
    """
    stripped = text.strip(_SPACE)
    if not _NUMBER.fullmatch(stripped):
        raise ValueError(f"{text!r} is not a number")
    return float(stripped)


def integer_in(text: str) -> int:
    """The integer that a text is, or its number without the fraction; raises ValueError."""
    stripped = text.strip(_SPACE)
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    number = number_in(stripped)
    if not np.isfinite(number):
        raise ValueError(f"{text!r} is not an integer")
    return int(number)


def numbers_of(texts: Array, whole: bool) -> Array:
    """The numbers of texts as float64, or those without a fraction as int64, which wrap around."""
    items = texts_in(texts)
    if whole:
        wrapped = [(integer_in(item) + 2**63) % 2**64 - 2**63 for item in items]
        return np.array(wrapped, np.int64).reshape(texts.shape)
    return np.array([*map(number_in, items)], np.float64).reshape(texts.shape)


def texts_of(numbers: Array) -> Array:
    """Numbers as onnxruntime writes them: at most 8 digits, truth as 1 or 0; NaN, INF and -INF."""
    kind = numbers.dtype.kind
    if kind in "biu":
        texts = [f"{int(number):d}" for number in numbers.ravel().tolist()]
    else:
        elements: list[float] = numbers.astype(np.float64).ravel().tolist()
        texts = [_float_text(number) for number in elements]
    return object_array(texts, numbers.shape)


def _float_text(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (np.inf, -np.inf):
        return "INF" if number > 0 else "-INF"
    return f"{number:.8g}"


def object_array(texts: list[Any], shape: tuple[int, ...]) -> Array:
    """Texts in a shape, as an array of objects."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)
