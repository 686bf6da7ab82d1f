"""Stream policies that cover a graph with chains, so that independent nodes never share a stream.

Where there are fewer streams than chains, chains are folded together.
"""

from collections.abc import Sequence

import numpy as np

from compiler.scheduling.policies.assignment import STREAM_ASSIGNMENTS, Assignment
from compiler.scheduling.policies.ordering import order_critical_path
from compiler.support.dag import DAG


def opara_chains(dag: DAG) -> list[int]:
    """Opara (IEEE TC 2024), Algorithm 1: the chain of each node, numbered from 0, in O(n + e).

    A node continues the chain of its first predecessor that nobody has continued yet; otherwise
    it starts one. Every chain is a path, so independent nodes never share one.
    """
    continued = [False] * len(dag)
    chain_of: list[int] = []
    chains = 0
    for predecessors in dag.predecessors:
        free = next((u for u in predecessors if not continued[u]), None)
        if free is None:
            chain_of.append(chains)
            chains += 1
        else:
            continued[free] = True
            chain_of.append(chain_of[free])
    return chain_of


def fold(dag: DAG, chain_of: Sequence[int], streams: int) -> list[int]:
    """A stream for each node, the same along a chain, in O(n log n + e + chains * streams).

    Each chain goes where its first node can start earliest: where its last node is one that it
    waits for anyway, for instance. Of several such streams it takes the one with the least work
    so far. Times are those of a list schedule that follows the critical path.
    """
    stream_of_chain: dict[int, int] = {}
    finish = [0] * len(dag)
    free = np.zeros(streams, np.int64)
    load = np.zeros(streams, np.int64)
    for v in order_critical_path(dag, ()):
        ready = max((finish[u] for u in dag.predecessors[v]), default=0)
        if chain_of[v] not in stream_of_chain:
            starts = np.maximum(free, ready)
            earliest = np.flatnonzero(starts == starts.min())
            stream_of_chain[chain_of[v]] = int(earliest[load[earliest].argmin()])
        stream = stream_of_chain[chain_of[v]]
        finish[v] = max(ready, int(free[stream])) + dag.costs[v]
        free[stream] = finish[v]
        load[stream] += dag.costs[v]
    return [stream_of_chain[chain] for chain in chain_of]


@STREAM_ASSIGNMENTS.register("opara")
def assign_opara(dag: DAG, streams: int) -> Assignment:
    """Opara's chains (`opara_chains`), folded down to `streams`."""
    return Assignment(fold(dag, opara_chains(dag), streams))
