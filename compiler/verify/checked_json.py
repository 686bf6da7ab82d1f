"""Reads JSON and checks every entry: one that does not fit is an ArtifactError that names it."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from functools import cache, partial
from types import UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from compiler.errors import ArtifactError
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.extent_text import extent_from_text
from compiler.tensors.symbols import Symbol

T = TypeVar("T")

Reader = Callable[[object, str], Any]
"""The checked form of a value of JSON; raises ArtifactError that begins with its path."""


def parse_json(text: str | bytes, what: str) -> object:
    """The value of a JSON text; ArtifactError, which begins with `what`, for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{what} is not JSON, it may be truncated: {error}") from None


def as_object(value: object, path: str) -> dict[str, object]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} is not an object")
    return cast(dict[str, object], value)


def checked_items(value: object, path: str, item: Callable[[object, str], T]) -> tuple[T, ...]:
    """A value that must be a list; `item` checks each of its entries."""
    if not isinstance(value, list):
        raise ArtifactError(f"{path} is not a list")
    entries = cast(list[object], value)
    return tuple(item(entry, f"{path}[{index}]") for index, entry in enumerate(entries))


def string(entry: dict[str, object], key: str, path: str) -> str:
    """The text below a key."""
    return text(entry.get(key), f"{path}.{key}")


def text(value: object, path: str) -> str:
    """A value that must be a string."""
    if not isinstance(value, str):
        raise ArtifactError(f"{path} is not a string")
    return value


def checked_integer(value: object, path: str) -> int:
    """A value that must be a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArtifactError(f"{path} is not an integer")
    if not -(2**63) <= value < 2**63:
        raise ArtifactError(f"{path} is not an integer of 64 bits")
    return value


def natural(value: object, path: str) -> int:
    """A value that must be a whole number of at least 0."""
    if (checked_number := checked_integer(value, path)) < 0:
        raise ArtifactError(f"{path} is negative")
    return checked_number


def extents_over(
    symbols: Mapping[str, Symbol], *, negative: bool = False
) -> Callable[[object, str], int]:
    """Reads extents over symbols, by identifier: whole numbers, or texts.

    Numbers are at least 0 unless they may be `negative`.
    """

    def read(value: object, path: str) -> int:
        if not isinstance(value, str) or not symbols:
            return (checked_integer if negative else natural)(value, path)
        try:
            return extent_from_text(value, symbols)
        except ValueError as error:
            raise ArtifactError(f"{path}: {error}") from error

    return read


def checked_symbol(value: object, path: str) -> Symbol:
    """A symbol with its bounds and an example."""
    entry = as_object(value, path)
    high = entry.get("high")
    try:
        return Symbol(
            name=string(entry, "name", path),
            low=natural(entry.get("low"), f"{path}.low"),
            high=None if high is None else natural(high, f"{path}.high"),
            hint=natural(entry.get("hint"), f"{path}.hint"),
            scope=natural(entry.get("scope"), f"{path}.scope"),
            measured=boolean(entry.get("measured", False), f"{path}.measured"),
        )
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from error


def checked_number(value: object, path: str) -> float:
    """A value that must be a number."""
    # To Python, unlike to JSON, true and false are integers.
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArtifactError(f"{path} is not a number")
    return value


def boolean(value: object, path: str) -> bool:
    """A value that must be true or false."""
    if not isinstance(value, bool):
        raise ArtifactError(f"{path} is not true or false")
    return value


def checked_one_of(value: object, path: str, allowed: Iterable[str]) -> str:
    """A value that must be one of some strings."""
    if value not in (names := [*allowed]):
        raise ArtifactError(f"{path} is {value!r}, not {', '.join(names)}")
    return cast(str, value)


def dtype(value: object, path: str) -> str:
    """A value that must be a dtype's name."""
    if (name := text(value, path)) not in ELEMENT_BYTES:
        raise ArtifactError(f"{path} is {name!r}, which is not a dtype")
    return name


def checked_record(kind: type[T], value: object, path: str, **readers: Reader) -> T:
    """A dataclass of the entries of an object, each checked by its field's type or its reader.

    Whole numbers are at least 0. An entry that is left out has the field's default.
    """
    entry = as_object(value, path)
    fields = {
        name: (readers.get(name) or _reader(field_type))(entry.get(name), f"{path}.{name}")
        for name, (field_type, required) in _fields(kind).items()
        if required or name in entry
    }
    return kind(**fields)


@cache
def _fields(kind: type[Any]) -> Mapping[str, tuple[Any, bool]]:
    """The type of each field of a dataclass, and whether it has no default."""
    types = get_type_hints(kind)
    return {
        field.name: (
            types[field.name],
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in dataclasses.fields(cast(Any, kind))
    }


_READERS: Mapping[object, Reader] = {
    Any: lambda value, path: value,
    bool: boolean,
    float: checked_number,
    int: natural,
    str: text,
}
"""The readers of plain values."""


@cache
def _reader(kind: Any) -> Reader:
    """The reader of values of a type."""
    arguments = get_args(kind)
    if kind in _READERS:
        return _READERS[kind]
    if dataclasses.is_dataclass(kind):
        return partial(checked_record, cast(type[Any], kind))
    if get_origin(kind) is Literal:
        return partial(checked_one_of, allowed=arguments)
    if get_origin(kind) in (Mapping, dict):
        return partial(checked_by_name, item=_reader(arguments[1]))
    if get_origin(kind) is UnionType:
        return partial(_optional, item=_reader(arguments[0]))
    assert get_origin(kind) is tuple, kind
    size = None if ... in arguments else len(arguments)
    return partial(checked_tuple, item=_reader(arguments[0]), size=size)


def _optional(value: object, path: str, item: Reader) -> Any:
    return None if value is None else item(value, path)


def checked_by_name(value: object, path: str, item: Reader) -> dict[str, Any]:
    """A value that must be an object; `item` checks each of its entries."""
    return {name: item(entry, f"{path}.{name}") for name, entry in as_object(value, path).items()}


def checked_tuple(value: object, path: str, item: Reader, size: int | None) -> tuple[Any, ...]:
    """A value that must be a list, of `size` entries unless that is None."""
    entries = checked_items(value, path, item)
    if size is not None and len(entries) != size:
        raise ArtifactError(f"{path} has {len(entries)} entries, not {size}")
    return entries
