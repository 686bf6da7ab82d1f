"""Random choices from one seed: sizes, shapes, dtypes and arrays.

Hypothesis is not used here: a search by the clock wants thousands of cases a minute, workers that
may crash or hang, and shrinking of what is already a model or a file rather than of choices.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Item = TypeVar("Item")
Shape = tuple[int, ...]

FLOATS = ("float32", "float64", "float16")
SIGNED = ("int32", "int64", "int8", "int16")
UNSIGNED = ("uint8", "uint32", "uint64", "uint16")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ANY = (*NUMBERS, "bool")
_WEIGHTS = {"float32": 30, "float64": 3, "float16": 3, "int32": 4, "int64": 5, "bool": 3}


class Draw(random.Random):
    """A source of random choices; one seed gives the same case everywhere."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.numpy = np.random.default_rng(seed)
        self.specials = 0.0
        """The share of arrays that hold infinities, NaN, the ends of integers and the like."""
        self.ends = 0.0
        """The share of arrays of integers that hold the ends of their type, if it is larger."""
        self.empty = 0.0
        """The share of dimensions that have no elements."""
        self._shapes: list[Shape] = []

    def extremes(self) -> None:
        """Decide how many arrays hold special values, and how many dimensions are empty."""
        self.specials = 0.3 if self.chance(0.15) else 0.0
        self.ends = 0.5 if self.chance(0.3) else 0.0
        self.empty = 0.2 if self.chance(0.1) else 0.0

    def chance(self, probability: float) -> bool:
        """True as often as said."""
        return self.random() < probability

    def some(self, items: Sequence[Item], probability: float = 0.5) -> list[Item]:
        """A random part of the items, in order."""
        return [item for item in items if self.chance(probability)]

    def dtype(self, allowed: Sequence[str]) -> str:
        """One of the dtypes, float32 most often."""
        return self.choices(allowed, [_WEIGHTS.get(name, 1) for name in allowed])[0]

    def size(self) -> int:
        """A dimension: mostly small, now and then beyond a vector or a warp."""
        small = [1, 2, 2, 3, 3, 4, 5, 6, 7, 8]
        return self.choice([9, 16, 17, 33, 40]) if self.chance(0.05) else self.choice(small)

    def shape(self, low: int = 0, high: int = 4, most: int = 1500) -> Shape:
        """A shape whose rank and number of elements are bounded; often one that was drawn before.

        Tensors of few shapes suit each other, and their kernels are built once.
        """
        old = [s for s in self._shapes if low <= len(s) <= high and int(np.prod(s)) <= most]
        if old and self.chance(0.6):
            return self.choice(old)
        self._shapes.append(self._new_shape(low, high, most))
        return self._shapes[-1]

    def _new_shape(self, low: int, high: int, most: int) -> Shape:
        while True:
            rank = self.randint(low, high)
            shape = tuple(0 if self.chance(self.empty) else self.size() for _ in range(rank))
            if int(np.prod(shape)) <= most:
                return shape

    def array(
        self, shape: Sequence[int], dtype: str, low: float = -2.0, high: float = 2.0
    ) -> Array:
        """Values between the bounds (integers: four times as far), with a share of specials."""
        shape = tuple(shape)
        if dtype == "bool":
            return self.numpy.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            bottom = 0 if dtype.startswith("u") else round(4 * low)
            array = self.numpy.integers(bottom, max(bottom + 1, round(4 * high)), shape)
        else:
            array = self.numpy.uniform(low, high, shape)
            if self.chance(0.2):
                array = np.round(array * 2) / 2
        return self._special(np.asarray(array).astype(dtype))

    def _special(self, array: Array) -> Array:
        whole = array.dtype.kind in "iu"
        share = max(self.specials, self.ends) if whole else self.specials
        if not self.chance(share) or not array.size:
            return array
        flat = array.reshape(-1).copy()
        places = self.numpy.integers(0, flat.size, max(1, flat.size // 4))
        flat[places] = self.numpy.choice(specials(array.dtype.name), places.size)
        return flat.reshape(array.shape)


def specials(dtype: str) -> Array:
    """The values of a dtype that programs get wrong."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        low, high = int(limits.min), int(limits.max)
        signed = [-1, -2] if low else []
        return np.array([low, high, low + 1, high - 1, high // 2 + 1, 0, 1, 2, *signed], dtype)
    finfo: Any = ml_dtypes.finfo
    tiny = finfo(np.dtype(dtype)).smallest_subnormal
    large = 100.0 if dtype == "float16" else 1e15  # its square is finite
    return np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, tiny, -tiny, large, -large], dtype)
