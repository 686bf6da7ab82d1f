"""Predicted timelines of schedules respect every dependency and each mode's latencies."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.schedule.choices import MODES, Mode
from compiler.schedule.tasks import Schedule, Task
from compiler.scheduling.simulator import TaskDemand, execution, predict
from compiler.target.devices import H200, NONE, DeviceModel
from tests.backends.gpu.cases import case

SMALL = [TaskDemand(100.0)] * 12


def device(**latencies: float) -> DeviceModel:
    """A device where nothing but the kernels takes time, except as said."""
    return replace(H200, latencies=replace(NONE, **latencies))


def schedule(*tasks: tuple[int, tuple[int, ...]], subflow: int | None = None) -> Schedule:
    """Tasks given by stream and tokens."""
    return Schedule("s", (), tuple(Task("k", s, after, (), (), subflow) for s, after in tasks))


def chains(streams: int, length: int) -> Schedule:
    return schedule(*((stream, ()) for _ in range(length) for stream in range(streams)))


@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from(MODES))
@settings(max_examples=40, deadline=None)
def test_every_token_and_every_stream_is_respected(seed: int, streams: int, mode: Mode):
    found = case(seed, tasks=15, streams=streams).schedule
    chance = Random(seed)
    works = [
        TaskDemand(float(chance.randint(1, 9000)), chance.randint(1, 600)) for _ in found.tasks
    ]
    line = predict(found, works, mode)
    last: dict[int, int] = {}
    for index, task in enumerate(found.tasks):
        before = {*task.after, *([last[task.stream]] if task.stream in last else [])}
        assert all(line.end[other] <= line.start[index] + 1e-6 for other in before)
        assert line.end[index] - line.start[index] >= execution(works[index], H200) - 1e-6
        last[task.stream] = index
    assert line.makespan == max(line.end)


def test_a_graph_starts_once():
    assert predict(chains(1, 3), SMALL[:3], "graph", device(graph=70)).start == (70, 170, 270)


def test_plain_launches_are_bound_by_the_host():
    slow = device(launch=300)
    assert predict(chains(4, 3), SMALL, "streams", slow).makespan == 12 * 300 + 100


def test_waits_for_other_streams_take_the_host_two_events():
    known = device(launch=300, event=20)
    joined = schedule((0, ()), (1, ()), (0, (1,)))
    assert predict(joined, SMALL[:3], "streams", known).start == (300, 600, 940)


def test_a_partition_is_one_launch_among_subgraphs():
    known = device(plain=1000, launch=300)
    tasks = schedule(*[(0, ())] * 6, subflow=0)
    assert predict(tasks, SMALL[:6], "subgraphs", known).makespan == 300 + 1000 + 600
    alone = predict(schedule(*[(0, ())] * 6), SMALL[:6], "subgraphs", known)
    assert alone.makespan == 300 + 6 * (1000 + 100)


@pytest.mark.parametrize(
    ("mode", "subflow", "more"),
    [
        ("graph", None, 9),
        ("graph", 0, 9),
        ("subgraphs", 0, 8),
        ("subgraphs", None, 3),
        ("streams", 0, 0),
    ],
)
def test_early_launches_take_longer_than_chains_of_themselves(
    mode: Mode, subflow: int | None, more: int
):
    """Six tasks, of which three launch twice: a unit's first launch follows what is in no graph."""
    works = [TaskDemand(5000.0, launches=n, early=n) for n in (1, 2, 1, 2, 1, 2)]
    tasks = schedule(*[(0, ())] * 6, subflow=subflow)
    plain, early = (predict(tasks, works, mode, early=e).makespan for e in (False, True))
    assert early - plain == pytest.approx(more * H200.latencies.programmatic)
    barred = [replace(work, early=0) for work in works]
    assert predict(tasks, barred, mode, early=True).makespan == plain


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_schedule_takes_no_time(mode: Mode):
    assert predict(schedule(), [], mode).makespan == 0
