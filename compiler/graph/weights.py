"""Keys of derived weights, which name their parts, so that passes need no weight store."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from compiler.errors import ModelError


def concatenated_key(keys: Sequence[str], axis: int) -> str:
    """The key of the Concat of some weights along an axis."""
    return json.dumps({"concat": list(keys), "axis": axis})


def reshaped_key(key: str, shape: Sequence[int]) -> str:
    """The key of a weight in another shape of as many elements."""
    return json.dumps({"reshape": key, "shape": list(shape)})


def weight_array(store: Mapping[str, NDArray[Any]], key: str) -> NDArray[Any]:
    """A weight of the store, or derived from some; raises ModelError if the store has none."""
    if key in store:
        return store[key]
    try:
        match json.loads(key):
            case {"concat": parts, "axis": axis}:
                return numpy.concatenate([weight_array(store, part) for part in parts], axis)
            case {"reshape": whole, "shape": shape}:
                return weight_array(store, whole).reshape(shape)
            case _:
                pass
    except ValueError:
        pass
    raise ModelError(f"the weight {key!r} is not in the store")
