"""The inputs and outputs of a program: types with symbolic dimensions, and checks of a run's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from compiler.backends.host_arrays import read_input
from compiler.errors import COMPILED_IN, ModelError, ShapeError
from compiler.program.host import HostMap, HostSequence, HostValue
from compiler.program.resident import ResidentTensor
from compiler.support.arguments import closest_name
from compiler.tensors.dtypes import numpy_dtype, numpy_name

TEXT_KINDS = "OSU"
"""numpy's kinds of arrays whose elements may be texts."""


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
    element: "ValueType | None" = None
    """The type of a sequence's items, or of an optional's value, under the same name."""

    def __str__(self) -> str:
        return f"{self.name} {self.type_text}"

    @property
    def type_text(self) -> str:
        """The type without the name: `float32[n, 3]`, `sequence(float32[n, 3])`."""
        if self.kind == "map":
            return f"map({self.keys}, {self.dtype})"
        if self.kind != "tensor":
            return f"{self.kind}({'' if self.element is None else self.element.type_text})"
        sizes = "..." if self.shape is None else ", ".join(str(d or "?") for d in self.shape)
        return f"{self.dtype}[{sizes}]"


SymbolSizes = dict[str, tuple[int, str]]
"""The size of each symbol in a run, and the first input that has it."""


def checked_inputs(types: Sequence[ValueType], inputs: Mapping[str, Any]) -> dict[str, HostValue]:
    """The inputs of a run as arrays, lists of arrays or None; raises ShapeError.

    A symbol has one size in a run, but for the items of a sequence, whose sizes may differ.
    """
    names = {type.name for type in types}
    if unknown := sorted(set(inputs) - names):
        raise ShapeError(
            f"the model has no input {unknown[0]!r}; its inputs are {', '.join(sorted(names))};"
            f" {COMPILED_IN}"
        )
    symbols: SymbolSizes = {}
    values: dict[str, HostValue] = {}
    for type in types:
        if type.name not in inputs and type.kind != "optional":
            raise ShapeError(f"the input {type.name!r} is missing")
        subject = f"the input {type}"
        values[type.name] = checked_value(subject, type, inputs.get(type.name), symbols)
    return values


def checked_value(subject: str, type: ValueType, value: Any, symbols: SymbolSizes) -> HostValue:
    """A value of a declared type as the host has it; raises ShapeError, of `subject`.

    `symbols` gets the sizes of symbols that this value has first.
    """
    if type.kind == "map":
        # A map with keys and values of the declared types; raises ShapeError for another value.
        key = str if type.keys == "str_" else int
        item: Any = str if type.dtype == "str_" else numpy_dtype(type.dtype).type
        error = ShapeError(
            f"{subject} was given {value!r}: give a dictionary of its keys and values"
        )
        if not isinstance(value, Mapping):
            raise error
        items = cast(Mapping[Any, Any], value)
        texts = [isinstance(k, str) for k in items], [isinstance(v, str) for v in items.values()]
        if {*texts[0]} - {key is str} or {*texts[1]} - {item is str}:
            raise error
        try:
            own = {_exactly(key, k): _exactly(item, v) for k, v in items.items()}
            return HostMap(own, dtype=type.dtype)
        except (TypeError, ValueError, OverflowError):  # a key or a value is not such a number
            raise error from None
    if type.kind == "tensor":
        return _tensor(subject, type, value, symbols)
    if type.kind == "optional":
        element = type.element
        return None if value is None else _element(subject, element, type.name, value, symbols)
    if not isinstance(value, list | tuple):
        raise ShapeError(f"{subject} was given {_described(value)}: pass a list")
    items = [
        _element(f"item {index} of {subject}", type.element, type.name, item, {})
        for index, item in enumerate(cast(Sequence[Any], value))
    ]
    dtypes = sorted({_dtype(item) for item in items if hasattr(item, "dtype")})
    if len(dtypes) > 1:
        raise ShapeError(f"{subject} was given items of {' and '.join(dtypes)}: pass one dtype")
    declared = "" if type.element is None else type.element.dtype
    return HostSequence(items, declared or next(iter(dtypes), ""))


def _exactly(kind: Any, value: Any) -> Any:
    """A key or a value of a map in its type; raises ValueError for an integer with a fraction."""
    converted: Any = kind(value)
    if np.asarray(converted).dtype.kind in "iu" and converted != value:
        raise ValueError(f"{value!r} is not a whole number")
    return converted


def _element(
    subject: str, type: ValueType | None, name: str, value: Any, symbols: SymbolSizes
) -> HostValue:
    """An item of a sequence, or the value of an optional, whose type a model may leave open."""
    if value is None:
        raise ShapeError(f"{subject} was given None: pass an array")
    if type is not None:
        return checked_value(subject, type, value, symbols)
    if isinstance(value, dict):
        return cast(HostValue, value)
    if isinstance(value, list | tuple):
        return checked_value(subject, ValueType(name, kind="sequence"), value, symbols)
    return checked_value(subject, ValueType(name), value, symbols)


