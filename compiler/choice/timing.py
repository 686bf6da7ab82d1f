"""Medians with confidence intervals, and the timing of several candidates within a budget."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt
from statistics import median

from compiler.schedule.choices import Timing

MOST_SECONDS = 1.0
"""The longest run of a candidate; it is interrupted, and the candidate left out."""

WARM_UP = 3
"""Runs of each candidate that are not counted."""

QUICK_NS = 20e6
"""A run that takes less may be repeated a few times, however little time there is."""

ROUND = 5
"""Samples taken of each candidate before the next one's turn, so that drift hits all alike."""


def summarize(samples: Sequence[float]) -> Timing:
    """The median and its interval by order statistics, which assume no distribution."""
    ordered = sorted(samples)
    count = len(samples)
    # ranks of a binomial's 95 %: 1.96 standard deviations, each of half the root of the count
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
    """Time candidates in turn until time is over or each that remains has enough samples.

    A candidate runs once a call and returns nanoseconds. One whose interval is wholly above the
    best one's is timed no further, except those to `keep`, which come first. Quick candidates get
    a round each, however little time there is. One that is not, and whose first run alone takes its
    share of the time, is not run again, and once time is over none is begun: a run of a minute is
    not repeated eight times for each of ten schedules.
    """
    end = clock() + seconds
    first: dict[str, float] = {}
    for name in sorted(candidates, key=lambda name: name not in keep):
        if name in keep or clock() < end or max(first.values(), default=0.0) < QUICK_NS:
            first[name] = candidates[name]()
    share = max(QUICK_NS, 1e9 * seconds / max(1, len(candidates)))
    alive: list[str] = [name for name in candidates if first.get(name, inf) < share]
    for name in alive:
        for _ in range(WARM_UP - 1):
            candidates[name]()
    times_of: dict[str, list[float]] = {name: [] for name in alive}
    while alive:
        round_seconds = sum(first[name] for name in alive) / 1e9
        runs = max(1, min(ROUND, int((end - clock()) / round_seconds))) if round_seconds else ROUND
        for name in alive:
            times_of[name] += [candidates[name]() for _ in range(runs)]
        timings = {name: summarize(times) for name, times in times_of.items()}
        best = min(timings[name].high for name in alive)
        alive = [n for n in alive if n in keep or timings[n].low <= best]
        if clock() >= end or all(len(times_of[name]) >= samples for name in alive):
            break
    return {n: summarize(times_of.get(n, [first[n]])) for n in candidates if n in first}
