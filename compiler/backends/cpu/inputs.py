"""Checks the arrays that a caller hands to a run, and aligns them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy

from compiler.backends.base import Array
from compiler.backends.memory import aligned_array, is_usable, numpy_dtype
from compiler.errors import COMPILED_IN, ShapeError
from compiler.schedule import Allocation


class ExpectedInputs:
    """The inputs that a schedule takes: it checks and aligns those of each run."""

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self._expected = [allocation for allocation in allocations if allocation.kind == "input"]
        self._kinds = {
            allocation.name: (numpy_dtype(allocation.dtype), allocation.shape)
            for allocation in self._expected
        }

    def prepare(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The inputs in the model's order, where kernels can read them.

        An array that is row-major and aligned to 64 bytes is used in place, any other is copied.
        Raises ShapeError if they do not fit.
        """
        check_mapping(inputs, self._expected)
        if inputs.keys() != self._kinds.keys():
            remedy = f"; {COMPILED_IN}" if inputs.keys() > self._kinds.keys() else ""
            wanted = _expectation(self._expected)
            raise ShapeError(f"the inputs are {_names(inputs)}; {wanted}{remedy}")
        return [self._prepared(name, inputs[name]) for name in self._kinds]

    def _prepared(self, name: str, value: Any) -> Array:
        array = value if type(value) is numpy.ndarray else _as_array(name, value)
        dtype, shape = self._kinds[name]
        if array.dtype != dtype or array.shape != shape:
            wanted = _expectation(self._expected)
            raise ShapeError(f"the input '{name}' is {array.dtype}{list(array.shape)}; {wanted}")
        if is_usable(array):
            return array
        copy = aligned_array(shape, dtype)
        copy[...] = array
        return copy


def prepare_inputs(allocations: Iterable[Allocation], inputs: Mapping[str, Any]) -> list[Array]:
    """The inputs of one run of a schedule with these allocations; see `ExpectedInputs.prepare`."""
    return ExpectedInputs(allocations).prepare(inputs)


def check_mapping(inputs: Any, expected: Sequence[Allocation]) -> None:
    """Raise ShapeError for inputs that have no names."""
    if not isinstance(inputs, Mapping):
        kind = type(inputs).__name__
        raise ShapeError(f"the inputs are a {kind}: pass arrays by name; {_expectation(expected)}")


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
