"""Random tensors, for runs whose time counts and whose results do not."""

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.memory import as_bytes, upload
from compiler.backends.memory import Array
from compiler.tensors.dtypes import numpy_dtype

DRAWN = (1 << 20) + 7
"""The random numbers that larger tensors repeat: a prime, so that no row equals another."""


def fill_inputs(executor: GpuExecutor) -> None:
    """Put random numbers into an executor's own inputs; indices are spread over their range.

    Where all index the same row, additions to it wait for each other, which real indices do not.
    """
    limits = executor.settings.index_limits
    for number, (name, array) in enumerate(executor.in_place("input").items()):
        numbers = random_numbers(array.shape, array.dtype, number, limits.get(name, 2))
        upload(executor.driver, [(array.address, as_bytes(numbers))])


def random_numbers(shape: Sequence[int], dtype: str, number: int = 0, limit: int = 2) -> Array:
    """A tensor of normal numbers, or of integers from 0 to below a limit.

    Below 2 all are valid indices; of booleans, half are true. `number` makes the tensors of a run
    differ.
    """
    drawn = _floats(dtype) if "float" in dtype else _integers(dtype, limit)
    return np.resize(np.roll(drawn, 1009 * number), shape)


@cache
def _normal() -> NDArray[np.float32]:
    """Normal numbers that tensors repeat: drawing new ones takes longer than measuring."""
    return np.random.default_rng(0).normal(0, 0.25, DRAWN).astype(np.float32)


@cache
def _floats(dtype: str) -> Array:
    """These numbers in a type: converting them each time takes longer than measuring, too."""
    return _normal().astype(numpy_dtype(dtype))


@lru_cache(8)
def _integers(dtype: str, limit: int) -> Array:
    kind = numpy_dtype(dtype)
    largest = np.iinfo(kind).max if kind.kind in "iu" else 1
    return np.random.default_rng(0).integers(0, min(limit, largest + 1), DRAWN).astype(kind)
