"""The model's timelines respect every dependency and the latencies that they are made of."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.analysis.makespan import Latencies, Load, Mode, predict
from compiler.schedule import Schedule, Task
from tests.backends.gpu.cases import case

FREE = Latencies(0, 0, 0, 0)
MODES: tuple[Mode, ...] = ("graph", "subgraphs", "streams")


def schedule(*tasks: tuple[int, tuple[int, ...]], subflow: int = -1) -> Schedule:
    """Tasks given by stream and tokens."""
    return Schedule("s", (), tuple(Task("k", s, after, (), (), subflow) for s, after in tasks))


def chains(streams: int, length: int) -> Schedule:
    return schedule(*((stream, ()) for _ in range(length) for stream in range(streams)))


@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from(MODES))
@settings(max_examples=60)
def test_order_and_bounds(seed: int, streams: int, mode: Mode):
    found = case(seed, tasks=15, streams=streams).schedule
    chance = Random(seed)
    costs = [chance.randint(1, 9000) for _ in found.tasks]
    shares = [chance.choice([0.0, 0.3, 1.0]) for _ in found.tasks]
    loads = [Load(float(c), s) for c, s in zip(costs, shares, strict=True)]
    line = predict(found, loads, mode)
    last: dict[int, int] = {}
    for index, task in enumerate(found.tasks):
        before = {*task.after, *([last[task.stream]] if task.stream in last else [])}
        assert all(line.end[other] <= line.start[index] + 1e-6 for other in before)
        assert line.end[index] - line.start[index] >= costs[index] - 1e-6
        last[task.stream] = index
    assert line.makespan == max(line.end)
    area = sum(load.cost * load.share for load in loads)
    assert line.makespan >= area - 1e-3


def test_small_kernels_overlap_and_large_ones_share_the_device():
    small, large = [Load(1000.0, 0.1)] * 8, [Load(1000.0, 1.0)] * 8
    assert predict(chains(1, 8), small, "graph", FREE).makespan == 8000
    assert predict(chains(8, 1), small, "graph", FREE).makespan == pytest.approx(1000)
    assert predict(chains(8, 1), large, "graph", FREE).makespan == pytest.approx(8000)
    assert predict(chains(2, 4), [Load(1000.0, 0.75)] * 8, "graph", FREE).makespan == pytest.approx(
        6000
    )


def test_a_graph_starts_once_and_every_further_branch_costs():
    known = Latencies(graph=100, branch=10)
    fork = schedule((0, ()), (0, (0,)), (1, (0,)), (2, (0,)), (0, (1, 2, 3)))
    line = predict(fork, [Load(50.0)] * 5, "graph", known)
    assert line.start == (100, 150, 160, 170, 170 + 50 + 20)


def test_plain_launches_are_bound_by_the_host():
    known = Latencies(launch=300, event=0)
    assert predict(chains(4, 3), [Load(100.0)] * 12, "streams", known).makespan == 12 * 300 + 100


def test_a_partition_is_one_launch_among_subgraphs():
    known = Latencies(graph=1000, launch=300, event=0)
    tasks = schedule(*[(0, ())] * 6, subflow=0)
    line = predict(tasks, [Load(100.0)] * 6, "subgraphs", known)
    assert line.makespan == 300 + 1000 + 600
    alone = predict(schedule(*[(0, ())] * 6), [Load(100.0)] * 6, "subgraphs", known)
    assert alone.makespan == 6 * 300 + 100


def test_an_empty_schedule_takes_no_time():
    assert predict(schedule(), [], "graph").makespan == 0
