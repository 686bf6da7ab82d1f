"""Changes of a schedule on plain arrays, and its simulated time: the local search's inner loop.

Compiled by numba: import it only where a search is run. A state is three arrays: `order`, the
tasks by place; `streams`, by task; `fused`, by place: whether its task is in the partition of the
previous task. The DAG is `predecessors`: task v's are `sources[first[v]:first[v + 1]]`.
"""

import numpy as np

from compiler.scheduling.arrays import Booleans, Floats, Integers
from compiler.scheduling.event_loop import compiled, simulate, stream_edges, successors


@compiled
def partition_ends(fused: Booleans) -> tuple[Integers, Integers]:
    """The first and the last place of the partition that each place is in."""
    count = len(fused)
    head, tail = np.arange(count), np.arange(count)
    for place in range(1, count):
        if fused[place]:
            head[place] = head[place - 1]
    for place in range(count - 2, -1, -1):
        if fused[place + 1]:
            tail[place] = tail[place + 1]
    return head, tail


@compiled
def awaited_places(
    begin: int,
    order: Integers,
    place_of: Integers,
    ends: tuple[Integers, Integers],
    first: Integers,
    sources: Integers,
) -> Integers:
    """The last places of the partitions that the one from a place on needs, descending."""
    head, tail = ends
    found = [begin for _ in range(0)]  # typed for numba
    for place in range(begin, tail[begin] + 1):
        task = order[place]
        for index in range(first[task], first[task + 1]):
            before = place_of[sources[index]]
            if head[before] != begin:
                found.append(int(tail[before]))
    return np.sort(np.array(found, np.int64))[::-1]


@compiled
def kept_edges(
    order: Integers, streams: Integers, fused: Booleans, first: Integers, sources: Integers
) -> Integers:
    """The waits that `elide-sync` leaves, as pairs of tasks: by vector clocks, in launch order."""
    count, width = len(order), streams.max() + 1
    ends, place_of = partition_ends(fused), np.empty(count, np.int64)
    for place in range(count):
        place_of[order[place]] = place
    clocks, sequence = np.zeros((count, width), np.int32), np.zeros(count, np.int32)
    last = np.full(width, -1, np.int64)
    edges, kept = np.empty((len(sources), 2), np.int64), 0
    for place in range(count):
        stream, known = streams[order[place]], clocks[place]
        if last[stream] >= 0:
            known[:] = clocks[last[stream]]
        if not fused[place]:
            for before in awaited_places(place, order, place_of, ends, first, sources):
                if known[streams[order[before]]] < sequence[before]:
                    edges[kept, 0], edges[kept, 1] = order[before], order[place]
                    kept += 1
                    np.maximum(known, clocks[before], known)
        known[stream] += 1
        sequence[place] = known[stream]
        last[stream] = place
    return edges[:kept]


@compiled
def run_time(
    order: Integers,
    streams: Integers,
    edges: Integers,
    tasks: tuple[Floats, Floats, Floats],
    latencies: tuple[float, float, float],
) -> tuple[float, float]:
    """The makespan as one graph, in ns, and the mean end of all tasks; infinite for a cycle."""
    count, (costs, demands, delays) = len(order), tasks
    graph, gap, awaited = latencies
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    pairs = np.concatenate((edges, stream_edges(streams, order)))
    first, targets = successors(pairs, count)
    release = np.full(count, graph)
    _, end = simulate(costs, demands, first, targets, streams, rank, release, delays, gap, awaited)
    return end.max(), end.mean()


@compiled
def legal_places(
    begin: int,
    order: Integers,
    fused: Booleans,
    before: tuple[Integers, Integers],
    after: tuple[Integers, Integers],
) -> tuple[int, int]:
    """The first and the last place that the partition which begins at a place may take."""
    count = len(order)
    ends, place_of = partition_ends(fused), np.empty(count, np.int64)
    for place in range(count):
        place_of[order[place]] = place
    head, tail = ends
    low, high = 0, count - 1
    for place in range(begin, tail[begin] + 1):
        task = order[place]
        for index in range(before[0][task], before[0][task + 1]):
            other = place_of[before[1][index]]
            if head[other] != begin:
                low = max(low, int(tail[other]) + 1)
        for index in range(after[0][task], after[0][task + 1]):
            other = place_of[after[1][index]]
            if head[other] != begin:
                high = min(high, int(head[other]) - 1)
    return low, high


