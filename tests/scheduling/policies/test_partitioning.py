"""PPD's partitions: hand-worked graphs, and properties of any graph."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from compiler.scheduling.policies.balanced import (
    equal_intervals,
    partition_balanced,
    refine,
)
from compiler.scheduling.policies.partitioning import PARTITIONINGS, partition_ppd
from compiler.support.dag import DAG, depth_first_order, quotient
from tests.strategies import dags


def test_a_chain_is_cut_into_equal_parts():
    chain = DAG.from_edges([10] * 6, [(i, i + 1) for i in range(5)])
    assert partition_ppd(chain, 2) == [0, 0, 1, 1, 2, 2]
    assert partition_ppd(chain, 3) == [0, 0, 0, 1, 1, 1]
    assert partition_ppd(chain, 100) == [0] * 6


def test_shallow_nodes_come_first_among_equals():
    """0 feeds the chains 1-3 and 2-4, which meet in 5; 2 and 3 add no edge, 2 is shallower."""
    fork = DAG.from_edges([1] * 6, [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)])
    assert partition_ppd(fork, 3) == [0, 0, 0, 1, 1, 1]


def test_a_companion_adds_the_fewest_edges():
    """1 feeds three nodes, 2 feeds one: after 0 they add 2 edges and none."""
    dag = DAG.from_edges([1] * 6, [(0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (2, 5)])
    assert partition_ppd(dag, 2) == [0, 1, 0, 1, 2, 2]


def test_work_counts_and_not_nodes():
    """T = 2 * mean = 12: the node of 20 fills a partition, the others share one."""
    dag = DAG.from_edges([20, 2, 1, 1], [(0, 2), (1, 3)])
    assert partition_ppd(dag, 2) == [0, 1, 1, 1]


def test_an_unknown_policy_names_the_known_ones():
    with pytest.raises(
        PipelineError, match=r"'pdp'; known are balanced, none, ppd, or FILE.py:FUNC"
    ):
        PARTITIONINGS["pdp"]


@settings(max_examples=100, deadline=None)
@given(dags(), st.integers(1, 10), st.sampled_from(sorted(PARTITIONINGS)))
def test_partitions_are_numbered_in_topological_order(dag: DAG, most: int, policy: str):
    partition_of = PARTITIONINGS[policy](dag, most)
    assert set(partition_of) == set(range(max(partition_of) + 1))
    assert all(partition_of[u] <= partition_of[v] for u, v in dag.edges)
    quotient(dag, partition_of)


@settings(max_examples=100, deadline=None)
@given(dags(), st.integers(1, 10))
def test_ppd_stops_at_the_threshold(dag: DAG, most: int):
    partition_of = partition_ppd(dag, most)
    threshold = sum(dag.costs) * most / len(dag)
    work = [0] * (max(partition_of) + 1)
    largest = [0] * len(work)
    for v, cluster in enumerate(partition_of):
        work[cluster] += dag.costs[v]
        largest[cluster] = max(largest[cluster], dag.costs[v])
    pairs = zip(work, largest, strict=True)
    assert all(total < threshold + top or total == top for total, top in pairs)
    assert all(total >= threshold for total in work[:-1])


def test_a_hundred_thousand_nodes():
    count = 100_000
    edges = [(v - d, v) for v in range(count) for d in (1, 7, 400) if v >= d and v % d != 1]
    dag = DAG.from_edges([1 + v % 13 for v in range(count)], edges)
    start = process_time()
    assert max(partition_ppd(dag, 8)) < count
    assert process_time() - start < 10


def test_balanced_follows_chains_and_cuts_where_few_edges_are():
    """Two chains of three that meet: each is a part, the second with the node where they meet."""
    dag = DAG.from_edges([1] * 6, [(0, 2), (2, 4), (1, 3), (3, 5), (4, 5)])
    assert partition_balanced(dag, 3) == [0, 1, 0, 1, 0, 1]


@settings(max_examples=100, deadline=None)
@given(dags(), st.integers(1, 10))
def test_balanced_parts_have_equal_work(dag: DAG, most: int):
    """At most the mean and a tenth, or as an interval: the mean and half a node at each end."""
    partition_of = partition_balanced(dag, most)
    mean, largest = sum(dag.costs) / -(-len(dag) // most), max(dag.costs)
    work = [0] * (max(partition_of) + 1)
    for v, cluster in enumerate(partition_of):
        work[cluster] += dag.costs[v]
    assert max(work) <= max(1.1 * mean, mean + largest)


@settings(max_examples=60, deadline=None)
@given(dags())
def test_refining_never_cuts_more_edges(dag: DAG):
    clusters = -(-len(dag) // 4)
    before = equal_intervals(dag, depth_first_order(dag), clusters)
    after = list(before)
    refine(dag, after, 2 * sum(dag.costs))
    cut = [sum(c[u] != c[v] for u, v in dag.edges) for c in (before, after)]
    assert cut[1] <= cut[0]
    assert all(after[u] <= after[v] for u, v in dag.edges)
