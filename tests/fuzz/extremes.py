"""Valid models with data at their extremes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.fuzz.case import Case
from tests.fuzz.draw import Draw, specials
from tests.fuzz.graphs import NAMES, random_node

INDEXING = (
    "Gather GatherElements GatherND Scatter ScatterElements ScatterND OneHot ReverseSequence RNN"
    " GRU LSTM"
).split()
_FAR = [-(2**63), -(2**31), -(2**20), -100, -2, -1, 0, 1, 2, 5, 99, 2**20, 2**31 - 1, 2**62]


def extreme(draw: Draw, array: NDArray[Any]) -> NDArray[Any]:
    """The array with some or all elements at the extremes of its dtype, or near them."""
    kind = array.dtype.kind
    pool = specials(array.dtype.name)
    if kind in "iu":
        limits = np.iinfo(array.dtype)
        near = [value for value in _FAR if limits.min <= value <= limits.max]
        pool = np.concatenate([pool, np.array(near, array.dtype)])
    drawn = draw.numpy.choice(pool, array.shape)
    some = draw.numpy.random(array.shape) < draw.choice([0.1, 0.5, 1.0])
    return np.where(some, drawn, array).astype(array.dtype)


def random_extremes(seed: int, target: str) -> Case | None:
    """A node that indexes by data, more often than others, with extreme inputs."""
    draw = Draw(seed)
    names = INDEXING if draw.chance(0.6) else NAMES
    case = random_node(seed, target, 0.1, "data", names)
    if case is None or not case.feeds:
        return None
    chosen = draw.some(list(case.feeds), 0.7) or list(case.feeds)
    feeds = {n: extreme(draw, a) if n in chosen else a for n, a in case.feeds.items()}
    # Checked indices are refused where they are out of range, and so nothing would be compared.
    return case.changed(feeds=feeds, note="extreme data", check_indices=False)
