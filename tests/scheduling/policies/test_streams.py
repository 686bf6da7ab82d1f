"""Stream policies: hand-worked graphs, and properties of any graph."""

from itertools import combinations, pairwise, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from compiler.scheduling.policies import optimal
from compiler.scheduling.policies.assignment import Assignment, check_assignment
from compiler.scheduling.policies.chains import assign_opara, opara_chains
from compiler.scheduling.policies.list_schedule import (
    WAIT_NS,
    assignment_bound,
    assignment_finish_times,
    makespan,
)
from compiler.scheduling.policies.nimble import merged_chains, nimble_chains
from compiler.scheduling.policies.optimal import branch_and_bound
from compiler.scheduling.policies.streams import (
    STREAM_ASSIGNMENTS,
    assign_critical_path,
    assign_ppd,
    assign_sequential,
    assign_wavefront,
)
from compiler.support.dag import DAG, critical_path, descendants, transitive_reduction
from tests.strategies import dags

DIAMOND = DAG.from_edges([5, 3, 4, 2, 1], [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)])


def test_ppd_goes_round_in_breadth_first_order():
    assert assign_ppd(DIAMOND, 2).streams == [0, 1, 0, 1, 0]
    assert assign_ppd(DIAMOND, 3).streams == [0, 1, 2, 0, 1]
    assert assign_ppd(DIAMOND, 9).streams == [0, 1, 2, 3, 4]


def test_ppd_visits_by_distance_from_the_sources():
    """3 has no predecessor, so it comes right after 0; 2 is two steps away."""
    dag = DAG.from_edges([1] * 4, [(0, 1), (1, 2)])
    assert assign_ppd(dag, 3).streams == [0, 2, 0, 1]


def test_opara_hands_each_stream_on_once():
    assert opara_chains(DIAMOND) == [0, 0, 1, 2, 0]


def test_opara_folds_to_the_earliest_start():
    """At 5 the chain of 0 and 1 is on stream 0; 2 starts on stream 1 at once, 3 follows 1.

    Critical path order is 0, 2, 1, 3, 4: node 2 takes the empty stream at 5 until 9, 1 runs on
    stream 0 until 8, so 3 would start there at 8 and on stream 1 at 9.
    """
    assert opara_chains(DIAMOND) == [0, 0, 1, 2, 0]
    assert assign_opara(DIAMOND, 2).streams == [0, 0, 1, 0, 0]


def test_opara_balances_work_where_starts_are_equal():
    """Branches meet twice; at the second fork both streams are free: the idler is taken."""
    forks = DAG.from_edges([1, 1, 9, 1, 1, 1], [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5)])
    assert opara_chains(forks) == [0, 0, 1, 0, 0, 2]
    assert assign_opara(forks, 3).streams == [0, 0, 1, 0, 0, 2]
    assert assign_opara(forks, 2).streams == [0, 0, 1, 0, 0, 1]


def test_sequential_uses_one_stream():
    assert assign_sequential(DIAMOND, 4) == Assignment([0] * 5)


def test_wavefront_fills_streams_longest_first():
    """The wave of 4, 3 and 2: 4 alone, 3 and 2 on the other stream; then a barrier."""
    found = assign_wavefront(DIAMOND, 2)
    assert found == Assignment([0, 1, 0, 1, 0], [0, 1, 1, 1, 2], [0, 2, 1, 3, 4])
    later = [WAIT_NS + 8, WAIT_NS + 9, WAIT_NS + 10, 2 * WAIT_NS + 11]
    assert assignment_finish_times(DIAMOND, found) == [5, *later]


def test_critical_path_stays_on_stream_0():
    """0, 2, 4 is the longest path. 1 and 3 are elsewhere: worth a wait if nodes are long."""
    long = DAG.from_edges([1000 * c for c in DIAMOND.costs], DIAMOND.edges)
    assert critical_path(long.costs, long.successors) == [0, 2, 4]
    assert assign_critical_path(long, 3).streams == [0, 1, 0, 2, 0]
    assert assign_critical_path(long, 2).streams == [0, 1, 0, 1, 0]


