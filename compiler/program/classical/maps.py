"""Labels, categories and dictionaries."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

CAST_TYPES = {b"TO_FLOAT": np.float32, b"TO_INT64": np.int64, b"TO_STRING": object}


def zip_map(
    scores: np.ndarray,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
) -> tuple[list[dict[Any, float]]]:
    """A dictionary of the scores by class for each row; ValueError if there are too many scores."""
    labels = [*np.asarray(classlabels_int64s, np.int64).tolist(), *classlabels_strings]
    rows = np.atleast_2d(scores)
    if rows.shape[-1] != len(labels):
        raise ValueError(f"{rows.shape[-1]} scores for {len(labels)} classes")
    return ([*map(dict, map(zip, repeat(labels), rows.tolist()))],)  # no bytecode for each row


def cast_map(
    values: Mapping[int, Any],
    cast_to: bytes = b"TO_FLOAT",
    map_form: bytes = b"DENSE",
    max_map: int = 1,
) -> tuple[np.ndarray]:
    """The values of a dictionary by index, as a row; a sparse one has zeros or "" between."""
    cast = CAST_TYPES[cast_to]
    if map_form == b"DENSE":
        row = [_cast(values[key], cast) for key in sorted(values)]
    else:
        row = [_cast(values.get(key, "" if cast is object else 0), cast) for key in range(max_map)]
    return (np.array([row], cast),)


def _cast(value: Any, cast: Any) -> Any:
    return f"{value:g}" if cast is object and not isinstance(value, str) else value


def dictionary_vectorizer(
    values: Mapping[Any, Any],
    int64_vocabulary: Sequence[int] = (),
    string_vocabulary: Sequence[bytes] = (),
) -> tuple[np.ndarray]:
    """The values of a dictionary in the vocabulary's order, as a row; what is missing is zero."""
    keys = [*int64_vocabulary, *(word.decode() for word in string_vocabulary)]
    example = next(iter(values.values()), 0.0)
    empty: Any = "" if isinstance(example, str) else 0
    row = [values.get(key, empty) for key in keys]
    return (np.array([row], _element_type(example)),)


def _element_type(value: Any) -> Any:
    return object if isinstance(value, str) else np.int64 if isinstance(value, int) else np.float32


def category_mapper(
    x: np.ndarray,
    cats_int64s: Sequence[int],
    cats_strings: Sequence[bytes],
    default_int64: int = -1,
    default_string: bytes = b"_Unused",
) -> tuple[np.ndarray]:
    """The numbers of names, or the names of numbers."""
    names = [name.decode() for name in cats_strings]
    if x.dtype == np.int64:
        return (_mapped(x, dict(zip(cats_int64s, names, strict=True)), default_string.decode()),)
    return (_mapped(x, dict(zip(names, cats_int64s, strict=True)), default_int64),)


def label_encoder(
    x: np.ndarray,
    classes_strings: Sequence[bytes],
    default_int64: int = -1,
    default_string: bytes = b"_Unused",
) -> tuple[np.ndarray]:
    """The first version of LabelEncoder: a category is the place of its name in a list."""
    places = range(len(classes_strings))
    return category_mapper(x, places, classes_strings, default_int64, default_string)


def _mapped(x: np.ndarray, table: Mapping[Any, Any], default: Any) -> np.ndarray:
    found = [table.get(key, default) for key in x.ravel().tolist()]
    return np.array(found, object if isinstance(default, str) else np.int64).reshape(x.shape)
