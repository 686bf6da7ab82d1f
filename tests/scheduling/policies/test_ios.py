"""IOS's stages: hand-checked graphs, and the recursion done plainly."""

from functools import cache
from itertools import combinations

import pytest
from hypothesis import given, settings

from compiler.errors import PipelineError
from compiler.scheduling.policies import ios
from compiler.scheduling.policies.ios import (
    GROUP_NODES,
    assign_ios,
    crossing_tensors,
    narrowest_position,
)
from compiler.scheduling.policies.list_schedule import WAIT_NS, assignment_finish_times, makespan
from compiler.support.dag import DAG
from tests.strategies import dags


def test_groups_of_a_stage_run_side_by_side():
    """Our own graph of the kind of IOS's figure 2: a short branch of two next to a long node.

    0 and 1 make a group, 2 another; 3 waits for both. Two stages cost 1000 and 400 ns; three
    (IOS's greedy schedule: 0 and 2, then 1, then 3) would cost 900, 500 and 400.
    """
    dag = DAG.from_edges([500, 500, 900, 400], [(0, 1), (1, 3), (2, 3)])
    found = assign_ios(dag, 2)
    assert (found.streams, found.stages) == ([0, 0, 1, 0], [0, 0, 0, 1])
    assert makespan(dag, found) == 1000 + WAIT_NS + 400


def test_a_full_device_gains_nothing_from_sharing():
    """Two nodes that each fill the device take as long together as apart: only the stage counts."""
    dag = DAG.from_edges([1000, 1000], [], [1.0, 1.0])
    block = ios._Block(dag, 2)  # pyright: ignore[reportPrivateUsage]
    assert block.stage_cost((1, 2)) == 2000 + WAIT_NS
    half = DAG.from_edges([1000, 1000], [], [0.5, 0.25])
    assert ios._Block(half, 2).stage_cost((1, 2)) == 1000 + WAIT_NS  # pyright: ignore[reportPrivateUsage]


def test_no_stage_has_more_groups_than_streams():
    """100, then 200 with 300, then 400 with 500: no other pairing is as fast."""
    dag = DAG.from_edges([100 * (v + 1) for v in range(5)], [])
    found = assign_ios(dag, 2)
    assert len(set(found.stages)) == 3
    assert found.stages[1] == found.stages[2]
    assert found.stages[3] == found.stages[4]


def test_blocks_end_where_few_tensors_are_alive():
    """Two diamonds in a row: one tensor is alive before and after node 3."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6)]
    dag = DAG.from_edges([1] * 7, edges)
    assert crossing_tensors(dag)[:8] == [0, 1, 2, 2, 1, 2, 2, 0]
    assert narrowest_position(crossing_tensors(dag), 0, 7) == 4
    assert narrowest_position(crossing_tensors(dag), 1, 4) == 2


def test_wide_levels_are_cut_in_the_middle():
    """Cutting where a level begins, where the fewest tensors are alive, would take node by node."""
    dag = DAG.from_edges([1000] * 33, [(0, v) for v in range(1, 33)])
    assert narrowest_position(crossing_tensors(dag), 0, 33) in range(8, 25)
    assert max(assign_ios(dag, 8).stages) <= 8


def groups_of(dag: DAG, nodes: frozenset[int]) -> list[set[int]]:
    """Connected components."""
    groups: list[set[int]] = []
    for v in sorted(nodes):
        near = [g for g in groups if g & {*dag.predecessors[v], *dag.successors[v]}]
        groups = [g for g in groups if g not in near] + [set[int]().union({v}, *near)]
    return groups


def least_total(dag: DAG, streams: int) -> int:
    """IOS's recursion over all endings, without any pruning but its own two bounds."""

    @cache
    def cost(state: frozenset[int]) -> int:
        if not state:
            return 0
        found: list[int] = []
        for size in range(1, len(state) + 1):
            for nodes in map(frozenset, combinations(sorted(state), size)):
                closed = all(w in nodes or w not in state for v in nodes for w in dag.successors[v])
                groups = groups_of(dag, nodes)
                if closed and len(groups) <= streams and max(map(len, groups)) <= GROUP_NODES:
                    longest = max(sum(dag.costs[v] for v in g) for g in groups)
                    found.append(cost(state - nodes) + longest + WAIT_NS)
        return min(found)

    return cost(frozenset(range(len(dag))))


@settings(max_examples=40, deadline=None)
@given(dags(8))
def test_stages_are_the_best_that_exist(dag: DAG):
    found = assign_ios(dag, 3)
    total = 0
    for stage in set(found.stages):
        nodes = [v for v in range(len(dag)) if found.stages[v] == stage]
        loads = [0] * 3
        for v in nodes:
            loads[found.streams[v]] += dag.costs[v]
        total += max(loads) + WAIT_NS
        for group in groups_of(dag, frozenset(nodes)):
            assert len(group) <= GROUP_NODES
            assert len({found.streams[v] for v in group}) == 1
    assert total == least_total(dag, 3)
    assert max(assignment_finish_times(dag, found)) <= total - WAIT_NS


def test_wide_graphs_are_cut_until_the_search_is_small(monkeypatch: pytest.MonkeyPatch):
    edges = [(u, u + 12) for u in range(108)]
    dag = DAG.from_edges([100 + v for v in range(120)], edges)
    monkeypatch.setattr(ios, "MOST_ENDINGS", 2000)
    found = assign_ios(dag, 4)
    assert all(found.stages[u] <= found.stages[v] for u, v in edges)
    assert max(found.streams) == 3


def test_ios_refuses_politely():
    with pytest.raises(PipelineError, match=r"at most 5000 nodes.*run partition.*wavefront"):
        assign_ios(DAG.from_edges([1] * 5001, []), 4)
