"""Policies that give every unit of a graph a stream."""

from collections.abc import Callable

from compiler.analysis.graph import DAG
from compiler.analysis.registry import Registry

StreamAssignment = Callable[[DAG, int], list[int]]
"""Gives each node a stream from 0 to less than the second argument, the number of streams."""

STREAM_ASSIGNMENTS: Registry[StreamAssignment] = Registry("stream")
"""Every known policy by its name."""


@STREAM_ASSIGNMENTS.register("sequential")
def assign_sequential(dag: DAG, streams: int) -> list[int]:
    """Everything on stream 0: the baseline of every comparison."""
    del streams
    return [0] * len(dag)


@STREAM_ASSIGNMENTS.register("ppd")
def assign_ppd(dag: DAG, streams: int) -> list[int]:
    """PPD (ACM TODAES 31(2) art. 20), Algorithm 2: round robin in breadth-first order.

    The search starts at all sources at once; a node's stream is the number of nodes visited
    before it, modulo `streams`, so no other folding is needed.
    """
    queue = [v for v, before in enumerate(dag.predecessors) if not before]
    seen = set(queue)
    for u in queue:
        fresh = [v for v in dag.successors[u] if v not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    stream_of = [0] * len(dag)
    for count, v in enumerate(queue):
        stream_of[v] = count % streams
    return stream_of


def opara_chains(dag: DAG) -> list[int]:
    """Opara (IEEE TC 2024), Algorithm 1: the chain of each node, numbered from 0, in O(n + e).

    A node continues the chain of its first predecessor that nobody has continued yet; otherwise
    it starts one. Every chain is a path, so independent nodes never share one.
    """
    continued = [False] * len(dag)
    chain_of: list[int] = []
    chains = 0
    for before in dag.predecessors:
        free = next((u for u in before if not continued[u]), None)
        if free is None:
            chain_of.append(chains)
            chains += 1
        else:
            continued[free] = True
            chain_of.append(chain_of[free])
    return chain_of


@STREAM_ASSIGNMENTS.register("opara")
def assign_opara(dag: DAG, streams: int) -> list[int]:
    """Opara's chains, folded down to `streams`.

    A chain starts on an empty stream while there is one; then on a stream whose last node its
    first node waits for anyway (the one that finished most work); otherwise on the stream with the
    least work so far. Stream order counts as waiting, since launches follow the node order.
    """
    chain_of = opara_chains(dag)
    stream_of_chain: dict[int, int] = {}
    stream_of: list[int] = []
    tail = [-1] * streams
    load = [0] * streams
    clocks: list[list[int]] = []
    for v, chain in enumerate(chain_of):
        clock = _join([clocks[u] for u in dag.predecessors[v]], streams)
        if chain not in stream_of_chain:
            stream_of_chain[chain] = _stream_for(clock, tail, load)
        stream = stream_of_chain[chain]
        if tail[stream] >= 0:
            clock = _join([clock, clocks[tail[stream]]], streams)
        clock[stream] = tail[stream] = v
        load[stream] += dag.costs[v]
        clocks.append(clock)
        stream_of.append(stream)
    return stream_of


def _join(clocks: list[list[int]], streams: int) -> list[int]:
    """For each stream the last node that is known to have finished."""
    return (
        list(map(max, *clocks))
        if len(clocks) > 1
        else list(clocks[0])
        if clocks
        else [-1] * streams
    )


def _stream_for(clock: list[int], tail: list[int], load: list[int]) -> int:
    streams = range(len(tail))
    if -1 in tail:
        return tail.index(-1)
    waited = [s for s in streams if clock[s] == tail[s]]
    if waited:
        return max(waited, key=load.__getitem__)
    return min(streams, key=load.__getitem__)
