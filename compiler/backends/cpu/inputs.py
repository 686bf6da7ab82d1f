"""Checks the arrays that a caller passes to a run, and copies what kernels cannot read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy

from compiler.backends.base import Array
from compiler.backends.host_arrays import native, read_input, reading
from compiler.backends.memory import aligned_copy
from compiler.errors import COMPILED_IN, ShapeError
from compiler.schedule.tasks import Allocation
from compiler.tensors.dtypes import numpy_dtype


class ExpectedInputs:
    """The inputs that a schedule takes: it checks those of each run."""

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self._expected = [allocation for allocation in allocations if allocation.kind == "input"]
        self._kinds = {
            allocation.name: (numpy_dtype(allocation.dtype), allocation.shape)
            for allocation in self._expected
        }

    def prepare(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The inputs in the model's order, where kernels can read them.

        An array that is row-major, and aligned as its elements are, is used in place, any other is
        copied. Raises ShapeError if they do not fit.
        """
        inputs = checked_mapping(inputs, self._expected)
        if inputs.keys() != self._kinds.keys():
            remedy = f"; {COMPILED_IN}" if inputs.keys() > self._kinds.keys() else ""
            expectation = _expectation(self._expected)
            names = ", ".join(f"'{name}'" for name in inputs) or "none"
            raise ShapeError(f"the inputs are {names}; {expectation}{remedy}")
        return [self._prepared(name, inputs[name]) for name in self._kinds]

    def _prepared(self, name: str, value: Any) -> Array:
        array = value if type(value) is numpy.ndarray else read_input(name, value)
        dtype, shape = self._kinds[name]
        if array.dtype != dtype or array.shape != shape:
            array = native(array)
            if array.dtype != dtype or array.shape != shape:
                passed = f"{array.dtype}{list(array.shape)}"
                raise ShapeError(f"the input '{name}' is {passed}; {_expectation(self._expected)}")
        # numpy's memory begins at a multiple of 16 bytes, seldom of 64. Kernels expect no more than
        # an element's alignment, and a vector that two lines share costs them less than a copy.
        flags = array.flags
        return array if flags.c_contiguous and flags.aligned else aligned_copy(array)


def prepare_inputs(allocations: Iterable[Allocation], inputs: Mapping[str, Any]) -> list[Array]:
    """The inputs of one run of a schedule with these allocations; see `ExpectedInputs.prepare`."""
    return ExpectedInputs(allocations).prepare(inputs)


def checked_mapping(inputs: Any, expected: Sequence[Allocation]) -> dict[str, Any]:
    """The inputs by name; raises ShapeError for inputs without names."""
    if type(inputs) is dict:
        return cast(dict[str, Any], inputs)
    if not isinstance(inputs, Mapping):
        kind = type(inputs).__name__
        raise ShapeError(f"the inputs are a {kind}: pass arrays by name; {_expectation(expected)}")
    with reading("the mapping of inputs"):
        return dict(cast(Mapping[str, Any], inputs))


def _expectation(expected: Sequence[Allocation]) -> str:
    tensors = ", ".join(
        f"'{allocation.name}' {allocation.dtype}{list(allocation.shape)}" for allocation in expected
    )
    return f"the model takes {tensors or 'none'}"
