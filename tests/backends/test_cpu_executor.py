import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import numpy
import pytest

from compiler.backends.cpu.driver import BACKEND
from compiler.backends.memory import aligned_array
from compiler.errors import DeviceError, ScheduleError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.verify.happens_before import check_schedule
from tests.backends.objects import (
    LANES,
    MIX,
    chain,
    compile_object,
    kernels,
    mix,
    random_schedule,
    reference,
    values,
)


def load(schedule: Schedule, **options: int | bool):
    return BACKEND.load(schedule, kernels(), {"w": values(1)}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_random_schedules_equal_numpy(threads: int, streams: int) -> None:
    for seed in range(10):
        schedule = random_schedule(100 * streams + seed, 40, streams)
        check_schedule(schedule)
        executable = load(schedule, threads=threads, poison=True)
        for run in range(12):
            x = values(run)
            outputs = executable.run({"x": x})
            expected = reference(schedule, {"x": x, "w": values(1)})
            assert list(outputs) == ["y", "z"]
            for name, array in outputs.items():
                numpy.testing.assert_array_equal(array, expected[name])
        executable.close()


def test_thousands_of_runs_of_one_executor() -> None:
    schedule = random_schedule(7, 20, 3)
    executable = load(schedule, threads=3)
    inputs = [values(seed) for seed in range(8)]
    expected = [reference(schedule, {"x": x, "w": values(1)}) for x in inputs]
    for run in range(3000):
        outputs = executable.run({"x": inputs[run % 8]})
        numpy.testing.assert_array_equal(outputs["y"], expected[run % 8]["y"])
        numpy.testing.assert_array_equal(outputs["z"], expected[run % 8]["z"])


def test_several_arenas_lie_one_after_the_other() -> None:
    row = (LANES,)
    allocations = (
        Allocation("arena", "first", "int64", row),
        Allocation("output", "y", "int64", row),
        Allocation("arena", "second", "int64", row),
        Allocation("weight", "w", "int64", row),
        Allocation("input", "x", "int64", row),
    )
    first, y, second, w, x = (View(index, 0, "int64", row) for index in range(5))
    tasks = (
        Task("mix1_1", 0, (), (x, w), (first,)),
        Task("mix1_1", 0, (), (w, x), (second,)),
        Task("mix1_1", 0, (), (first, second), (y,)),
    )
    given = {"x": values(3), "w": values(1)}
    found = load(Schedule("two", allocations, tasks), threads=1, poison=True).run({"x": given["x"]})
    made = [3 * given["x"] + given["w"] + 1, 3 * given["w"] + given["x"] + 1]
    numpy.testing.assert_array_equal(found["y"], 3 * made[0] + made[1] + 1)


def two_streams(slow: str, after: tuple[int, ...]) -> Schedule:
    """Stream 1 writes slowly what stream 0, the caller's, reads."""
    row = (LANES,)
    allocations = (
        Allocation("input", "x", "int64", row),
        Allocation("weight", "w", "int64", row),
        Allocation("arena", "arena", "uint8", (8 * LANES,)),
        Allocation("output", "y", "int64", row),
    )
    x, w, t, y = (View(i, 0, "int64", row) for i in range(4))
    first = Task(slow, 1, (), (x, w), (t,))
    return Schedule("two", allocations, (first, Task("mix1_1", 0, after, (t, w), (y,))))


def test_a_dropped_token_is_seen_by_the_verifier_and_by_the_run() -> None:
    slow = mix("very_slow", 1, 3_000_000)
    known = {**kernels(), slow.name: slow}
    x = values(3)
    good, broken = two_streams("very_slow", (0,)), two_streams("very_slow", ())
    check_schedule(good)
    with pytest.raises(ScheduleError):
        check_schedule(broken)
    expected = reference(good, {"x": x, "w": values(1)})["y"]
    wrong = 0
    for schedule in (good, broken):
        executable = BACKEND.load(schedule, known, {"w": values(1)}, threads=2, poison=True)
        for _ in range(5):
            same = numpy.array_equal(executable.run({"x": x})["y"], expected)
            assert same or schedule is broken
            wrong += not same
    assert wrong


def test_several_callers_run_at_once() -> None:
    schedule = random_schedule(11, 30, 2)
    executable = load(schedule, threads=2)

    def call(seed: int) -> bool:
        x = values(seed)
        expected = reference(schedule, {"x": x, "w": values(1)})
        outputs = executable.run({"x": x})
        return all(numpy.array_equal(outputs[name], expected[name]) for name in expected)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(400)))


