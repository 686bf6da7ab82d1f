"""Attributes of operators: their types, defaults and valid values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from compiler.tensors.extents import Expression

Shape = tuple[int, ...]


class Mismatch(Exception):
    """An operator, its attributes or its types are not what the table says."""


AttributeKind = Literal["int", "float", "string", "ints", "floats", "strings"]
_PYTHON_TYPES: dict[AttributeKind, tuple[type, ...]] = {
    "int": (int, Expression),
    "float": (float, int),
    "string": (str,),
    "ints": (list, tuple),
    "floats": (list, tuple),
    "strings": (list, tuple),
}
_ELEMENT_TYPES: dict[AttributeKind, tuple[type, ...]] = {
    "ints": (int, Expression),
    "floats": (float, int),
    "strings": (str,),
}


Shapes = Sequence[Shape | None]
"""The shapes of a node's inputs, None for one that is left out."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute's type, its default, and the values that it may have.

    `default` is a value or a function of the input shapes. `least` is the smallest number, of every
    element in a list; `allowed` are all that are valid. An axis, or a list of axes, counts `rank`
    dimensions.
    """

    kind: AttributeKind
    default: Any = None
    required: bool = False
    allowed: tuple[Any, ...] = ()
    least: int | None = None
    rank: Callable[[Shapes], int] | None = None

    def default_for(self, shapes: Shapes) -> Any:
        """The value of an attribute that is left out; None if it has no default."""
        return self.default(shapes) if callable(self.default) else self.default

    def from_front(self, value: Any, shapes: Shapes) -> Any:
        """The value with its axes counted from the front, except those that are out of range."""
        if self.rank is None:
            return value
        rank = self.rank(shapes)
        if isinstance(value, int):
            return value + rank if -rank <= value < 0 else value
        return [axis + rank if -rank <= axis < 0 else axis for axis in value]

    def check(self, name: str, value: Any) -> None:
        """Raise Mismatch for a value of another type or outside what is valid."""
        if not _has_kind(self.kind, value):
            raise Mismatch(f"its attribute {name!r} is {value!r}, which is not {_NAMES[self.kind]}")
        if value != value:
            raise Mismatch(f"its attribute {name!r} is NaN, which is not a number")
        if self.allowed and value not in self.allowed:
            known = ", ".join(repr(item) for item in self.allowed)
            raise Mismatch(f"its attribute {name!r} is {value!r}; it can be {known}")
        if self.least is not None and _below(value, self.least):
            raise Mismatch(f"its attribute {name!r} is {value!r}; it must be {self.least} or more")


_NAMES = {
    "int": "an integer",
    "float": "a number",
    "string": "a string",
    "ints": "a list of integers",
    "floats": "a list of numbers",
    "strings": "a list of strings",
}


def _has_kind(kind: AttributeKind, value: Any) -> bool:
    if not isinstance(value, _PYTHON_TYPES[kind]):
        return False
    elements = _ELEMENT_TYPES.get(kind)
    return elements is None or all(isinstance(v, elements) for v in value)


def _below(value: Any, least: int) -> bool:
    """Whether a number, or one of a list, is smaller than allowed."""
    if not isinstance(value, list | tuple):
        return value < least
    return any(number < least for number in cast(Sequence[Any], value))


def rank_of_input(shapes: Shapes) -> int:
    """The dimensions of the first input; a scalar counts as a vector of one element."""
    return max(len(shapes[0] or ()), 1) if shapes else 1


def _last(shapes: Shapes) -> int:
    return rank_of_input(shapes) - 1


def axis_attribute(
    default: int | None = None, rank: Callable[[Shapes], int] = rank_of_input
) -> Attribute:
    """An axis, whose default counts from the front; it is required if it has none."""
    return Attribute("int", default, default is None, rank=rank)


LAST_AXIS = Attribute("int", _last, rank=rank_of_input)
"""An axis that is the last one unless it is set."""


def axes_attribute(default: Sequence[int] | Callable[[Shapes], Sequence[int]]) -> Attribute:
    """A list of axes, whose default counts from the front."""
    return Attribute("ints", default, rank=rank_of_input)


def integer(
    default: int | None = None, *, required: bool = False, least: int | None = None
) -> Attribute:
    """An integer attribute."""
    return Attribute("int", default, required, least=least)


def flag(default: int) -> Attribute:
    """An integer attribute that is 0 or 1."""
    return Attribute("int", default, allowed=(0, 1))


def integers(
    default: Sequence[int] | Callable[[Shapes], Any] | None = None, *, least: int | None = None
) -> Attribute:
    """An attribute that is a list of integers."""
    return Attribute("ints", default, least=least)


def one_each(*, least: int | None = None) -> Attribute:
    """A list of integers that every node has."""
    return Attribute("ints", required=True, least=least)


LISTED_AXES = Attribute("ints", required=True, rank=rank_of_input)
"""A list of axes that every node has."""


def number(default: float) -> Attribute:
    """An attribute that is a floating-point number, by default the float32 next to `default`."""
    return Attribute("float", float(np.float32(default)))


def one_of(*allowed: str, required: bool = False) -> Attribute:
    """A string attribute; its default comes first."""
    return Attribute("string", None if required else allowed[0], required, allowed)
