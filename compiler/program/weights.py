"""Weights that specialisations share: equal arrays are kept once."""

import hashlib
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from compiler.backends.memory import aligned_copy, is_usable
from compiler.support.memory import require

ContentKey = tuple[str, tuple[int, ...], bytes]
"""The dtype, the shape and a hash of an array."""


class WeightStore:
    """Arrays by content, for as long as a module uses them."""

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[ContentKey, np.ndarray] = WeakValueDictionary()

    def __reduce__(self) -> tuple[type["WeightStore"], tuple[()]]:
        """A copy begins without arrays."""
        return WeightStore, ()

    def shared(self, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The weights, aligned, with the arrays of other specialisations where they are equal."""
        return {name: self._kept(_key(array), array) for name, array in weights.items()}

    def copies(self, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """As `shared`, in other memory than that of the tensors."""
        keys = {name: _key(tensor) for name, tensor in tensors.items()}
        new = {key: tensors[name].nbytes for name, key in keys.items() if key not in self._arrays}
        require(sum(new.values()), "the weights")
        return {name: self._kept(key, tensors[name], copied=True) for name, key in keys.items()}

    def _kept(self, key: ContentKey, array: np.ndarray, *, copied: bool = False) -> np.ndarray:
        stored = self._arrays.get(key)
        if stored is None:
            shareable = not copied and is_usable(array)
            stored = self._arrays[key] = array if shareable else aligned_copy(array)
        return stored


def _key(array: np.ndarray) -> ContentKey:
    """The dtype, the shape and a hash of the content."""
    data_bytes: Any = np.asarray(array, order="C").reshape(-1).view(np.uint8)
    digest = hashlib.blake2b(data_bytes, digest_size=32).digest()
    return array.dtype.name, array.shape, digest
