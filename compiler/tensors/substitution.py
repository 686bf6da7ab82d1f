"""Extents for other symbols or sizes, alone, in shapes, and in arrays of extents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from compiler.tensors.arithmetic import maximum
from compiler.tensors.extents import (
    Expression,
    Extent,
    Maximum,
    Quotient,
    at_hints,
    atom_extent,
)
from compiler.tensors.symbols import Symbol

Array = NDArray[Any]


def is_symbolic(value: object) -> TypeGuard[Expression]:
    """Whether a value is an extent that depends on symbols."""
    return isinstance(value, Expression)


def has_symbols(values: Iterable[object]) -> bool:
    """Whether some extents, or attributes that are lists of them, depend on symbols."""
    return any(
        isinstance(value, Expression) or (isinstance(value, list | tuple) and has_symbols(value))  # pyright: ignore
        for value in values
    )


def holds_extents(array: Array | None) -> bool:
    """Whether an array, of objects then, has elements that depend on symbols."""
    if array is None or array.dtype.kind != "O":
        return False
    return any(isinstance(item, Expression) for item in array.reshape(-1))


def extents_in(value: Any) -> Iterator[Expression]:
    """The extents over symbols in a shape or an attribute's value."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, list | tuple):
        for item in cast(Iterable[Any], value):
            yield from extents_in(item)


def as_extent(value: Any) -> Any:
    """An extent as it is, and any other number as an `int`."""
    return value if isinstance(value, Expression) else int(value)


def extent_array(values: Sequence[Extent]) -> Array:
    """A vector of extents: of int64 if all are numbers, else of objects."""
    if not has_symbols(values):
        return np.array(values, np.int64)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def shape_at_hints(shape: Iterable[Extent]) -> tuple[int, ...]:
    """A shape for the example sizes."""
    return tuple([at_hints(size) if isinstance(size, Expression) else size for size in shape])


def array_at_hints(array: Array) -> Array:
    """An array, of int64 for the example sizes if it holds extents."""
    if not holds_extents(array):
        return array
    return np.array(shape_at_hints(array.reshape(-1)), np.int64).reshape(array.shape)


def substituted(extent: Extent, values: Mapping[Symbol, Extent]) -> Extent:
    """An extent with extents in place of symbols; others stay."""
    if not isinstance(extent, Expression):
        return extent
    total: Extent = 0
    for monomial, factor in extent.terms:
        term: Extent = factor
        for atom in monomial:
            match atom:
                case Symbol():
                    term = term * (values[atom] if atom in values else atom_extent(atom))
                case Quotient():
                    numerator = substituted(atom.numerator, values)
                    term = term * (numerator // substituted(atom.denominator, values))
                case Maximum():
                    term = term * maximum(
                        *(substituted(operand, values) for operand in atom.extents)
                    )
        total = total + term
    return total


def substituted_shape(shape: Iterable[Extent], values: Mapping[Symbol, Extent]) -> tuple[int, ...]:
    """A shape with extents in place of symbols."""
    return tuple([cast(int, substituted(extent, values)) for extent in shape])


def mapped_extents(value: Any, function: Callable[[Expression], Any]) -> Any:
    """An attribute's value with something else for each extent in it that depends on symbols."""
    if isinstance(value, Expression):
        return function(value)
    if isinstance(value, list | tuple):
        items = [mapped_extents(item, function) for item in cast(Sequence[Any], value)]
        return items if isinstance(value, list) else tuple(items)
    return value