def test_critical_path_avoids_waits_that_cost_more_than_they_gain():
    """A branch of 3 ns ends sooner after its predecessor than 150 ns later on another stream.

    Only node 2, of 4 ns, is on the critical path; the others follow it on stream 0.
    """
    assert assign_critical_path(DIAMOND, 3).streams == [0, 0, 0, 0, 0]


def test_critical_path_counts_waits_for_other_streams():
    """4 waits for 1 on stream 1 and 2 on stream 2, which is free first, but 150 ns from node 1.

    Stream 1 is busy with 3 until 1100; on stream 2, node 1's end is seen at 1150.
    """
    dag = DAG.from_edges([5000, 1000, 900, 100, 50], [(1, 3), (1, 4), (2, 4)])
    assert assign_critical_path(dag, 3).streams == [0, 1, 2, 1, 1]


@settings(max_examples=60, deadline=None)
@given(dags(14), st.integers(1, 6), st.sampled_from(sorted(STREAM_ASSIGNMENTS)))
def test_assignments_are_legal(dag: DAG, streams: int, policy: str):
    found = STREAM_ASSIGNMENTS[policy](dag, streams)
    check_assignment(dag, streams, found)
    assert makespan(dag, found) >= assignment_bound(dag, streams)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Assignment([0]), "gives 1 streams for 5 nodes"),
        (Assignment([0, 0, 0, 0, 2]), "gives stream 2, which is not below 2"),
        (Assignment([0, 0, 0, 0, -1]), "gives stream -1"),
        (Assignment([0] * 5, [0]), "gives 1 stages for 5 nodes"),
        (Assignment([0] * 5, [0, 1, 1, 2, 1]), "an earlier stage than one that it depends on"),
        (Assignment([0] * 5, order=[1, 0, 2, 3, 4]), "launch order is not topological"),
    ],
)
def test_wrong_assignments_are_found(found: Assignment, message: str):
    with pytest.raises(PipelineError, match=message):
        check_assignment(DIAMOND, 2, found)


def independent_pairs(dag: DAG) -> list[tuple[int, int]]:
    pairs, sets = combinations(range(len(dag)), 2), descendants(dag)
    return [(u, v) for u, v in pairs if not sets[u] >> v & 1]


@settings(max_examples=60, deadline=None)
@given(dags(14), st.sampled_from(["opara", "nimble"]))
def test_enough_streams_keep_independent_nodes_apart(dag: DAG, policy: str):
    positive = DAG([1 + cost for cost in dag.costs], dag.successors, dag.predecessors)
    chains = {"opara": opara_chains, "nimble": nimble_chains}[policy](positive)
    for chain in set(chains):
        nodes = [v for v in range(len(dag)) if chains[v] == chain]
        assert all(u in dag.predecessors[v] for u, v in pairwise(nodes))
    streams = STREAM_ASSIGNMENTS[policy](positive, len(dag)).streams
    for u, v in independent_pairs(dag):
        assert chains[u] != chains[v]
        assert streams[u] != streams[v]


def width(dag: DAG) -> int:
    """The most nodes that are independent of each other, by trying all sets."""
    free = set(independent_pairs(dag))
    sets = (s for size in range(len(dag), 0, -1) for s in combinations(range(len(dag)), size))
    return len(next(s for s in sets if all(pair in free for pair in combinations(s, 2))))


@settings(max_examples=60, deadline=None)
@given(dags(9))
def test_nimble_has_the_fewest_waits_of_all_streams_that_keep_independence(dag: DAG):
    """Nimble (NeurIPS 2020), Theorem 3: |E_MEG| - |M| waits, against every legal chain cover."""
    reduced = list(transitive_reduction(dag).edges)
    chains = nimble_chains(dag)
    matched = len(dag) - len(set(chains))
    waits = sum(chains[u] != chains[v] for u, v in reduced)
    assert waits == len(reduced) - matched
    assert waits == min(sum(s[u] != s[v] for u, v in reduced) for s in covers(dag))
    merged = merged_chains(dag, chains)
    assert sum(merged[u] != merged[v] for u, v in reduced) == waits
    assert width(dag) <= len(set(merged)) <= len(set(chains))


