"""Weights made of others: their keys say how, so that a graph needs no store to speak of them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from compiler.errors import ModelError


def joined_key(keys: Sequence[str], axis: int) -> str:
    """The key of the weights of some keys, one behind the other along an axis."""
    return json.dumps({"concat": list(keys), "axis": axis})


def weight_array(store: Mapping[str, NDArray[Any]], key: str) -> NDArray[Any]:
    """The weight of a key: one of the store, or joined of some; raises ModelError without one."""
    if key in store:
        return store[key]
    try:
        made = json.loads(key)
        parts, axis = made["concat"], made["axis"]
    except (ValueError, TypeError, KeyError):
        raise ModelError(f"the weight {key!r} is not in the store") from None
    return numpy.concatenate([weight_array(store, part) for part in parts], axis)