def test_one_executor_serves_one_caller_after_the_other() -> None:
    schedule = random_schedule(12, 10, 2)
    executor = load(schedule, threads=2).executor()
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(executor.run, {"x": values(seed)}) for seed in range(60)]
        found = [run.result()["y"] for run in runs]
    for seed, y in enumerate(found):
        expected = reference(schedule, {"x": values(seed), "w": values(1)})["y"]
        numpy.testing.assert_array_equal(y, expected)


def test_outputs_are_never_overwritten() -> None:
    executable = load(chain(), threads=2)
    first = executable.run({"x": values(1)})["y"]
    copy = first.copy()
    for seed in range(20):
        second = executable.run({"x": values(seed)})["y"]
        assert not numpy.shares_memory(first, second)
    numpy.testing.assert_array_equal(first, copy)


def test_outputs_of_some_size_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.backends.cpu.executable.ALIGNED_BYTES", 8 * LANES)
    executable = load(chain(), threads=2)
    for seed in range(20):
        assert executable.run({"x": values(seed)})["y"].ctypes.data % 64 == 0


def test_a_kernel_of_two_launches_runs_them_in_order() -> None:
    code = MIX.format(symbol="one", cells=1, delay=50) + MIX.format(symbol="two", cells=1, delay=1)
    launches = (Launch("one", (0, 1, 3), (LANES, 1, 1)), Launch("two", (3, 1, 2), (LANES, 1, 1)))
    kernel = KernelSpec("both", "object", compile_object(code), launches, ("", ""), (8 * LANES,))
    row = (LANES,)
    allocations = (
        Allocation("input", "x", "int64", row),
        Allocation("input", "v", "int64", row),
        Allocation("output", "y", "int64", row),
        Allocation("arena", "arena", "uint8", (8 * LANES,)),
    )
    views = [View(i, 0, a.dtype, a.shape) for i, a in enumerate(allocations)]
    task = Task("both", 0, (), (views[0], views[1]), (views[2], views[3]))
    schedule = Schedule("workspace", allocations, (task,))
    executable = BACKEND.load(schedule, {"both": kernel}, {}, threads=3)
    x, v = values(1), values(2)
    for _ in range(50):
        y = executable.run({"x": x, "v": v})["y"]
        numpy.testing.assert_array_equal(y, 3 * (3 * x + v + 1) + v + 1)


MEETING = """
define void @meet(ptr %buffers, i64 %begin, i64 %end) {
entry:
  %cells = load ptr, ptr %buffers
  %late = getelementptr i64, ptr %cells, i64 1
  %before = atomicrmw add ptr %cells, i64 1 seq_cst
  br label %wait
wait:
  %turn = phi i64 [ 0, %entry ], [ %next, %again ]
  %next = add i64 %turn, 1
  %count = load atomic i64, ptr %cells seq_cst, align 8
  %met = icmp sge i64 %count, 1
  br i1 %met, label %exit, label %again
again:
  %over = icmp sge i64 %next, 20000000000
  br i1 %over, label %alone, label %wait
alone:
  store atomic i64 7, ptr %late seq_cst, align 8
  br label %exit
exit:
  ret void
}
"""
"""Counts its calls in a cell that begins as -1, and waits there for the second one."""


