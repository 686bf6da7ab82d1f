"""Medians with confidence intervals, and the timing of several candidates within a budget."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from statistics import median

from compiler.schedule import Timing

WARM_UP = 3
"""Runs of each candidate that are not counted."""

ROUND = 5
"""Samples taken of each candidate before the next one's turn, so that drift hits all alike."""


def summarize(samples: Sequence[float]) -> Timing:
    """The median and its interval by order statistics, which assume no distribution."""
    ordered, count = sorted(samples), len(samples)
    reach = 0.98 * sqrt(count)
    low = max(0, int(count / 2 - reach))
    high = min(count - 1, int(count / 2 + reach))
    return Timing(median(ordered), ordered[low], ordered[high], count)


def time_all(
    candidates: Mapping[str, Callable[[], float]],
    seconds: float,
    clock: Callable[[], float],
    *,
    keep: Sequence[str] = (),
    samples: int = 200,
) -> dict[str, Timing]:
    """Time candidates in turn until time is over or each left has enough samples.

    A candidate runs once a call and returns nanoseconds. One whose interval is wholly above the
    best one's is timed no further, except those to `keep`. Every candidate gets one round at least.
    """
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    alive, end = list(candidates), clock() + seconds
    for name in candidates:
        for _ in range(WARM_UP):
            candidates[name]()
    while alive:
        for name in alive:
            taken[name] += [candidates[name]() for _ in range(ROUND)]
        timings = {name: summarize(found) for name, found in taken.items()}
        best = min(timings[name].high for name in alive)
        alive = [n for n in alive if n in keep or timings[n].low <= best]
        if clock() >= end or all(len(taken[name]) >= samples for name in alive):
            return timings
    return {}
