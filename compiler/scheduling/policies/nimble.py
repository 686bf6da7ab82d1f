"""Nimble's streams: full concurrency with the fewest waits."""

from collections.abc import Sequence

from compiler.errors import PipelineError
from compiler.scheduling.policies.assignment import STREAM_ASSIGNMENTS, Assignment
from compiler.scheduling.policies.chains import fold
from compiler.support.dag import DAG, descendants, transitive_reduction

FREE = -1
"""The partner of a node that is not matched."""


def maximum_matching(neighbours: Sequence[Sequence[int]], right: int) -> list[int]:
    """A maximum matching: each left node's partner among `right` right ones, or `FREE`.

    Hopcroft and Karp (SIAM J. Comput. 2(4), 1973), in O(edges * sqrt(nodes)).
    """
    left_of = [FREE] * right
    partner = [FREE] * len(neighbours)
    while True:
        # The length of the shortest alternating path from a free left node to each left node.
        layers = [0 if matched == FREE else FREE for matched in partner]
        queue = [u for u, layer in enumerate(layers) if layer == 0]
        for u in queue:
            for v in neighbours[u]:
                if (w := left_of[v]) != FREE and layers[w] == FREE:
                    layers[w] = layers[u] + 1
                    queue.append(w)
        next_edge = [0] * len(neighbours)
        roots = [u for u, matched in enumerate(partner) if matched == FREE]
        if not sum(_augment(u, neighbours, (partner, left_of), layers, next_edge) for u in roots):
            return partner


def _augment(
    root: int,
    neighbours: Sequence[Sequence[int]],
    matching: tuple[list[int], list[int]],
    layers: Sequence[int],
    next_edge: list[int],
) -> bool:
    """Flip a shortest augmenting path from a free node, found depth first; False without one."""
    partner, left_of = matching
    path: list[int] = []
    stack = [root]
    while stack:
        u = stack[-1]
        if next_edge[u] == len(neighbours[u]):
            stack.pop()
            if path:
                path.pop()
            continue
        v = neighbours[u][next_edge[u]]
        next_edge[u] += 1
        if left_of[v] == FREE:
            for node, mate in zip(stack, [*path, v], strict=True):
                partner[node] = mate
                left_of[mate] = node
            return True
        if layers[left_of[v]] == layers[u] + 1:
            path.append(v)
            stack.append(left_of[v])
    return False


MOST_NODES = 10_000
"""The transitive reduction takes O(n * e / 64) time and O(n * n / 8) bytes."""


def nimble_chains(dag: DAG) -> list[int]:
    """Nimble (NeurIPS 2020), Algorithm 1: the chain of each node, numbered from 0.

    A maximum matching M of the minimum equivalent graph's edges links nodes to chains; then each
    node waits for all but one of its predecessors: |edges| - |M| waits, the fewest of any streams
    that keep independent nodes apart. O(n * e / 64 + e * sqrt(n)).
    """
    reduced = transitive_reduction(dag)
    return _numbered(maximum_matching(reduced.successors, len(dag)))


def _numbered(following: Sequence[int]) -> list[int]:
    """A number for each maximal path of successors, in the order of the paths' first nodes."""
    chain_of = [FREE] * len(following)
    chains = 0
    for v, successor in enumerate(following):
        if chain_of[v] == FREE:
            chain_of[v] = chains
            chains += 1
        if successor != FREE:
            chain_of[successor] = chain_of[v]
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
