"""The simulator's inner loop, compiled by numba: import it only where a simulation is run.

Plain arrays of numbers in and out; `compiler.scheduling.simulator` says what they mean. Where numba
cannot be imported, Python runs the same functions, after a warning.
"""

import warnings
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from compiler.caches import cache_directory, writable
from compiler.scheduling.arrays import Floats, Integers

_Function = TypeVar("_Function", bound=Callable[..., object])


def _numba() -> Any:
    """The module; None, after a warning, where it cannot be imported."""
    try:
        import numba

        return numba
    except ImportError as error:
        message = f"numba cannot be imported ({error}): simulations take about 100 times as long"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None


COMPILER = _numba()
CACHE = (COMPILER is not None and COMPILER.config.CACHE_DIR) or cache_directory("numba")
"""Where machine code is kept: NUMBA_CACHE_DIR, or a part of Flowloom's own cache."""
CACHED = COMPILER is not None and writable(CACHE and Path(CACHE))


def compiled(function: _Function) -> _Function:
    """Compile a function to machine code at its first call; later processes find it on disk.

    Numba asks where its cache is when it decorates, and other users of numba have theirs elsewhere.
    """
    if COMPILER is None:
        return function
    settings, before = COMPILER.config, COMPILER.config.CACHE_DIR
    settings.CACHE_DIR = str(CACHE) if CACHED else before
    try:
        return COMPILER.njit(cache=CACHED)(function)
    finally:
        settings.CACHE_DIR = before


@compiled
def successors(edges: Integers, count: int) -> tuple[Integers, Integers]:
    """Each task's successors: task v's are `targets[first[v]:first[v + 1]]`."""
    first = np.zeros(count + 1, np.int64)
    for row in range(len(edges)):
        first[edges[row, 0] + 1] += 1
    for task in range(count):
        first[task + 1] += first[task]
    place, targets = first.copy(), np.empty(len(edges), np.int64)
    for row in range(len(edges)):
        targets[place[edges[row, 0]]] = edges[row, 1]
        place[edges[row, 0]] += 1
    return first, targets


@compiled
def stream_edges(streams: Integers, order: Integers) -> Integers:
    """The edges between tasks that follow each other on a stream."""
    last = np.full(streams.max() + 1 if len(streams) else 0, -1, np.int64)
    edges, count = np.empty((len(order), 2), np.int64), 0
    for position in range(len(order)):
        task = order[position]
        before = last[streams[task]]
        if before >= 0:
            edges[count, 0], edges[count, 1] = before, task
            count += 1
        last[streams[task]] = task
    return edges[:count]


@compiled
def foreign(first: Integers, targets: Integers, streams: Integers) -> Integers:
    """For how many tasks on other streams each task waits."""
    found = np.zeros(len(streams), np.int64)
    for task in range(len(streams)):
        for edge in range(first[task], first[task + 1]):
            found[targets[edge]] += streams[targets[edge]] != streams[task]
    return found


@compiled
def set_speeds(running: Integers, count: int, demands: Floats, speed: Floats) -> None:
    """How fast each running task goes, 1 being its speed alone; oldest first.

    `demands` has three rows. Block slots are granted first come, first served. Then each task
    suffers from the others' interference, or all alike from overdrawn bandwidth if that is worse.
    """
    left, interference, traffic = 1.0, 0.0, 0.0
    for i in range(count):
        task = running[i]
        speed[i] = min(1.0, left / demands[0, task])
        left = max(0.0, left - demands[0, task])
        interference += speed[i] * demands[1, task]
        traffic += speed[i] * demands[2, task]
    for i in range(count):
        others = interference - speed[i] * demands[1, running[i]]
        speed[i] /= max(1.0 + others, traffic)


@compiled
def next_end(left: Floats, speed: Floats, count: int) -> tuple[float, int]:
    """Time until the first running task ends, and its place among them."""
    shortest, place = np.inf, -1
    for i in range(count):
        if speed[i] > 0.0 and left[i] / speed[i] < shortest:
            shortest, place = left[i] / speed[i], i
    return shortest, place


@compiled
def remove(place: int, running: Integers, left: Floats, count: int) -> int:
    """Take a task from those that run; returns it."""
    task = running[place]
    for i in range(place, count - 1):
        running[i], left[i] = running[i + 1], left[i + 1]
    return task


@compiled
def simulate(
    costs: Floats,
    demands: Floats,
    first: Integers,
    targets: Integers,
    streams: Integers,
    rank: Integers,
    release: Floats,
    delay: Floats,
    gap: float,
    awaited: float,
) -> tuple[Floats, Floats]:
    """Start and end of every task; infinite for tasks that wait for each other in a cycle."""
    count = len(costs)
    start, end = np.full(count, np.inf), np.full(count, np.inf)
    waiting, ready = np.bincount(targets, minlength=count), release.copy()
    issue = gap + awaited * foreign(first, targets, streams)
    starts = [(ready[task] + delay[task], rank[task], task) for task in range(0)]  # typed for numba
    for task in range(count):
        if waiting[task] == 0:
            heappush(starts, (ready[task] + delay[task], rank[task], task))
    running, speed, left = np.empty(count, np.int64), np.empty(count), np.empty(count)
    alive, now, issued = 0, 0.0, -np.inf
    while len(starts) or alive:
        set_speeds(running, alive, demands, speed)
        until_end, place = next_end(left, speed, alive)
        until_start = (
            max(now, starts[0][0], issued + issue[starts[0][2]]) - now if len(starts) else np.inf
        )
        passed = min(until_end, until_start)
        for i in range(alive):
            left[i] -= passed * speed[i]
        now += passed
        if until_start < until_end:
            task = heappop(starts)[2]
            start[task] = issued = now
            running[alive], left[alive] = task, costs[task]
            alive += 1
            continue
        task = remove(place, running, left, alive)
        end[task], alive = now, alive - 1
        for edge in range(first[task], first[task + 1]):
            other = targets[edge]
            ready[other] = max(ready[other], now)
            waiting[other] -= 1
            if waiting[other] == 0:
                heappush(starts, (ready[other] + delay[other], rank[other], other))
    return start, end
