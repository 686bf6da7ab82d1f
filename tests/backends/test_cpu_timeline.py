"""Timed runs on the CPU: each task once, in an order that the schedule allows, counted rightly."""

import random

import pytest

from compiler.backends.cpu.driver import BACKEND
from compiler.backends.cpu.timeline import ThreadSpan, median_run
from compiler.errors import ArgumentError
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.tools.measured import TaskTime
from compiler.tools.trace import arena_bytes_in_use, tasks_ready
from tests.backends.objects import kernels, random_schedule, values


@pytest.mark.parametrize("threads", [1, 3])
def test_each_task_is_timed_once_after_those_it_waits_for(threads: int):
    for seed in range(5):
        schedule = random_schedule(seed, 30, 3)
        loaded = BACKEND.load(schedule, kernels(), {"w": values(1)}, threads=threads)
        executor = loaded.executor(timed=True)
        for run in range(3):
            executor.run({"x": values(run)})
            spans = executor.spans()
            own = {span.task: span for span in spans if not span.helps}
            assert sorted(own) == list(range(30))
            assert len(own) + sum(span.helps for span in spans) == len(spans)
            assert {span.thread for span in spans} <= set(range(threads))
            assert min(span.start for span in spans) == 0
            check_order(schedule, own)
        executor.close()


def check_order(schedule: Schedule, own: dict[int, ThreadSpan]) -> None:
    """Each task begins after the ends of those before it on its stream and that it waits for."""
    last: dict[int, int] = {}
    for index, task in enumerate(schedule.tasks):
        before = [*task.after, *([last[task.stream]] if task.stream in last else [])]
        assert own[index].start <= own[index].end
        assert all(own[other].end <= own[index].start for other in before)
        last[task.stream] = index


def test_an_executor_that_is_not_timed_has_no_spans():
    loaded = BACKEND.load(random_schedule(1, 10, 2), kernels(), {"w": values(1)}, threads=2)
    executor = loaded.executor()
    executor.run({"x": values(0)})
    assert executor.spans() == []
    executor.close()
    with pytest.raises(ArgumentError, match="no option 'time': did you mean 'timed'"):
        loaded.executor(time=True)


def test_the_run_of_median_length_is_taken():
    lengths = iter([900, 900, 900, 5, 1, 3])

    def run() -> list[ThreadSpan]:
        return [ThreadSpan(0, 0, 0, next(lengths))]

    assert median_run(run, 3)[0].end == 3


ARENA = Allocation("arena", "arena", "uint8", (64,))


def at(offset: int, size: int) -> View:
    return View(0, offset, "uint8", (size,))


def test_bytes_are_in_use_from_their_writer_to_their_last_reader():
    tasks = (
        Task("a", 0, (), (), (at(0, 8),)),
        Task("b", 1, (0,), (at(0, 8),), (at(8, 16),)),
        Task("c", 0, (), (at(0, 8),), (at(32, 4),)),
        Task("d", 0, (1,), (at(8, 16),), (at(0, 8),)),
    )
    schedule = Schedule("main", (ARENA,), tasks)
    times = [TaskTime(0, 0, 10), TaskTime(1, 20, 30), TaskTime(0, 12, 50), TaskTime(0, 60, 70)]
    expected = {0: 8, 12: 12, 20: 28, 50: 16, 60: 24, 70: 0}
    assert dict(arena_bytes_in_use(schedule, times)) == expected


def test_ready_tasks_are_those_that_nothing_holds_back():
    generator = random.Random(3)
    schedule = random_schedule(3, 25, 3)
    ends: list[float] = []
    last: dict[int, int] = {}
    times: list[TaskTime] = []
    for index, task in enumerate(schedule.tasks):
        before = [*task.after, *([last[task.stream]] if task.stream in last else [])]
        start = max((ends[o] for o in before), default=0) + generator.randrange(5)
        ends.append(start + 1 + generator.randrange(9))
        times.append(TaskTime(task.stream, start, ends[-1]))
        last[task.stream] = index
    steps = tasks_ready(schedule, times)
    for moment in range(int(max(ends)) + 1):
        value = [count for when, count in steps if when <= moment][-1]
        assert value == sum(is_ready(schedule, times, index, moment) for index in range(25))


def is_ready(schedule: Schedule, times: list[TaskTime], index: int, moment: float) -> bool:
    """Whether a task could begin and has not, judged at one moment alone."""
    task = schedule.tasks[index]
    earlier = [i for i in range(index) if schedule.tasks[i].stream == task.stream]
    before = {*task.after, *earlier}
    return times[index].start > moment and all(times[i].end <= moment for i in before)
