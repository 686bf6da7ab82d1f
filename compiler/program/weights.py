"""Weights that specialisations share: equal arrays are kept once."""

import hashlib
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from compiler.backends.memory import aligned_array, is_usable


class WeightStore:
    """Arrays by content, for as long as a module uses them."""

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[tuple[str, tuple[int, ...], bytes], np.ndarray] = (
            WeakValueDictionary()
        )

    def __reduce__(self) -> tuple[type["WeightStore"], tuple[()]]:
        """A copy begins without arrays."""
        return WeightStore, ()

    def shared(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The weights, aligned, with the arrays of other specialisations where they are equal."""
        return {name: self._one(array) for name, array in weights.items()}

    def _one(self, array: np.ndarray) -> np.ndarray:
        data = np.asarray(array, order="C")
        data_bytes: Any = data.reshape(-1).view(np.uint8)
        digest = hashlib.blake2b(data_bytes, digest_size=32).digest()
        key = array.dtype.name, array.shape, digest
        found = self._arrays.get(key)
        if found is None:
            found = self._arrays[key] = data if is_usable(data) else _aligned(data)
        return found


def _aligned(array: np.ndarray) -> np.ndarray:
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    return copy