def test_threads_share_the_blocks_of_a_launch_on_one_stream() -> None:
    launch = Launch("meet", (0,), (2, 1, 1))
    kernel = KernelSpec("meet", "object", compile_object(MEETING), (launch,), ())
    allocations = (Allocation("output", "y", "int64", (2,)),)
    task = Task("meet", 0, (), (), (View(0, 0, "int64", (2,)),))
    schedule = Schedule("meet", allocations, (task,) * 3)
    executable = BACKEND.load(schedule, {"meet": kernel}, {}, threads=2, poison=True)
    for _ in range(3):
        assert executable.run({})["y"].tolist() == [5, -1]


def _seconds(thread: threading.Thread) -> float:
    """Time that a thread has spent on a processor."""
    with open(f"/proc/self/task/{thread.native_id}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) * 1e-9


def test_an_idle_team_sleeps() -> None:
    executable = load(random_schedule(5, 20, 4), threads=4)
    executable.run({"x": values(1)})
    threading.Event().wait(0.3)
    workers = [t for t in threading.enumerate() if t.name == "flowloom" and t.native_id]
    before = [_seconds(t) for t in workers]
    threading.Event().wait(0.3)
    after = [_seconds(t) for t in workers]
    assert max(b - a for a, b in zip(before, after, strict=True)) < 0.03


def test_threads_that_cannot_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads that have started end, and fewer do the work."""
    start, before, starts = threading.Thread.start, threading.active_count(), count()

    def refusing(thread: threading.Thread) -> None:
        if next(starts) >= 3:
            raise RuntimeError("can't start new thread")
        start(thread)

    executable = load(chain(), threads=6)
    monkeypatch.setattr(threading.Thread, "start", refusing)
    with pytest.raises(DeviceError, match=r"6 threads are .* starts 4"):
        executable.executor()
    assert threading.active_count() == before
    monkeypatch.undo()
    executable.executor()


def test_threads_end_with_the_executable() -> None:
    gc.collect()
    before = threading.active_count()
    executable = load(chain(), threads=3)
    executable.run({"x": values(1)})
    assert threading.active_count() == before + 2
    executable.close()
    assert threading.active_count() == before
    executable.run({"x": values(1)})
    del executable
    gc.collect()
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_run() -> None:
    text = (
        "import os, sys\n"
        "from tests.backends.test_cpu_executor import load, chain, values\n"
        "executable = load(chain(), threads=3)\n"
        "y = executable.run({'x': values(1)})['y']\n"
        "child = os.fork()\n"
        "same = (executable.run({'x': values(1)})['y'] == y).all()\n"
        "if child:\n"
        "    sys.exit(os.waitpid(child, 0)[1] or not same)\n"
        "sys.exit(not same)\n"
    )
    ended = subprocess.run([sys.executable, "-c", text], timeout=60)
    assert ended.returncode == 0


def test_a_schedule_without_tasks_runs() -> None:
    empty = Schedule("empty", (Allocation("input", "x", "float32", (2,)),), ())
    executable = BACKEND.load(empty, {}, {}, threads=2)
    assert executable.run({"x": numpy.zeros(2, numpy.float32)}) == {}


def test_aligned_weights_are_used_in_place_and_shared() -> None:
    weight = aligned_array((LANES,), numpy.int64)
    weight[:] = values(1)
    executable = BACKEND.load(chain(), kernels(), {"w": weight}, threads=1)
    first, second = executable.executor(), executable.executor(threads=2)
    weight += 1
    x = values(2)
    expected = reference(chain(), {"x": x, "w": weight})["y"]
    for executor in (first, second):
        numpy.testing.assert_array_equal(executor.run({"x": x})["y"], expected)


def test_only_tokens_of_other_streams_are_waited_for() -> None:
    schedule = chain()
    tasks = tuple(replace(t, after=(i - 1,) if i else ()) for i, t in enumerate(schedule.tasks))
    executable = load(replace(schedule, tasks=tasks), threads=2)
    expected = reference(schedule, {"x": values(1), "w": values(1)})["y"]
    numpy.testing.assert_array_equal(executable.run({"x": values(1)})["y"], expected)
