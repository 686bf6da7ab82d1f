"""Nimble's streams: full concurrency with the fewest waits."""

from collections.abc import Sequence

from compiler.errors import PipelineError
from compiler.scheduling.policies.assignment import STREAM_ASSIGNMENTS, Assignment
from compiler.scheduling.policies.chains import fold
from compiler.scheduling.policies.matching import FREE, maximum_matching
from compiler.support.dag import DAG, descendants, transitive_reduction

MOST_NODES = 10_000
"""The transitive reduction takes O(n * e / 64) time and O(n * n / 8) bytes."""


def nimble_chains(dag: DAG) -> list[int]:
    """Nimble (NeurIPS 2020), Algorithm 1: the chain of each node, numbered from 0.

    A maximum matching M of the minimum equivalent graph's edges links nodes to chains; then each
    node waits for all but one of those it must: |edges| - |M| waits, the fewest of any streams
    that keep independent nodes apart. O(n * e / 64 + e * sqrt(n)).
    """
    reduced = transitive_reduction(dag)
    return _numbered(maximum_matching(reduced.successors, len(dag)))


def _numbered(following: Sequence[int]) -> list[int]:
    """A number for each maximal path of successors, in the order of the paths' first nodes."""
    chain_of = [FREE] * len(following)
    chains = 0
    for v, after in enumerate(following):
        if chain_of[v] == FREE:
            chain_of[v] = chains
            chains += 1
        if after != FREE:
            chain_of[after] = chain_of[v]
    return chain_of


def merged_chains(dag: DAG, chain_of: Sequence[int]) -> list[int]:
    """The same chains linked end to start where a path leads there: fewer streams, no new wait.

    A second maximum matching makes them as few as linking can.
    """
    members: list[list[int]] = [[] for _ in range(1 + max(chain_of, default=-1))]
    for v, chain in enumerate(chain_of):
        members[chain].append(v)
    starts = {nodes[0]: chain for chain, nodes in enumerate(members)}
    reached = descendants(dag)
    mask = sum(1 << v for v in starts)
    later = [[starts[v] for v in _bits(reached[nodes[-1]] & mask)] for nodes in members]
    linked = _numbered(maximum_matching(later, len(members)))
    return [linked[chain] for chain in chain_of]


def _bits(mask: int) -> list[int]:
    bits: list[int] = []
    while mask:
        low = mask & -mask
        bits.append(low.bit_length() - 1)
        mask ^= low
    return bits


@STREAM_ASSIGNMENTS.register("nimble")
def assign_nimble(dag: DAG, streams: int) -> Assignment:
    """Nimble's chains, merged where that adds no wait, and folded down to `streams`.

    At most `MOST_NODES` nodes; raises PipelineError beyond.
    """
    if len(dag) > MOST_NODES:
        raise PipelineError(
            f"nimble handles at most {MOST_NODES} nodes, and there are {len(dag)}: run partition"
            " before it, or use policy=opara, which needs linear time"
        )
    return Assignment(fold(dag, merged_chains(dag, nimble_chains(dag)), streams))
