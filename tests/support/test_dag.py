"""Plain graphs against slow definitions."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.support.dag import (
    DAG,
    descendants,
    is_order,
    quotient,
    runs,
    subgraph,
    topological_order,
    transitive_reduction,
)
from tests.strategies import dags


def closure(dag: DAG) -> np.ndarray:
    """Reachability by repeated squaring."""
    reach = np.zeros((len(dag), len(dag)), dtype=bool)
    for u, v in dag.edges:
        reach[u, v] = True
    for _ in range(len(dag).bit_length()):
        reach |= reach @ reach
    return reach


def paths(dag: DAG, start: int) -> list[list[int]]:
    """Every path from a node to any node."""
    found = [[start]]
    for path in found:
        found.extend([*path, v] for v in dag.successors[path[-1]])
    return found


def cost(dag: DAG, path: list[int]) -> int:
    """The cost of a path's nodes."""
    return sum(dag.costs[v] for v in path)


@settings(max_examples=50, deadline=None)
@given(dags(12))
def test_reachability(dag: DAG):
    reach = closure(dag)
    sets = descendants(dag)
    for u in range(len(dag)):
        for v in range(len(dag)):
            assert reach[u, v] == bool(sets[u] >> v & 1)


@settings(max_examples=50, deadline=None)
@given(dags(9))
def test_longest_paths(dag: DAG):
    every = [path for v in range(len(dag)) for path in paths(dag, v)]
    cost = [sum(dag.costs[v] for v in path) for path in every]
    for v in range(len(dag)):
        assert dag.upward_ranks()[v] == max(
            c for p, c in zip(every, cost, strict=True) if p[0] == v
        )
        assert dag.finish_times()[v] == max(
            c for p, c in zip(every, cost, strict=True) if p[-1] == v
        )
        assert dag.depths()[v] == max(len(p) for p in every if p[-1] == v) - 1
    assert dag.longest_path() == max(cost)


@settings(max_examples=50, deadline=None)
@given(dags(12))
def test_transitive_reduction_reaches_the_same_and_needs_every_edge(dag: DAG):
    reduced = transitive_reduction(dag)
    assert (closure(reduced) == closure(dag)).all()
    edges = list(reduced.edges)
    for edge in edges:
        without = DAG.from_edges(dag.costs, [e for e in edges if e != edge])
        assert not closure(without)[edge]


@settings(max_examples=50, deadline=None)
@given(dags(12), st.randoms(use_true_random=False))
def test_the_order_takes_the_ready_node_of_least_priority(dag: DAG, random: Random):
    priorities = [random.randrange(3) for _ in range(len(dag))]
    order = topological_order(dag.predecessors, dag.successors, priorities.__getitem__)
    assert is_order(dag, order)
    for i, v in enumerate(order):
        ready = (w for w in order[i:] if not set(dag.predecessors[w]) & set(order[i:]))
        assert v == min(ready, key=lambda w: (priorities[w], w))


def test_nodes_on_a_cycle_have_no_order():
    assert topological_order([[], [2], [1], [0, 2]], [[3], [2], [1, 3], []], float) == [0]


def test_runs_are_neighbours_with_one_label():
    assert runs([1, 1, None, None, 2, 1]) == [range(2), *(range(i, i + 1) for i in (2, 3, 4, 5))]
    assert runs([]) == []


@settings(max_examples=80, deadline=None)
@given(dags(10), st.data())
def test_a_quotient_is_ordered_or_rejected(dag: DAG, data: st.DataObject):
    unit_of = data.draw(st.lists(st.integers(0, 4), min_size=len(dag), max_size=len(dag)))
    reach = np.zeros((5, 5), dtype=bool)
    for u, v in dag.edges:
        reach[unit_of[u], unit_of[v]] |= unit_of[u] != unit_of[v]
    for _ in range(3):
        reach |= reach @ reach
    if reach.diagonal().any():
        with pytest.raises(ValueError, match="cycle"):
            quotient(dag, unit_of)
        return
    units = quotient(dag, unit_of)
    assert is_order(dag, [v for members in units.members for v in members])
    assert sum(units.dag.costs) == sum(dag.costs)
    number = {v: i for i, members in enumerate(units.members) for v in members}
    crossing = {(number[u], number[v]) for u, v in dag.edges if number[u] != number[v]}
    assert set(units.dag.edges) == crossing


def test_a_subgraph_keeps_costs_and_inner_edges():
    dag = DAG.from_edges([1, 2, 3, 4], [(0, 1), (1, 3), (0, 2), (2, 3)])
    part = subgraph(dag, [0, 2, 3])
    assert list(part.costs) == [1, 3, 4]
    assert list(part.edges) == [(0, 1), (1, 2)]


def test_an_edge_must_go_up():
    with pytest.raises(ValueError, match="1 -> 0"):
        DAG.from_edges([1, 1], [(1, 0)])
