"""Policies that give every partition of a graph a stream; importing this registers all of them."""

from heapq import heappop, heappush, heapreplace
from itertools import groupby

from compiler.scheduling.policies import chains, ios, nimble, optimal
from compiler.scheduling.policies.assignment import STREAM_ASSIGNMENTS, Assignment
from compiler.scheduling.policies.list_schedule import WAIT_NS
from compiler.scheduling.policies.ordering import order_critical_path
from compiler.support.dag import DAG, critical_path

__all__ = ["STREAM_ASSIGNMENTS", "chains", "ios", "nimble", "optimal"]


@STREAM_ASSIGNMENTS.register("sequential")
def assign_sequential(dag: DAG, streams: int) -> Assignment:
    """Everything on stream 0: the baseline of every comparison."""
    del streams
    return Assignment([0] * len(dag))


@STREAM_ASSIGNMENTS.register("ppd")
def assign_ppd(dag: DAG, streams: int) -> Assignment:
    """PPD (ACM TODAES 31(2) art. 20), Algorithm 2: round robin in breadth-first order, O(n + e).

    The search starts at all sources at once; a node's stream is the number of nodes visited
    before it, modulo `streams`, so no other folding is needed.
    """
    queue = [v for v, predecessors in enumerate(dag.predecessors) if not predecessors]
    seen = set(queue)
    for u in queue:
        fresh = [v for v in dag.successors[u] if v not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    stream_of = [0] * len(dag)
    for count, v in enumerate(queue):
        stream_of[v] = count % streams
    return Assignment(stream_of)


@STREAM_ASSIGNMENTS.register("wavefront")
def assign_wavefront(dag: DAG, streams: int) -> Assignment:
    """Rammer (OSDI 2020), Algorithm 1 without its persistent threads: a stage for each wave.

    A wave holds the nodes of one depth. Its nodes go to the stream that is free first, longest
    first (Graham's LPT, 1969). O(n log n + e).
    """
    depths = dag.depths()
    order = sorted(range(len(dag)), key=lambda v: (depths[v], -dag.costs[v], v))
    stream_of = [0] * len(dag)
    for _, members in groupby(order, depths.__getitem__):
        wave = list(members)
        free = [(0, stream) for stream in range(min(streams, len(wave)))]
        for v in wave:
            time, stream_of[v] = free[0]
            heapreplace(free, (time + dag.costs[v], stream_of[v]))
    return Assignment(stream_of, depths, order)


@STREAM_ASSIGNMENTS.register("critical-path")
def assign_critical_path(dag: DAG, streams: int) -> Assignment:
    """HEFT (Topcuoglu et al., IEEE TPDS 13(3), 2002), with the critical path kept on stream 0.

    Nodes come by upward rank (cost of the longest path to the end); each goes where it ends first,
    with `WAIT_NS` for a predecessor elsewhere. The critical path stays together, as in the same
    paper's CPOP. Only streams of predecessors and the idlest one can be best: O(n log n + e).
    """
    pinned = set(critical_path(dag.costs, dag.successors))
    order = order_critical_path(dag, ())
    stream_of = [0] * len(dag)
    finish = [0] * len(dag)
    free = [0] * streams
    idle = [(0, stream) for stream in range(streams)]
    for v in order:
        # The heap keeps older times of a stream: only its latest counts.
        while idle[0][0] != free[idle[0][1]]:
            heappop(idle)
        ready = _ready_times(dag, v, stream_of, finish)
        options = [0] if v in pinned else [*(s for s in ready if s >= 0), idle[0][1]]
        starts = [(max(free[s], ready.get(s, ready[ANYWHERE])), -free[s], s) for s in options]
        start, _, stream_of[v] = min(starts)
        finish[v] = free[stream_of[v]] = start + dag.costs[v]
        heappush(idle, (finish[v], stream_of[v]))
    return Assignment(stream_of, order=order)


ANYWHERE = -1
"""Stands for the streams that no predecessor is on."""


def _ready_times(dag: DAG, v: int, stream_of: list[int], finish: list[int]) -> dict[int, int]:
    """When a node can start on the stream of each predecessor, and `ANYWHERE` else."""
    ends: dict[int, int] = {}
    for u in dag.predecessors[v]:
        ends[stream_of[u]] = max(ends.get(stream_of[u], 0), finish[u])
    # Of the streams other than a given one, the last to end is among the last two of all.
    first, second = (*sorted(((end, s) for s, end in ends.items()), reverse=True)[:2], *_NEVER)[:2]
    ready = {ANYWHERE: first[0] + WAIT_NS if ends else 0}
    for stream, end in ends.items():
        elsewhere = second if stream == first[1] else first
        ready[stream] = max(end, elsewhere[0] + WAIT_NS if elsewhere[1] != ANYWHERE else 0)
    return ready


_NEVER = ((0, ANYWHERE), (0, ANYWHERE))