def covers(dag: DAG) -> list[list[int]]:
    """Every division of the nodes into streams that keeps independent nodes apart."""
    apart, found = set(independent_pairs(dag)), [[0]]
    for v in range(1, len(dag)):
        found = [
            [*streams, s]
            for streams in found
            for s in range(max(streams) + 2)
            if not any(streams[u] == s and (u, v) in apart for u in range(v))
        ]
    return found


def test_nimble_on_a_hand_checked_graph():
    """Two diamonds in a row, with two shortcuts that the reduction drops: 8 of 10 edges stay.

    Each of 0, 1 or 2, 3, and 4 or 5 hands its stream on once: 4 matched edges, 3 chains of 7
    nodes, 8 - 4 = 4 waits. The two lone nodes follow each other, so 2 streams are enough.
    """
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6), (0, 3), (0, 6)]
    dag = DAG.from_edges([1] * 7, edges)
    assert len(list(transitive_reduction(dag).edges)) == 8
    chains = nimble_chains(dag)
    assert len(set(chains)) == 3
    assert len(set(merged_chains(dag, chains))) == width(dag) == 2


def test_nimble_refuses_politely():
    with pytest.raises(PipelineError, match=r"at most 10000 nodes.*run partition.*policy=opara"):
        STREAM_ASSIGNMENTS["nimble"](DAG.from_edges([1] * 10_001, []), 4)


def brute_force(dag: DAG, streams: int) -> int:
    """The least makespan over all topological orders and all streams."""
    found: list[int] = []

    def orders(order: list[int]) -> None:
        if len(order) == len(dag):
            options = product(range(streams), repeat=len(dag))
            found.extend(makespan(dag, Assignment(s, order=order)) for s in options)
        for v in range(len(dag)):
            if v not in order and all(u in order for u in dag.predecessors[v]):
                orders([*order, v])

    orders([])
    return min(found)


@settings(max_examples=25, deadline=None)
@given(dags(5), st.integers(1, 2))
def test_optimal_is_what_brute_force_finds(dag: DAG, streams: int):
    found, proven = branch_and_bound(dag, streams)
    assert proven
    assert makespan(dag, found) == brute_force(dag, streams)


class Exhaustive(optimal._Search):  # pyright: ignore[reportPrivateUsage]
    """A search that looks at states which others are equal to, too."""

    def hopeful(self) -> bool:
        return True


@settings(max_examples=60, deadline=None)
@given(dags(7, 400), st.integers(2, 3))
def test_optimal_forgets_nothing_that_matters(dag: DAG, streams: int):
    """States that it takes for equal lead to the same best as when every state is looked at."""
    found, _ = branch_and_bound(dag, streams)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "MOST_STEPS", 10**6)
        patch.setattr(optimal, "_Search", Exhaustive)
        every, _ = branch_and_bound(dag, streams)
    assert makespan(dag, found) == makespan(dag, every)


class BlindToEnds(optimal._Search):  # pyright: ignore[reportPrivateUsage]
    """Takes states for equal whose streams are free at different times."""

    def state(self) -> tuple[object, ...]:
        state: Any = super().state()
        return state[0], tuple(sorted(kept for _, kept in state[2]))


class BlindToStreams(optimal._Search):  # pyright: ignore[reportPrivateUsage]
    """Takes states for equal whose nodes that others wait for are on different streams."""

    def state(self) -> tuple[object, ...]:
        state: Any = super().state()
        return state[0], state[1], tuple(end for end, _ in state[2])


