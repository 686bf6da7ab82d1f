"""Dictionaries, which classical models name maps."""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from compiler.net.evaluation.text import integer_in, number_in
from compiler.program.classical.attributes import Attributes, only

Dictionary = Mapping[Any, Any]


def zip_map(attributes: Attributes) -> Callable[[np.ndarray], tuple[list[dict[Any, float]]]]:
    """A dictionary of the scores by class for each row; ValueError if there are too many scores."""
    labels: list[Any] = [*attributes[only(attributes, "classlabels_int64s", "classlabels_strings")]]

    def zipped(scores: np.ndarray) -> tuple[list[dict[Any, float]]]:
        if scores.ndim not in (1, 2):
            raise ValueError("it takes one row or a matrix of them")
        rows = np.atleast_2d(scores)
        if rows.shape[-1] != len(labels):
            raise ValueError(f"{rows.shape[-1]} scores for {len(labels)} classes")
        return ([*map(dict, map(zip, repeat(labels), rows.tolist()))],)  # no bytecode for each row

    return zipped


def cast_map(
    values: Dictionary, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1
) -> tuple[np.ndarray]:
    """The values of a dictionary by index, as a row; a sparse one has zeros between.

    Texts have them too: "0.f", as in onnxruntime. Raises ValueError for a sparse index below 0.
    """
    cast, dtype, zero = _CASTS[cast_to]
    if map_form == "DENSE":
        row = [cast(values[key]) for key in sorted(values)]
    elif min(values, default=0) < 0:
        raise ValueError(f"the index {min(values)} is negative")
    else:
        row = [cast(values[key]) if key in values else zero for key in range(max_map)]
    return (np.array([row], dtype),)


def _number(value: Any) -> float:
    return number_in(value) if isinstance(value, str) else float(value)


def _integer(value: Any) -> int:
    return integer_in(value) if isinstance(value, str) else int(value)


def _text(value: Any) -> str:
    # onnxruntime writes numbers by std::to_string, with six digits
    return value if isinstance(value, str) else f"{value:.6f}"


_CASTS: Mapping[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "TO_FLOAT": (_number, np.float32, 0),
    "TO_INT64": (_integer, np.int64, 0),
    "TO_STRING": (_text, object, "0.f"),
}


def dictionary_vectorizer(attributes: Attributes) -> Callable[[Dictionary], tuple[np.ndarray]]:
    """The values of a dictionary in the vocabulary's order, as a row; what is missing is zero."""
    keys: Sequence[Any] = attributes[only(attributes, "int64_vocabulary", "string_vocabulary")]

    def vectorized(values: Dictionary) -> tuple[np.ndarray]:
        dtype = getattr(values, "values_dtype", "float32")
        zero: Any = "" if dtype == "str_" else 0
        row = [[values.get(key, zero) for key in keys]]
        return (np.array(row, object if dtype == "str_" else dtype),)

    return vectorized
