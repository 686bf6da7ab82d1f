"""Policies that give every unit of a graph a stream."""

from collections.abc import Callable

from compiler.analysis.graph import DAG
from compiler.analysis.ordering import order_critical_path
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

    Each chain goes where its first node can start earliest: where its last node is one that it
    waits for anyway, for instance. Of several such streams it takes the one with the least work
    so far. Times are those of a list schedule that follows the critical path.
    """
    chain_of = opara_chains(dag)
    stream_of_chain: dict[int, int] = {}
    finish = [0] * len(dag)
    free, load = [0] * streams, [0] * streams
    for v in order_critical_path(dag, ()):
        ready = max((finish[u] for u in dag.predecessors[v]), default=0)
        if chain_of[v] not in stream_of_chain:
            starts = [(max(ready, time), work) for time, work in zip(free, load, strict=True)]
            stream_of_chain[chain_of[v]] = starts.index(min(starts))
        stream = stream_of_chain[chain_of[v]]
        finish[v] = free[stream] = max(ready, free[stream]) + dag.costs[v]
        load[stream] += dag.costs[v]
    return [stream_of_chain[chain] for chain in chain_of]
