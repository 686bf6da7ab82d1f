"""Random tensors for runs that are timed."""

import numpy as np
import pytest

from compiler.backends.gpu.random_inputs import random_numbers
from compiler.tensors.dtypes import ELEMENT_BYTES, numpy_dtype


@pytest.mark.parametrize("dtype", sorted(ELEMENT_BYTES))
def test_every_type_has_numbers(dtype: str):
    found = random_numbers((3, 50), dtype)
    assert found.shape == (3, 50)
    assert found.dtype == numpy_dtype(dtype)
    assert len(np.unique(found.astype(np.float32))) > 1


@pytest.mark.parametrize("limit", [1, 2, 100, 5000])
def test_integers_are_spread_below_their_limit(limit: int):
    found = random_numbers((40 * limit,), "int64", limit=limit)
    assert found.min() >= 0
    assert found.max() < limit
    assert len(np.unique(found)) > 0.9 * limit


def test_a_limit_beyond_the_type_is_the_type_s_own():
    found = random_numbers((1000,), "int8", limit=30522)
    assert found.min() >= 0
    assert found.max() > 100


def test_tensors_of_a_run_differ():
    first, second = (random_numbers((64, 64), "float32", number) for number in (0, 1))
    assert not np.array_equal(first, second)
