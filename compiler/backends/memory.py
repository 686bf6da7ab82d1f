"""Aligned memory of the host."""

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy
from numpy.typing import DTypeLike, NDArray

from compiler.errors import DeviceError, ShapeError
from compiler.schedule.tasks import Schedule
from compiler.support.memory import require
from compiler.tensors.dtypes import numpy_dtype

Array = NDArray[Any]

ALIGNMENT = 64
"""Bytes to which every buffer is aligned: a cache line, and the widest vector register."""

POISON = 0xFF
"""A byte that makes NaN of every floating-point type, and -1 of every signed integer."""


def address(array: NDArray[Any]) -> int:
    """Where an array's data begin."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(Any, array)))
    except (BufferError, TypeError, ValueError):
        # numpy makes a dict of all that it knows, for arrays whose buffers ctypes does not take.
        return array.__array_interface__["data"][0]


def aligned_bytes(nbytes: int) -> NDArray[numpy.uint8]:
    """Uninitialised bytes, the first one aligned; DeviceError if there are not that many."""
    block, start = _aligned(nbytes)
    return block[start : start + nbytes]


def _aligned(nbytes: int) -> tuple[NDArray[numpy.uint8], int]:
    """A block of memory, and the index of its first aligned byte with so many after it."""
    try:
        block = numpy.empty(nbytes + ALIGNMENT, numpy.uint8)
    except MemoryError as error:
        raise DeviceError(f"out of memory: {nbytes} bytes were needed") from error
    return block, -address(block) % ALIGNMENT


def aligned_array(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialised row-major array whose data are aligned."""
    kind = numpy.dtype(dtype)
    block, start = _aligned(prod(shape) * kind.itemsize)
    return numpy.ndarray(shape, kind, block, start)


def aligned_copy(array: Array) -> Array:
    """A copy whose data are aligned."""
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    return copy


def is_usable(array: NDArray[Any]) -> bool:
    """Whether kernels can read an array where it is: row-major and aligned."""
    return array.flags.c_contiguous and address(array) % ALIGNMENT == 0


def padded_size(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def place_weights(schedule: Schedule, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Every weight of a schedule, aligned: the given arrays if they are, else one block's parts."""
    expected = schedule.of_kind("weight")
    check_weights(schedule, weights)
    if all(is_usable(weights[allocation.name]) for allocation in expected):
        return {allocation.name: weights[allocation.name] for allocation in expected}
    total = sum(padded_size(allocation.nbytes) for allocation in expected)
    require(total, "the block of weights")
    block = aligned_bytes(total)
    placed: dict[str, Array] = {}
    start = 0
    for allocation in expected:
        view = block[start : start + allocation.nbytes].view(numpy_dtype(allocation.dtype))
        placed[allocation.name] = view.reshape(allocation.shape)
        placed[allocation.name][...] = weights[allocation.name]
        start += padded_size(allocation.nbytes)
    return placed


def check_weights(schedule: Schedule, weights: Mapping[str, Array]) -> None:
    """Raise ShapeError unless every weight of a schedule is there, of its dtype and shape."""
    for allocation in schedule.of_kind("weight"):
        weight = weights.get(allocation.name)
        if weight is None:
            raise ShapeError(
                f"the schedule reads the weight '{allocation.name}', which is not given"
            )
        if weight.shape != allocation.shape or weight.dtype != numpy_dtype(allocation.dtype):
            raise ShapeError(
                f"the weight '{allocation.name}' is {weight.dtype}{list(weight.shape)} and the"
                f" schedule reads {allocation.dtype}{list(allocation.shape)}"
            )