@compiled
def shift(begin: int, end: int, target: int, order: Integers, fused: Booleans) -> None:
    """Move the partition from begin to end so that it begins, or ends if later, at the target."""
    tasks, flags, size = (
        order[begin : end + 1].copy(),
        fused[begin : end + 1].copy(),
        end + 1 - begin,
    )
    if target < begin:
        order[target + size : end + 1] = order[target:begin].copy()
        fused[target + size : end + 1] = fused[target:begin].copy()
        start = target
    else:
        order[begin : target + 1 - size] = order[end + 1 : target + 1].copy()
        fused[begin : target + 1 - size] = fused[end + 1 : target + 1].copy()
        start = target + 1 - size
    order[start : start + size], fused[start : start + size] = tasks, flags


@compiled
def change(
    dice: Integers,
    width: int,
    state: tuple[Integers, Integers, Booleans],
    before: tuple[Integers, Integers],
    after: tuple[Integers, Integers],
) -> bool:
    """Change a schedule in place by one legal move that four numbers choose; False for none."""
    order, _, fused = state
    count = len(order)
    head, tail = partition_ends(fused)
    place, kind = int(dice[1]) % count, int(dice[0]) % 20
    begin, end = int(head[place]), int(tail[place])
    if kind < 9:
        return change_stream(begin, end, dice, width, state, before)
    if kind < 18:
        low, high = legal_places(begin, order, fused, before, after)
        choices = begin - low + high - end
        if choices == 0:
            return False
        target = low + int(dice[2]) % choices
        if target >= begin:
            target += end + 1 - begin
        snapped = int(head[target]) if target < begin else int(tail[target])
        shift(begin, end, snapped, order, fused)
        return True
    if kind == 18:
        if begin == end:
            return False
        fused[max(place, begin + 1)] = False
        return True
    return merge_next(end, tail, state)


@compiled
def change_stream(
    begin: int,
    end: int,
    dice: Integers,
    width: int,
    state: tuple[Integers, Integers, Booleans],
    before: tuple[Integers, Integers],
) -> bool:
    """Move a partition to any stream, or to that of one of its first task's predecessors."""
    order, streams, _ = state
    task = order[begin]
    known = before[0][task + 1] - before[0][task]
    stream = dice[2] % width
    if known and dice[3] % 2:
        stream = streams[before[1][before[0][task] + dice[2] % known]]
    if stream == streams[task]:
        return False
    for place in range(begin, end + 1):
        streams[order[place]] = stream
    return True


@compiled
def merge_next(end: int, tail: Integers, state: tuple[Integers, Integers, Booleans]) -> bool:
    """Let a partition absorb the next one, on its stream."""
    order, streams, fused = state
    if end + 1 == len(order):
        return False
    for place in range(end + 1, tail[end + 1] + 1):
        streams[order[place]] = streams[order[end]]
    fused[end + 1] = True
    return True


@compiled
def improve(
    chances: Integers,
    width: int,
    state: tuple[Integers, Integers, Booleans],
    before: tuple[Integers, Integers],
    after: tuple[Integers, Integers],
    tasks: tuple[Floats, Floats, Floats],
    latencies: tuple[float, float, float],
) -> tuple[float, int]:
    """Try a move a row of `chances`, in place; those that do not shorten the run are undone.

    Of runs of one length, that whose tasks end earlier on average is kept. Returns the ns of the
    last run and the number of moves kept.
    """
    order, streams, fused = state
    edges = kept_edges(order, streams, fused, before[0], before[1])
    best = run_time(order, streams, edges, tasks, latencies)
    kept = 0
    for step in range(len(chances)):
        saved = order.copy(), streams.copy(), fused.copy()
        if not change(chances[step], width, state, before, after):
            continue
        edges = kept_edges(order, streams, fused, before[0], before[1])
        found = run_time(order, streams, edges, tasks, latencies)
        if found < best:
            best, kept = found, kept + 1
        else:
            order[:], streams[:], fused[:] = saved
    return best[0], kept