def check_declared_types(types: Sequence[ValueType], values: Mapping[str, HostValue]) -> None:
    """Raise ModelError for an output that is not of its declared kind and element type."""
    for type in types:
        value = values[type.name]
        if not _is_of(type, value):
            raise ModelError(
                f"the model declares its output {type}, it is computed as {_described(value)};"
                " correct the model, or export it again"
            )


def _is_of(type: ValueType, value: HostValue) -> bool:
    """Whether a computed value has a declared kind and element type, by its first item if any."""
    element = type.element
    if type.kind == "optional":
        return value is None or element is None or _is_of(element, value)
    if type.kind == "sequence":
        items = cast(list[Any], value) if isinstance(value, list) else None
        return items is not None and (not items or element is None or _is_of(element, items[0]))
    if type.kind == "map":
        return isinstance(value, Mapping)
    return hasattr(value, "dtype") and type.dtype in ("", _dtype(value))


def axis_symbols(type: ValueType) -> tuple[str | None, ...]:
    """The symbol of each axis: None for a size, `input.axis` for an unnamed dimension."""
    return tuple(
        None if isinstance(size, int) else size or f"{type.name}.{axis}"
        for axis, size in enumerate(type.shape or ())
    )


def input_symbols(inputs: Iterable[ValueType]) -> dict[str, tuple[str | None, ...]]:
    """The symbols of the axes of each input whose rank is known, by its name."""
    return {type.name: axis_symbols(type) for type in inputs if type.shape is not None}


def examples_of(types: Iterable[ValueType], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Zeros of tensors' types by input, for sizes by symbol (`input.axis` if it has none).

    Raises ShapeError for a dimension whose size is neither fixed nor given, and for a size of none.
    """
    tensors = [type for type in types if type.kind == "tensor"]
    symbols = {symbol for type in tensors for symbol in axis_symbols(type) if symbol}
    if unknown := [name for name in sizes if name not in symbols]:
        raise ShapeError(
            f"{unknown[0]!r} is not an open dimension: {closest_name(unknown[0], sorted(symbols))}"
        )
    return {type.name: _example_of(type, sizes) for type in tensors}


def _example_of(type: ValueType, sizes: Mapping[str, int]) -> np.ndarray:
    if type.shape is None:
        raise ShapeError(f"the input {type} has any rank: run the model once instead")
    shape: list[int] = []
    for axis, (size, symbol) in enumerate(zip(type.shape, axis_symbols(type), strict=True)):
        extent = size if isinstance(size, int) else sizes.get(symbol or "")
        if extent is None:
            raise ShapeError(
                f"dimension {axis} of the input {type} is open: give the size of {symbol!r}"
            )
        shape.append(extent)
    return np.broadcast_to(np.zeros((), numpy_dtype(type.dtype)), shape)  # takes no memory


def _tensor(subject: str, type: ValueType, value: Any, symbols: SymbolSizes) -> HostValue:
    """A tensor as an array of the declared type."""
    if value is None or isinstance(value, Mapping):
        raise ShapeError(f"{subject} was given {_described(value)}: pass an array")
    resident = isinstance(value, ResidentTensor)
    array = value if resident else read_input(type.name, value, listed=True)
    if type.dtype and _dtype(array) != type.dtype:
        raise ShapeError(f"{subject} was given {_described(array)}")
    if isinstance(array, np.ndarray) and array.dtype.kind in TEXT_KINDS:
        array = _texts(subject, array)
    if type.shape is None:
        return array
    if len(type.shape) != array.ndim:
        raise ShapeError(f"{subject} was given the shape {list(array.shape)}")
    for axis, (declared, size) in enumerate(zip(type.shape, array.shape, strict=True)):
        if isinstance(declared, int) and declared != size:
            raise ShapeError(f"dimension {axis} of {subject} was given the size {size}")
        if isinstance(declared, str):
            first, where = symbols.setdefault(declared, (size, type.name))
            if first != size:
                raise ShapeError(
                    f"the dimension {declared!r} is {size} in input {type.name!r} and {first} in"
                    f" {where!r}: give one size for it"
                )
    return array


def _texts(subject: str, array: np.ndarray) -> np.ndarray:
    """Texts as an array of `str` objects, which host operators read; ShapeError for others."""
    items = array.reshape(-1).tolist()
    if odd := {item.__class__.__name__ for item in items if not isinstance(item, str)}:
        bytes_alone = " (bytes.decode makes it of bytes)" if odd == {"bytes"} else ""
        raise ShapeError(
            f"{subject} was given elements of {' and '.join(sorted(odd))}: pass str{bytes_alone}"
        )
    return array.astype(object, copy=False)


def _described(value: Any) -> str:
    """The type of a value that is not of the declared one, for messages."""
    array: Any = value
    if isinstance(value, np.ndarray | ResidentTensor):
        return f"{_dtype(array)}{list(array.shape)}"
    if isinstance(value, HostSequence) and value.items_dtype:
        return f"a sequence of {value.items_dtype}"
    return "None" if value is None else f"a {value.__class__.__name__}"


def _dtype(array: np.ndarray | ResidentTensor) -> str:
    return "str_" if array.dtype.kind in TEXT_KINDS else numpy_name(array.dtype)