def searched(kind: type[optimal._Search], dag: DAG) -> tuple[int, int]:  # pyright: ignore[reportPrivateUsage]
    """The best on two streams, begun with all nodes on one, and the steps it took."""
    first, steps = Assignment([0] * len(dag)), 10**6
    work = kind(dag, 2, makespan(dag, first), first, steps=steps)
    work.run([v for v, before in enumerate(dag.predecessors) if not before])
    return work.best, steps - work.steps


def random_dag(seed: int, count: int, least: int, most: int) -> DAG:
    chance = Random(seed)
    costs = [chance.randint(least, most) for _ in range(count)]
    edges = [(u, v) for v in range(count) for u in range(v) if chance.random() < 0.3]
    return DAG.from_edges(costs, edges)


@pytest.mark.parametrize(
    ("blind", "dag"),
    [(BlindToEnds, random_dag(1, 6, 1, 400)), (BlindToStreams, random_dag(70, 7, 50, 60))],
)
def test_optimal_needs_all_that_it_compares_of_states(
    blind: type[optimal._Search],  # pyright: ignore[reportPrivateUsage]
    dag: DAG,
):
    """With less, these graphs lose their best schedule; with all of it, they do not."""
    best, _ = searched(Exhaustive, dag)
    assert searched(optimal._Search, dag)[0] == best  # pyright: ignore[reportPrivateUsage]
    assert searched(blind, dag)[0] > best


def test_optimal_looks_at_equal_states_once():
    steps = [0, 0]
    for seed in range(20):
        dag = random_dag(seed, 6, 1, 400)
        steps[0] += searched(optimal._Search, dag)[1]  # pyright: ignore[reportPrivateUsage]
        steps[1] += searched(Exhaustive, dag)[1]
    assert 2 * steps[0] < steps[1]


@settings(max_examples=25, deadline=None)
@given(dags(9), st.integers(1, 4))
def test_optimal_is_never_worse_than_another_policy(dag: DAG, streams: int):
    found = STREAM_ASSIGNMENTS["optimal"](dag, streams)
    for policy in STREAM_ASSIGNMENTS.values():
        assert makespan(dag, found) <= makespan(dag, policy(dag, streams))


def test_optimal_beats_list_scheduling_where_waiting_pays():
    """Graham's anomaly of a kind: rank order fills both streams, and the long job comes last."""
    dag = DAG.from_edges([30_000, 30_000, 20_000, 20_000, 20_000], [])
    assert makespan(dag, assign_critical_path(dag, 2)) == 70_000
    assert (
        makespan(dag, STREAM_ASSIGNMENTS["optimal"](dag, 2)) == assignment_bound(dag, 2) == 60_000
    )


def test_optimal_says_when_it_gave_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(optimal, "MOST_STEPS", 300)
    edges = [(u, u + 6) for u in range(54)] + [(u, u + 7) for u in range(0, 53, 2)]
    dag = DAG.from_edges([1000 + 37 * v % 501 for v in range(60)], edges)
    found = STREAM_ASSIGNMENTS["optimal"](dag, 3)
    assert makespan(dag, found) <= makespan(dag, assign_critical_path(dag, 3))
    assert "not proven best in 300 steps; bound" in caplog.text


def test_optimal_refuses_politely():
    with pytest.raises(PipelineError, match=r"at most 200 nodes.*run partition.*critical-path"):
        STREAM_ASSIGNMENTS["optimal"](DAG.from_edges([1] * 201, []), 4)


@settings(max_examples=60, deadline=None)
@given(dags(12), st.integers(2, 4))
def test_stages_are_over_before_the_next_begin(dag: DAG, streams: int):
    for policy in ("wavefront", "ios"):
        found = STREAM_ASSIGNMENTS[policy](dag, streams)
        finish = assignment_finish_times(dag, found)
        for u, v in product(range(len(dag)), repeat=2):
            if found.stages[u] < found.stages[v]:
                assert finish[u] + WAIT_NS <= finish[v] - dag.costs[v]
