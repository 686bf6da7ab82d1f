"""Layered drawing of a graph of tasks: layers by depth, few crossings, straight long edges.

Sugiyama, Tagawa, Toda: Methods for Visual Understanding of Hierarchical System Structures (1981),
with barycentres, and one dummy for each layer that an edge spans.
"""

from collections.abc import Sequence
from itertools import pairwise

from compiler.support.dag import adjacency
from compiler.tools.explore.document import LayoutFact

SWEEPS = 4
"""Passes over all layers that order them, and as many that place them."""

LONGEST_ROUTE = 24
"""An edge over more layers is drawn as a straight line without dummies."""


def drawn(count: int, edges: Sequence[tuple[int, int]]) -> LayoutFact:
    """The places of `count` tasks whose edges go from lower to higher numbers.

    O(sweeps * (tasks + edges * longest route)) but for the sorting.
    """
    # a task's layer is the number of edges of the longest path to it
    layers = [0] * count
    successors = adjacency(count, edges)
    for task in range(count):
        for later in successors[task]:
            layers[later] = max(layers[later], layers[task] + 1)
    # The layer of each task and dummy, the edges between neighbouring layers, and the routes.
    nodes = list(layers)
    links = list[tuple[int, int]]()
    routes = list[list[int]]()
    for source, target in edges:
        between = range(layers[source] + 1, layers[target])
        route: list[int] = []
        if len(between) <= LONGEST_ROUTE:
            route = list(range(len(nodes), len(nodes) + len(between)))
            nodes.extend(between)
            chain = [source, *route, target]
            links.extend(pairwise(chain))
        routes.append(route)
    rows = _rows(nodes)
    above, below = _neighbours(len(nodes), links)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        position: dict[int, float] = {}
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            keys = {node: (_mean(neighbours[node], position, i)) for i, node in enumerate(row)}
            row.sort(key=keys.__getitem__)
            position |= {node: index for index, node in enumerate(row)}
    places = _placed(rows, above, below, count)
    return LayoutFact(
        layers=layers,
        places=[round(x, 2) for x in places[:count]],
        edges=list(edges),
        routes=[[round(places[dummy], 2) for dummy in route] for route in routes],
    )


def _rows(nodes: Sequence[int]) -> list[list[int]]:
    """The nodes of each layer."""
    rows: list[list[int]] = [[] for _ in range(max(nodes, default=-1) + 1)]
    for node, layer in enumerate(nodes):
        rows[layer].append(node)
    return rows


def _neighbours(
    count: int, links: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """The neighbours of each node in the layer above and in the one below."""
    below = adjacency(count, links)
    return adjacency(count, [(target, source) for source, target in links]), below


def _mean(nodes: Sequence[int], position: dict[int, float], default: float) -> float:
    placed = [position[node] for node in nodes if node in position]
    return sum(placed) / len(placed) if placed else default


def _placed(
    rows: Sequence[list[int]],
    above: Sequence[Sequence[int]],
    below: Sequence[Sequence[int]],
    count: int,
) -> list[float]:
    """A place for each node, in the order of its row and near the mean of its neighbours."""
    places = [0.0] * len(above)
    widths = [1.0 if node < count else 0.35 for node in range(len(above))]
    for row in rows:
        _spread(row, [0.0] * len(row), widths, places)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else rows[::-1]:
            near = above if down else below
            means = [_wanted(near[node], places, places[node]) for node in row]
            _spread(row, means, widths, places)
    return places


def _wanted(neighbours: Sequence[int], places: Sequence[float], default: float) -> float:
    if not neighbours:
        return default
    return sum(places[node] for node in neighbours) / len(neighbours)


def _spread(
    row: Sequence[int], means: Sequence[float], widths: Sequence[float], places: list[float]
) -> None:
    """Place a row as near as can be (least squares) to the wanted places, without overlaps.

    Pool adjacent violators: blocks of touching nodes move to the mean of what they want.
    """
    blocks: list[tuple[float, int]] = []
    shift = 0.0
    shifts = list[float]()
    for index, node in enumerate(row):
        if index:
            shift += (widths[row[index - 1]] + widths[node]) / 2
        shifts.append(shift)
        total = means[index] - shift
        size = 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            block = blocks.pop()
            total, size = total + block[0], size + block[1]
        blocks.append((total, size))
    index = 0
    for total, size in blocks:
        for _ in range(size):
            places[row[index]] = total / size + shifts[index]
            index += 1
