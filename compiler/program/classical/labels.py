"""Categories as numbers, names or vectors."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from compiler.net.evaluation.text import is_text, texts_in
from compiler.program.classical.attributes import Attributes, only, required_attribute

Array = np.ndarray
Encoder = Callable[[Array], tuple[Array]]

_TEXT = np.dtype(object)


def category_mapper(attributes: Attributes) -> Encoder:
    """The numbers of names, or the names of numbers: what the input is decides."""
    names: Sequence[str] = required_attribute(attributes, "cats_strings")
    numbers: Sequence[int] = required_attribute(attributes, "cats_int64s")
    if len(names) != len(numbers):
        raise ValueError(f"it has {len(names)} cats_strings for {len(numbers)} cats_int64s")
    return _both_ways(names, numbers, attributes)


def _both_ways(names: Sequence[str], numbers: Sequence[int], attributes: Attributes) -> Encoder:
    to_name = dict(zip(numbers, names, strict=True))
    to_number = dict(zip(names, numbers, strict=True))
    other_name = attributes.get("default_string", "_Unused")
    other_number = attributes.get("default_int64", -1)

    def mapped(x: Array) -> tuple[Array]:
        if is_text(x):
            return (_looked_up(texts_in(x), to_number, other_number, np.int64, x.shape),)
        return (_looked_up(x.ravel().tolist(), to_name, other_name, _TEXT, x.shape),)

    return mapped


def label_encoder(attributes: Attributes) -> Encoder:
    """Values by key, of any types; the first version's names have their places as numbers.

    A repeated key has its last value, and a key that is NaN equals every NaN, as opset 4 says.
    Opset 2 compares keys "bit-wise", which separates zeros by their signs and NaNs by their bits:
    neither onnxruntime nor onnx's reference does so.
    """
    if "classes_strings" in attributes:
        names: Sequence[str] = attributes["classes_strings"]
        return _both_ways(names, range(len(names)), attributes)
    keys = _side(attributes, "keys")
    values = _side(attributes, "values")
    if keys.size != values.size:
        raise ValueError(f"it has {keys.size} keys for {values.size} values")
    table = dict(zip(_comparable(keys), values.ravel().tolist(), strict=True))
    default = _default(attributes, values.dtype)
    return partial(_encoded, keys=keys.dtype, table=table, default=default, values=values.dtype)


def _side(attributes: Attributes, side: str) -> Array:
    """The keys or the values, whichever attribute holds them."""
    types = {"floats": np.float32, "int64s": np.int64, "strings": _TEXT, "tensor": None}
    name = only(attributes, *(f"{side}_{kind}" for kind in types))
    return np.asarray(attributes[name], types[name.removeprefix(f"{side}_")])


def taken_dtypes(op_type: str, attributes: Attributes) -> tuple[Any, ...]:
    """The dtypes of the input that the attributes of an operator decide; empty for others.

    Raises ValueError if the attributes are invalid.
    """
    if op_type == "LabelEncoder":
        both_ways = "classes_strings" in attributes
        return (_TEXT, np.int64) if both_ways else (_side(attributes, "keys").dtype,)
    if op_type == "OneHotEncoder":
        name = only(attributes, "cats_int64s", "cats_strings")
        texts = name == "cats_strings"
        return (_TEXT,) if texts else (np.float32, np.float64, np.int32, np.int64)
    if op_type == "Imputer":
        name = only(attributes, "imputed_value_floats", "imputed_value_int64s")
        floats = name == "imputed_value_floats"
        return (np.float32, np.float64) if floats else (np.int32, np.int64)
    return ()


def _default(attributes: Attributes, dtype: np.dtype[Any]) -> Any:
    """The value for elements that are not among the keys."""
    if "default_tensor" in attributes:
        value: Array = attributes["default_tensor"]
        if value.size != 1 or value.dtype != dtype:
            raise ValueError(f"its default_tensor is {value.dtype}{list(value.shape)}, not {dtype}")
        return value.item()
    if dtype == _TEXT:
        return attributes.get("default_string", "_Unused")
    if dtype.kind == "f":
        return attributes.get("default_float", -0.0)  # ONNX's default is -0
    return attributes.get("default_int64", -1)


def _encoded(
    x: Array,
    keys: np.dtype[Any],
    table: Mapping[Any, Any],
    default: Any,
    values: np.dtype[Any],
) -> tuple[Array]:
    if x.dtype != keys and not (is_text(x) and keys == _TEXT):
        raise ValueError(f"its keys are {'text' if keys == _TEXT else keys}")
    return (_looked_up(_comparable(x), table, default, values, x.shape),)


def _comparable(keys: Array) -> list[Any]:
    """The elements as Python's, with None for every NaN, which would not equal itself."""
    if is_text(keys):
        return [*texts_in(keys)]
    elements: list[Any] = keys.ravel().tolist()
    return [None if e != e else e for e in elements] if keys.dtype.kind == "f" else elements


def _looked_up(
    keys: Sequence[Any],
    table: Mapping[Any, Any],
    default: Any,
    dtype: Any,
    shape: tuple[int, ...],
) -> Array:
    return np.array([table.get(key, default) for key in keys], dtype).reshape(shape)


def one_hot_encoder(attributes: Attributes) -> Encoder:
    """A vector for each element with 1 at the place of its category, as float32.

    Numbers are truncated to integers. Without `zeros` it raises ValueError for other elements.
    """
    name = only(attributes, "cats_int64s", "cats_strings")
    places = {category: column for column, category in enumerate(attributes[name])}
    zeros = attributes.get("zeros", 1)
    count = len(attributes[name])

    def encoded(x: Array) -> tuple[Array]:
        if is_text(x) != (name == "cats_strings"):
            raise ValueError(f"its categories are {name}")
        keys = texts_in(x) if is_text(x) else _whole(x.ravel())
        chosen = np.array([places.get(key, -1) for key in keys], np.int64)
        if not zeros and (chosen < 0).any():
            raise ValueError(f"{keys[int(chosen.argmin())]!r} is not a category, and zeros is 0")
        result = np.zeros((len(keys), count), np.float32)
        (rows,) = np.nonzero(chosen >= 0)
        result[rows, chosen[rows]] = 1
        return (result.reshape(*x.shape, count),)

    return encoded


def _whole(numbers: Array) -> list[int | None]:
    """Numbers truncated to integers; None for numbers beyond int64."""
    if numbers.dtype.kind != "f":
        return numbers.tolist()
    inside = abs(numbers) < 2.0**63
    return [int(n) if fits else None for n, fits in zip(numbers.tolist(), inside, strict=True)]
