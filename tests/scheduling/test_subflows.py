"""Edges keep the order and nothing more; the critical path comes first; subflows wait as one."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.schedule.tasks import Schedule
from compiler.scheduling.graph_plan import critical_first, is_crowded, priorities
from compiler.scheduling.subflows import predecessors, remaining_waits, subflows
from compiler.support.dag import reverse, upward_ranks, without_implied
from tests.adversary import predecessors as given_order
from tests.backends.gpu.cases import case
from tests.schedules import closure as order_of
from tests.schedules import schedules

SEEDS = st.integers(0, 10**6)


def closure(edges: list[tuple[int, ...]]) -> list[set[int]]:
    before: list[set[int]] = []
    for others in edges:
        before.append(set(others).union(*(before[other] for other in others)))
    return before


@given(schedules(max_tasks=14))
@settings(max_examples=60)
def test_edges_keep_the_order_and_none_can_go(schedule: Schedule):
    edges = predecessors(schedule)
    order = closure([tuple(others) for others in given_order(schedule)])
    assert closure(edges) == order
    for task, others in enumerate(edges):
        for other in others:
            rest = [*edges[:task], tuple(o for o in others if o != other), *edges[task + 1 :]]
            assert other not in closure(rest)[task]


@given(schedules())
@settings(max_examples=200, deadline=None)
def test_remaining_waits_keep_the_order_and_none_is_spare(schedule: Schedule):
    tasks, before = list(schedule.tasks), order_of(schedule)
    thin = [replace(t, after=w) for t, w in zip(tasks, remaining_waits(schedule), strict=True)]
    assert order_of(replace(schedule, tasks=tuple(thin))) == before
    for index, task in enumerate(thin):
        for wait in task.after:
            fewer = thin.copy()
            fewer[index] = replace(task, after=tuple(w for w in task.after if w != wait))
            assert wait not in order_of(replace(schedule, tasks=tuple(fewer)))[index]


@given(SEEDS)
@settings(max_examples=30)
def test_the_longest_remaining_path_comes_first_in_a_topological_order(seed: int):
    edges = predecessors(case(seed, tasks=20).schedule)
    times = [1.0 + (seed >> index) % 7 for index in range(len(edges))]
    ranks = upward_ranks(times, reverse(edges))
    place = {task: position for position, task in enumerate(critical_first(ranks))}
    for task, others in enumerate(edges):
        assert all(place[other] < place[task] for other in others)
        assert all(ranks[other] >= times[other] + ranks[task] for other in others)


def test_the_critical_path_is_most_urgent():
    # 0 -> 1 -> 3 is longer than 0 -> 2 -> 3
    edges = [(), (0,), (0,), (1, 2)]
    times = [1.0, 8.0, 1.0, 1.0]
    ranks = upward_ranks(times, reverse(edges))
    assert ranks == [10.0, 9.0, 2.0, 1.0]
    assert priorities(edges, times, ranks, (0, -5)) == [-5, -5, -2, -5]


def test_a_schedule_is_crowded_where_the_critical_path_is_a_small_part():
    def crowded(before: list[tuple[int, ...]], times: list[float]) -> bool:
        return is_crowded(times, upward_ranks(times, reverse(before)))

    parallel = [(), (), (), (0, 1, 2)]
    assert crowded(parallel, [4.0, 4.0, 4.0, 1.0])
    assert not crowded(parallel, [4.0, 2.0, 1.0, 1.0])
    assert not crowded([(), (0,), (1,)], [1.0, 1.0, 1.0])
    assert not crowded([], [])


def test_an_edge_that_others_imply_goes():
    assert without_implied([(), (0,), (0, 1), (0, 1, 2)]) == [(), (0,), (1,), (2,)]


@given(SEEDS)
@settings(max_examples=30)
def test_subflows_wait_for_earlier_ones(seed: int):
    schedule = case(seed, tasks=20).schedule
    found = subflows(schedule)
    assert [task for unit in found for task in unit.tasks] == list(range(len(schedule.tasks)))
    for index, unit in enumerate(found):
        kinds = {(schedule.tasks[t].subflow, schedule.tasks[t].stream) for t in unit.tasks}
        assert len(kinds) == 1
        assert all(other < index for other in unit.after)
        assert len(unit.tasks) == 1 or schedule.tasks[unit.tasks[0]].subflow is not None
