"""Maximum matching in bipartite graphs."""

from collections.abc import Sequence

FREE = -1
"""The partner of a node that is not matched."""


def maximum_matching(neighbours: Sequence[Sequence[int]], right: int) -> list[int]:
    """The partner of each left node among `right` right ones, or `FREE`; as many as possible.

    Hopcroft and Karp (SIAM J. Comput. 2(4), 1973), in O(edges * sqrt(nodes)).
    """
    left_of = [FREE] * right
    partner = [FREE] * len(neighbours)
    while True:
        layers = _layers(neighbours, partner, left_of)
        next_edge = [0] * len(neighbours)
        roots = [u for u, matched in enumerate(partner) if matched == FREE]
        if not sum(_augment(u, neighbours, partner, left_of, layers, next_edge) for u in roots):
            return partner


def _layers(
    neighbours: Sequence[Sequence[int]], partner: Sequence[int], left_of: Sequence[int]
) -> list[int]:
    """The length of the shortest alternating path from a free left node to each left node."""
    layers = [0 if matched == FREE else FREE for matched in partner]
    queue = [u for u, layer in enumerate(layers) if layer == 0]
    for u in queue:
        for v in neighbours[u]:
            if (w := left_of[v]) != FREE and layers[w] == FREE:
                layers[w] = layers[u] + 1
                queue.append(w)
    return layers


def _augment(
    root: int,
    neighbours: Sequence[Sequence[int]],
    partner: list[int],
    left_of: list[int],
    layers: Sequence[int],
    next_edge: list[int],
) -> bool:
    """Flip a shortest augmenting path from a free node, found depth first; False without one."""
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
            for left, mate in zip(stack, [*path, v], strict=True):
                partner[left], left_of[mate] = mate, left
            return True
        if layers[left_of[v]] == layers[u] + 1:
            path.append(v)
            stack.append(left_of[v])
    return False
