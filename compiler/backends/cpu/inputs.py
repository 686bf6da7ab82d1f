"""Checks the arrays that a caller hands to a run, and aligns them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy

from compiler.backends.base import Array
from compiler.backends.memory import aligned_array, is_usable, numpy_dtype
from compiler.errors import COMPILED_IN, ShapeError
from compiler.schedule import Allocation


def prepare_inputs(allocations: Sequence[Allocation], inputs: Mapping[str, Any]) -> list[Array]:
    """The inputs in the model's order, where kernels can read them; ShapeError if they do not fit.

    An array that is row-major and aligned to 64 bytes is used in place, any other is copied.
    """
    expected = [allocation for allocation in allocations if allocation.kind == "input"]
    check_mapping(inputs, expected)
    names = {allocation.name for allocation in expected}
    if set(inputs) != names:
        remedy = f"; {COMPILED_IN}" if set(inputs) > names else ""
        raise ShapeError(f"the inputs are {_names(inputs)}; {_expectation(expected)}{remedy}")
    return [_prepare_one(allocation, inputs[allocation.name], expected) for allocation in expected]


def check_mapping(inputs: Any, expected: Sequence[Allocation]) -> None:
    """Raise ShapeError for inputs that have no names."""
    if not isinstance(inputs, Mapping):
        kind = type(inputs).__name__
        raise ShapeError(f"the inputs are a {kind}: pass arrays by name; {_expectation(expected)}")


def _prepare_one(spec: Allocation, value: Any, expected: Sequence[Allocation]) -> Array:
    array = _as_array(spec.name, value)
    dtype = numpy_dtype(spec.dtype)
    if array.dtype != dtype or array.shape != spec.shape:
        raise ShapeError(
            f"the input '{spec.name}' is {array.dtype}{list(array.shape)}; {_expectation(expected)}"
        )
    if is_usable(array):
        return array
    copy = aligned_array(spec.shape, dtype)
    copy[...] = array
    return copy


def _as_array(name: str, value: Any) -> Array:
    if isinstance(value, numpy.ndarray | numpy.generic):
        return numpy.asarray(cast(Any, value))
    if not hasattr(value, "__dlpack__"):
        kind = type(value).__name__
        raise ShapeError(f"the input '{name}' is a {kind}: pass a numpy array, or a DLPack one")
    try:
        return numpy.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ShapeError(
            f"the input '{name}' cannot be read by DLPack ({error}): pass a numpy array"
        ) from error


def _names(inputs: Mapping[str, Any]) -> str:
    return ", ".join(f"'{name}'" for name in inputs) or "none"


def _expectation(expected: Sequence[Allocation]) -> str:
    wanted = ", ".join(
        f"'{allocation.name}' {allocation.dtype}{list(allocation.shape)}" for allocation in expected
    )
    return f"the model takes {wanted or 'none'}"
