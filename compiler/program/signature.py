"""The inputs and outputs of a program: types with symbolic dimensions, and checks of a run's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from compiler.backends.host_arrays import read_input
from compiler.backends.memory import numpy_dtype
from compiler.errors import COMPILED_IN, ShapeError
from compiler.program.host import HostMap, HostValue
from compiler.program.resident import ResidentTensor
from compiler.tensors.dtypes import numpy_name


@dataclass(frozen=True, slots=True)
class ValueType:
    """The declared type of an input or an output.

    A dimension is a size, a symbol, or None if nothing is known; so is the shape. `kind` is
    `tensor`, `map`, `sequence` or `optional`; tensors have a dtype, and the values of maps.
    """

    name: str
    dtype: str = ""
    shape: tuple[int | str | None, ...] | None = None
    kind: str = "tensor"
    keys: str = ""
    """The dtype of a map's keys."""

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name} ({self.kind})"
        sizes = "..." if self.shape is None else ", ".join(str(d or "?") for d in self.shape)
        return f"{self.name} {self.dtype}[{sizes}]"


def checked_inputs(types: Sequence[ValueType], inputs: Mapping[str, Any]) -> dict[str, HostValue]:
    """The inputs of a run as arrays, lists of arrays or None; raises ShapeError.

    A symbol has one size in a run.
    """
    names = {type.name for type in types}
    if unknown := sorted(set(inputs) - names):
        raise ShapeError(
            f"the model has no input {unknown[0]!r}; its inputs are {', '.join(sorted(names))};"
            f" {COMPILED_IN}"
        )
    symbols: dict[str, tuple[int, str]] = {}
    values: dict[str, HostValue] = {}
    for type in types:
        if type.name not in inputs and type.kind != "optional":
            raise ShapeError(f"the input {type.name!r} is missing")
        value = inputs.get(type.name)
        if type.kind == "map":
            values[type.name] = _dictionary(type, value)
        else:
            tensor = type.kind == "tensor"
            values[type.name] = _checked(type, value, symbols) if tensor else _items(type, value)
    return values


def _items(type: ValueType, value: Any) -> HostValue:
    """A sequence, an optional or a map with arrays of the host in it; raises ShapeError."""
    if type.kind == "sequence" and not isinstance(value, list | tuple):
        raise ShapeError(f"the input {type} was given a {value.__class__.__name__}: pass a list")
    if value is None and type.kind == "item":
        raise ShapeError(f"the sequence {type.name!r} was given None as an item: pass arrays")
    if value is None or isinstance(value, dict):
        return cast(HostValue, value)
    if isinstance(value, list | tuple):
        return [_items(replace(type, kind="item"), item) for item in cast(Sequence[Any], value)]
    return read_input(type.name, value, listed=True)


def example_of(type: ValueType, sizes: Mapping[str, int]) -> np.ndarray:
    """Zeros of a tensor's type, for sizes by symbol (`input.axis` if it has none).

    Raises ShapeError for a dimension whose size is neither fixed nor given.
    """
    shape: list[int] = []
    for axis, size in enumerate(type.shape or ()):
        extent = size if isinstance(size, int) else sizes.get(size or f"{type.name}.{axis}")
        if extent is None:
            raise ShapeError(f"dimension {axis} of the input {type} is open: give its size")
        shape.append(extent)
    return np.broadcast_to(np.zeros((), numpy_dtype(type.dtype)), shape)


def _checked(type: ValueType, value: Any, symbols: dict[str, tuple[int, str]]) -> HostValue:
    """An input as an array of the declared type."""
    resident = isinstance(value, ResidentTensor)
    array = value if resident else read_input(type.name, value, listed=True)
    if type.dtype and _dtype(array) != type.dtype:
        raise ShapeError(f"the input {type} was given {_dtype(array)}{list(array.shape)}")
    if type.shape is None:
        return array
    if len(type.shape) != array.ndim:
        raise ShapeError(f"the input {type} was given the shape {list(array.shape)}")
    for axis, (declared, size) in enumerate(zip(type.shape, array.shape, strict=True)):
        if isinstance(declared, int) and declared != size:
            raise ShapeError(f"dimension {axis} of the input {type} was given the size {size}")
        if isinstance(declared, str):
            first, where = symbols.setdefault(declared, (size, type.name))
            if first != size:
                raise ShapeError(
                    f"the dimension {declared!r} is {size} in input {type.name!r} and {first} in"
                    f" {where!r}: give one size for it"
                )
    return array


def _dictionary(type: ValueType, value: Any) -> HostMap:
    """A map with keys and values of the declared types; raises ShapeError for another value."""
    key = str if type.keys == "str_" else int
    item: Any = str if type.dtype == "str_" else numpy_dtype(type.dtype).type
    error = ShapeError(
        f"the input {type} was given {value!r}: give a dictionary of {type.keys} to {type.dtype}"
    )
    if not isinstance(value, Mapping):
        raise error
    items = cast(Mapping[Any, Any], value)
    texts = [isinstance(k, str) for k in items], [isinstance(v, str) for v in items.values()]
    if {*texts[0]} - {key is str} or {*texts[1]} - {item is str}:
        raise error
    try:
        return HostMap({key(k): item(v) for k, v in items.items()}, dtype=type.dtype)
    except (TypeError, ValueError):  # a key or a value is not a number
        raise error from None


def _dtype(array: np.ndarray | ResidentTensor) -> str:
    return "str_" if array.dtype.kind in "OSU" else numpy_name(array.dtype)
