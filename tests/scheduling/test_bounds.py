"""The bound of a model: its longest path, its work, and what starting kernels costs."""

from dataclasses import replace

import pytest

from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.scheduling.bounds import Bound, lower_bound, needs
from compiler.scheduling.simulator import TaskDemand
from compiler.target.devices import H200, NONE, Latencies

FREE = replace(H200, latencies=NONE)


def test_the_longest_path_counts_where_work_is_small():
    works = [TaskDemand(time) for time in (10.0, 20.0, 5.0, 1.0)]
    assert lower_bound(works, [(0, 2), (1, 2), (2, 3)], FREE).path == 26


def test_all_work_counts_where_every_task_fills_the_device():
    assert lower_bound([TaskDemand(100.0, 10_000)] * 7, [], FREE).time == pytest.approx(700)


def test_starting_kernels_takes_time_too():
    device = replace(H200, latencies=Latencies(graph=1000, gap=50, dependency=0))
    bound = lower_bound([TaskDemand(10.0)] * 11, [(0, 1)], device)
    assert bound == Bound(1000 + 20, 1000 + 10 * 50 + 10)


def test_no_tasks_take_no_time():
    assert lower_bound([], [], H200).time == 0


def test_a_need_is_a_read_of_what_was_written_last_and_not_a_reuse_of_memory():
    arena = Allocation("arena", "arena", "uint8", (8,))
    output = Allocation("output", "y", "int32", (1,))
    first, second, out = (
        View(0, 0, "int32", (1,)),
        View(0, 4, "int32", (1,)),
        View(1, 0, "int32", (1,)),
    )
    tasks = (
        Task("a", 0, (), (), (first,)),
        Task("b", 0, (), (first,), (second,)),
        Task("c", 0, (), (), (first,)),
        Task("d", 0, (), (first, second), (out,)),
    )
    assert needs(Schedule("s", (arena, output), tasks)) == [(0, 1), (1, 3), (2, 3)]
