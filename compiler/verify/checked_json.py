"""Reads JSON whose every entry is checked: what does not fit is an ArtifactError that names it."""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from compiler.errors import ArtifactError
from compiler.tensors.dtypes import ELEMENT_BYTES

T = TypeVar("T")


def parse_json(text: str | bytes, what: str) -> Any:
    """The value of a JSON text; ArtifactError that begins with `what` if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{what} is not JSON, it may be truncated: {error}") from None


def as_object(value: object, place: str) -> dict[str, Any]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise ArtifactError(f"{place} is not an object")
    return cast(dict[str, Any], value)


def checked_sequence(
    entry: dict[Any, Any], key: str | int, place: str, read: Callable[[object, str], T]
) -> tuple[T, ...]:
    """The list below a key; `read` checks each of its entries."""
    inside = f"{place}.{key}" if isinstance(key, str) else f"{place}[{key}]"
    value: object = entry.get(key)
    if not isinstance(value, list):
        raise ArtifactError(f"{inside} is not a list")
    entries = cast(list[object], value)
    return tuple(read(item, f"{inside}[{index}]") for index, item in enumerate(entries))


def string(entry: dict[str, Any], key: str, place: str) -> str:
    """The text below a key."""
    return text(entry.get(key), f"{place}.{key}")


def text(value: object, place: str) -> str:
    """A value that must be a string."""
    if not isinstance(value, str):
        raise ArtifactError(f"{place} is not a string")
    return value


def checked_integer(value: object, place: str) -> int:
    """A value that must be a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArtifactError(f"{place} is not an integer")
    if not -(2**63) <= value < 2**63:
        raise ArtifactError(f"{place} is not an integer of 64 bits")
    return value


def natural(value: object, place: str) -> int:
    """A value that must be a whole number of at least 0."""
    if (checked_number := checked_integer(value, place)) < 0:
        raise ArtifactError(f"{place} is negative")
    return checked_number


def checked_number(value: object, place: str) -> float:
    """A value that must be a number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArtifactError(f"{place} is not a number")
    return value


def boolean(value: object, place: str) -> bool:
    """A value that must be true or false."""
    if not isinstance(value, bool):
        raise ArtifactError(f"{place} is not true or false")
    return value


def checked_one_of(value: object, known: Iterable[str], place: str) -> str:
    """A value that must be one of some strings."""
    if value not in (names := [*known]):
        raise ArtifactError(f"{place} is {value!r}, not {', '.join(names)}")
    return cast(str, value)


def dtype(value: object, place: str) -> str:
    """A value that must be a dtype's name."""
    if (name := text(value, place)) not in ELEMENT_BYTES:
        raise ArtifactError(f"{place} is {name!r}, which is not a dtype")
    return name
