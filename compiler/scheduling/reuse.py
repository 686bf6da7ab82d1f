"""Weights that several nodes read: an order and streams that keep them in a core's own cache.

A recurrence reads its weights at every step. Where two take turns, the cache holds those of both or
of neither, and the weights come from the cache that cores share.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.scheduling.placement import Placement
from compiler.support.dag import DAG, depth_first_order, subgraph

Reads = Sequence[Mapping[str, int]]
"""The weights that each node reads, by name, and their bytes."""

KEPT, LOST = 0.7, 1.4
"""The bytes read from one use of a weight to the next, in sizes of the cache, up to which all of it
is found there, and from which on none is; measured on a Zen 5."""

TEAM = 2
"""The fewest cores that can share the blocks of a node, and so have parts of its weights."""

SHARED_BYTES = 1 << 20
"""The least bytes of each read that must be found in the caches of a team, not of one core, before
its cores share each node: 0.6 us a step for waiting for each other and for work not shared."""


def missed_bytes(order: Sequence[int], reads: Reads, cache_bytes: int) -> float:
    """The bytes of weights that nodes in some order do not find in a cache, by reuse distance."""
    recent: OrderedDict[str, int] = OrderedDict()
    missed = 0.0
    for name, nbytes in ((name, n) for v in order for name, n in reads[v].items()):
        distance = float("inf")
        if name in recent:
            # counted no further than where nothing of the weight is left in the cache
            distance = 0
            for weight in reversed(recent):
                distance += recent[weight]
                if weight == name or distance >= LOST * cache_bytes:
                    break
        missed += nbytes * min(1.0, max(0.0, ((distance / cache_bytes) - KEPT) / (LOST - KEPT)))
        recent[name] = nbytes
        recent.move_to_end(name)
    return missed


def keep_weights(dag: DAG, placement: Placement, reads: Reads, caches: Sequence[int]) -> Placement:
    """Order nodes, and bring streams together, so that fewer bytes of weights are missed.

    The first cache is a core's, and decides; larger ones do where it misses the same. Nodes that
    share no weights, have stages or are in partitions together stay as they are.
    """
    if not _shared(reads) or _is_bound(placement):
        return placement
    order = placement.order
    deep = [order[position] for position in depth_first_order(subgraph(dag, order))]
    streams = _teamed(placement, deep, reads, caches[0])
    missed, missed_deep = ([missed_bytes(o, reads, size) for size in caches] for o in (order, deep))
    if missed <= missed_deep and streams == list(placement.streams):
        return placement
    return replace(placement, order=deep, streams=streams)


def _is_bound(placement: Placement) -> bool:
    """Whether partitions of several nodes, or stages, decide the order."""
    partitions = [number for number in placement.partitions if number is not None]
    return len(set(partitions)) < len(partitions) or any(s is not None for s in placement.stages)


def _shared(reads: Reads) -> set[str]:
    """The weights that several nodes read."""
    counts = Counter(name for read in reads for name in read)
    return {name for name, count in counts.items() if count > 1}


def _teamed(
    placement: Placement, order: Sequence[int], reads: Reads, cache_bytes: int
) -> list[int | None]:
    """The streams, those in one that share weights and gain by a team of cores for each node.

    A core of a team reads its part of each node's weights: its cache is as if it were larger.
    """
    shared = _shared(reads)
    readers = [v for v in order if not shared.isdisjoint(reads[v])]
    merged = {placement.streams[v] for v in readers}
    streams = list(placement.streams)
    if len(merged) < TEAM or None in merged:
        return streams
    by_stream = ([v for v in readers if streams[v] == stream] for stream in merged)
    missed_apart = sum(missed_bytes(nodes, reads, cache_bytes) for nodes in by_stream)
    gain = missed_apart - missed_bytes(readers, reads, TEAM * cache_bytes)
    if gain < SHARED_BYTES * len(readers):
        return streams
    first = min(stream for stream in merged if stream is not None)
    return [first if stream in merged else stream for stream in streams]
