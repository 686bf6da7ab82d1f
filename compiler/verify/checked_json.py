"""Reads JSON whose every entry is checked: what does not fit is an ArtifactError that names it."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from compiler.errors import ArtifactError
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.extent_text import extent_from_text
from compiler.tensors.symbols import Symbol

K = TypeVar("K", str, int)
T = TypeVar("T")


def parse_json(text: str | bytes, what: str) -> object:
    """The value of a JSON text; ArtifactError that begins with `what` if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{what} is not JSON, it may be truncated: {error}") from None


def as_object(value: object, path: str) -> dict[str, object]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} is not an object")
    return cast(dict[str, object], value)


def checked_sequence(
    entry: Mapping[K, object], key: K, path: str, read: Callable[[object, str], T]
) -> tuple[T, ...]:
    """The list below a key; `read` checks each of its entries."""
    inside = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]"
    value: object = entry.get(key)
    if not isinstance(value, list):
        raise ArtifactError(f"{inside} is not a list")
    entries = cast(list[object], value)
    return tuple(read(item, f"{inside}[{index}]") for index, item in enumerate(entries))


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
            string(entry, "name", path),
            natural(entry.get("low"), f"{path}.low"),
            None if high is None else natural(high, f"{path}.high"),
            natural(entry.get("hint"), f"{path}.hint"),
            natural(entry.get("scope"), f"{path}.scope"),
        )
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from error


def checked_number(value: object, path: str) -> float:
    """A value that must be a number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArtifactError(f"{path} is not a number")
    return value


def boolean(value: object, path: str) -> bool:
    """A value that must be true or false."""
    if not isinstance(value, bool):
        raise ArtifactError(f"{path} is not true or false")
    return value


def checked_one_of(value: object, allowed: Iterable[str], path: str) -> str:
    """A value that must be one of some strings."""
    if value not in (names := [*allowed]):
        raise ArtifactError(f"{path} is {value!r}, not {', '.join(names)}")
    return cast(str, value)


def dtype(value: object, path: str) -> str:
    """A value that must be a dtype's name."""
    if (name := text(value, path)) not in ELEMENT_BYTES:
        raise ArtifactError(f"{path} is {name!r}, which is not a dtype")
    return name
