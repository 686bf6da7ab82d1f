"""Operators on arrays of extents: the arithmetic of shapes, which depends on symbols.

Only what is exact on extents is here. Everything else raises Undecided: floats computed from sizes,
and what numpy would compute in the type of numbers.
"""

import operator as arithmetic
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np

from compiler.net.node import Array, Node, OperatorInput
from compiler.net.operators import LARGEST_TENSOR, OPERATORS, Kind
from compiler.net.operators.canonical import canonical_node
from compiler.net.spec import KnownTensor
from compiler.tensors.arithmetic import truncated
from compiler.tensors.dtypes import numpy_element
from compiler.tensors.extents import Extent, Undecided, magnitudes
from compiler.tensors.substitution import has_symbols, holds_extents

SIZE_DTYPES = ("int32", "int64")
"""The types in which extents are computed; no tensor is larger than int32's largest number."""


def evaluate_extents(
    op_type: str,
    inputs: Sequence[OperatorInput | None],
    attributes: Mapping[str, Any],
    outputs: int,
) -> list[Array]:
    """The results of an operator in the canonical form on arrays, of which some hold extents.

    Raises Undecided for one that is not computed on extents.
    """
    spec = OPERATORS[op_type]
    given = canonical_node(op_type, inputs, attributes, outputs)
    node = spec.node(op_type, given.inputs, given.attributes, outputs)
    arrays = [value.array for value in node.inputs if value is not None and value.array is not None]
    function = spec.facts.on_extents
    if function is not None:
        reduces = spec.kind is Kind.REDUCTION
        return [
            _reduced(function, arrays[0], node.attributes) if reduces else _each(function, arrays)
        ]
    if spec.facts.converts:
        dtype = str(numpy_element(attributes["to"]))
        if dtype == "bool":
            return [_each(bool, arrays)]
        if dtype not in SIZE_DTYPES:
            raise Undecided("a size is cast to a type that extents do not have")
        return [arrays[0]]
    if op_type == "Mod":
        return [_each(_remainder if node["fmod"] else arithmetic.mod, arrays)]
    moved = [
        i for i, value in enumerate(node.inputs) if value is not None and holds_extents(value.array)
    ]
    if spec.maps is None or spec.evaluate is None or not all(map(spec.moves, moved)):
        raise Undecided(f"{op_type} is not computed on sizes")
    objects = [_as_objects(value) for value in node.inputs]
    results = spec.evaluate(Node(op_type, node.attributes, objects, node.outputs))
    return [np.asarray(result) for result in results] if isinstance(results, list) else [results]  # pyright: ignore


def check_in_kernels(extent: Extent) -> None:
    """Raise Undecided for an extent that kernels do not compute right.

    They have 32 bits, and TVM simplifies their arithmetic as if nothing overflowed. Where
    that depends on sizes, it is assumed.
    """
    for magnitude in magnitudes(extent):
        if magnitude > LARGEST_TENSOR:
            raise Undecided(f"kernels do not count so far as in {extent}")


def settled(array: Array, dtype: str) -> Array:
    """An array of extents, as one of numbers if no symbol is left in it.

    Extents do not wrap around: raises Undecided for those beyond the type. Where that depends on
    sizes, none is assumed to be.
    """
    if dtype in SIZE_DTYPES:
        limits = np.iinfo(dtype)
        if not all(limits.min <= item <= limits.max for item in array.reshape(-1).tolist()):
            raise Undecided(f"a size that is computed wraps around in {dtype}")
    return array if has_symbols(array.reshape(-1)) else array.astype(dtype)


def _as_objects(value: OperatorInput | None) -> KnownTensor | None:
    if value is None:
        return None
    assert value.array is not None
    array = value.array.astype(object) if value.array.dtype.kind in "iub" else value.array
    return KnownTensor(value.dtype, value.shape, array)


def _each(function: Callable[..., Any], arrays: Sequence[Array]) -> Array:
    """A function of elements, broadcast."""
    every = np.broadcast_arrays(*arrays)
    result = np.empty(every[0].shape, object)
    for index in np.ndindex(*result.shape):
        result[index] = function(*(_number(array[index]) for array in every))
    return result


def _number(item: Any) -> Any:
    """An element as a number of Python or an extent."""
    return cast(Any, item).item() if isinstance(item, np.generic) else item


def _reduced(
    function: Callable[[Any, Any], Any], array: Array, attributes: Mapping[str, Any]
) -> Array:
    """A reduction along axes, kept as axes of one element unless said otherwise."""
    axes = tuple(attributes["axes"])
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    moved = array.transpose(*kept, *axes).reshape(*[array.shape[axis] for axis in kept], -1)
    result = np.empty(moved.shape[:-1], object)
    for index in np.ndindex(*result.shape):
        result[index] = reduce(function, map(_number, moved[index]))
    if attributes["keepdims"]:
        return np.asarray(result).reshape(
            [1 if i in axes else n for i, n in enumerate(array.shape)]
        )
    return result


def _remainder(dividend: Any, divisor: Any) -> Any:
    """The rest of a division that is rounded towards zero."""
    return dividend - truncated(dividend, divisor) * divisor
