"""Stream policies: hand-worked graphs, and properties of any graph."""

from itertools import pairwise
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.graph import DAG, reaches
from compiler.analysis.streams import (
    STREAM_ASSIGNMENTS,
    assign_opara,
    assign_ppd,
    assign_sequential,
    opara_chains,
)
from tests.strategies import dags

DIAMOND = DAG.from_edges([5, 3, 4, 2, 1], [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)])


def test_ppd_goes_round_in_breadth_first_order():
    assert assign_ppd(DIAMOND, 2) == [0, 1, 0, 1, 0]
    assert assign_ppd(DIAMOND, 3) == [0, 1, 2, 0, 1]
    assert assign_ppd(DIAMOND, 9) == [0, 1, 2, 3, 4]


def test_ppd_visits_by_distance_from_the_sources():
    """3 has no predecessor, so it comes right after 0; 2 is two steps away."""
    dag = DAG.from_edges([1] * 4, [(0, 1), (1, 2)])
    assert assign_ppd(dag, 3) == [0, 2, 0, 1]


def test_opara_hands_each_stream_on_once():
    assert opara_chains(DIAMOND) == [0, 0, 1, 2, 0]


def test_opara_folds_to_the_earliest_start():
    """At 5 the chain of 0 and 1 is on stream 0; 2 starts on stream 1 at once, 3 goes behind 1.

    Critical path order is 0, 2, 1, 3, 4: node 2 takes the empty stream at 5 until 9, 1 runs on
    stream 0 until 8, so 3 would start there at 8 and on stream 1 at 9.
    """
    assert opara_chains(DIAMOND) == [0, 0, 1, 2, 0]
    assert assign_opara(DIAMOND, 2) == [0, 0, 1, 0, 0]


def test_opara_balances_work_where_starts_are_equal():
    """Two joins follow each other; at the second fork both streams are free: the idler is taken."""
    forks = DAG.from_edges([1, 1, 9, 1, 1, 1], [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5)])
    assert opara_chains(forks) == [0, 0, 1, 0, 0, 2]
    assert assign_opara(forks, 3) == [0, 0, 1, 0, 0, 2]
    assert assign_opara(forks, 2) == [0, 0, 1, 0, 0, 1]


def test_sequential_uses_one_stream():
    assert assign_sequential(DIAMOND, 4) == [0] * 5


@settings(max_examples=100, deadline=None)
@given(dags(), st.integers(1, 6), st.sampled_from(sorted(STREAM_ASSIGNMENTS)))
def test_streams_are_in_range(dag: DAG, streams: int, policy: str):
    stream_of = STREAM_ASSIGNMENTS[policy](dag, streams)
    assert len(stream_of) == len(dag)
    assert all(0 <= stream < streams for stream in stream_of)


@settings(max_examples=100, deadline=None)
@given(dags(16))
def test_opara_chains_are_paths_and_never_fold_when_there_are_enough_streams(dag: DAG):
    chains = opara_chains(dag)
    for chain in set(chains):
        nodes = [v for v in range(len(dag)) if chains[v] == chain]
        assert all(u in dag.predecessors[v] for u, v in pairwise(nodes))
    alone = DAG([1 + cost for cost in dag.costs], dag.successors, dag.predecessors)
    assert len(set(zip(chains, assign_opara(alone, len(dag)), strict=True))) == len(set(chains))
    for u in range(len(dag)):
        for v in range(u + 1, len(dag)):
            assert chains[u] != chains[v] or reaches(dag, u, v)


def test_a_hundred_thousand_nodes():
    count = 100_000
    edges = [(v - d, v) for v in range(count) for d in (1, 7, 400) if v >= d and v % d != 1]
    dag = DAG.from_edges([1] * count, edges)
    start = process_time()
    for policy in STREAM_ASSIGNMENTS.values():
        policy(dag, 8)
    assert process_time() - start < 15
