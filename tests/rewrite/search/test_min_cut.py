"""The minimum cut against all ways to divide a small network."""

from collections.abc import Iterator
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.rewrite.search.blocks import FlowNetwork

Edge = tuple[int, int, int]


@st.composite
def networks(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    """Two to six nodes, of which the first is the source and the last the sink, and edges."""
    count = draw(st.integers(2, 6))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node, st.integers(0, 4)), max_size=14))


def sides(count: int) -> Iterator[set[int]]:
    """Every set of nodes with the source and without the sink."""
    for size in range(count - 1):
        for others in combinations(range(1, count - 1), size):
            yield {0, *others}


def capacity(side: set[int], edges: list[Edge]) -> int:
    """The capacities of the edges that leave a side."""
    return sum(c for start, end, c in edges if start in side and end not in side)


def cut(count: int, edges: list[Edge]) -> set[int]:
    """The side that the network finds."""
    network = FlowNetwork(count)
    for edge in edges:
        network.add_edge(*edge)
    return network.cut(0, count - 1)


@settings(deadline=None)
@given(networks())
def test_no_side_has_less_capacity_and_none_of_equal_capacity_is_smaller(
    network: tuple[int, list[Edge]],
):
    count, edges = network
    side = cut(count, edges)
    assert 0 in side
    assert count - 1 not in side
    least = min(capacity(other, edges) for other in sides(count))
    assert capacity(side, edges) == least
    best = [other for other in sides(count) if capacity(other, edges) == least]
    assert all(side <= other for other in best)


def test_flow_goes_back_where_the_first_path_was_wrong():
    edges = [(0, 1, 1), (0, 2, 1), (1, 2, 1), (1, 3, 1), (2, 3, 1)]
    assert capacity(cut(4, edges), edges) == 2


def test_a_node_that_is_added_takes_part():
    network = FlowNetwork(2)
    between = network.add_node()
    network.add_edge(0, between, 3)
    network.add_edge(between, 1, 2)
    assert network.cut(0, 1) == {0, between}
