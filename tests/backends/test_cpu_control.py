"""If and Loop tasks on the CPU, against running their bodies as functions of bytes."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.backends.cpu.driver import BACKEND
from compiler.errors import ScheduleError
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Control, ControlForm, Schedule, Task, View
from compiler.verify.happens_before import check_schedule
from tests.backends.objects import compile_object, mix
from tests.controlled import controlled_schedules
from tests.controlled_runs import run, salt_of, with_names

SUM = """
define private i64 @add(ptr %from, i64 %count, i64 %start) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %exit, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ %start, %entry ], [ %more, %loop ]
  %p = getelementptr i8, ptr %from, i64 %i
  %byte = load i8, ptr %p
  %wide = zext i8 %byte to i64
  %next = add i64 %i, 1
  %element = lshr i64 %i, 3
  %weight = add i64 %element, 1
  %weighted = mul i64 %wide, %weight
  %more = add i64 %sum, %weighted
  %done = icmp eq i64 %next, %count
  br i1 %done, label %exit, label %loop
exit:
  %found = phi i64 [ %start, %entry ], [ %more, %loop ]
  ret i64 %found
}
"""


def kernel_of(task: Task) -> KernelSpec:
    """Each element written is a weighted sum of the bytes read, modulo 4, or 2 for a bool."""
    return _kernel(task.kernel, tuple(v.nbytes for v in task.reads), task.writes[0].nbytes,
                   salt_of(task))  # fmt: skip


@cache
def _kernel(name: str, reads: tuple[int, ...], size: int, salt: int) -> KernelSpec:
    lines = [SUM, f"define void @{name}(ptr %buffers, i64 %begin, i64 %end) {{"]
    lines.append(f"  %s0 = add i64 0, {salt}")
    for number, count in enumerate(reads):
        lines += [
            f"  %q{number} = getelementptr ptr, ptr %buffers, i64 {number}",
            f"  %p{number} = load ptr, ptr %q{number}",
            f"  %s{number + 1} = call i64 @add(ptr %p{number}, i64 {count}, i64 %s{number})",
        ]
    type, mask = ("i8", 1) if size == 1 else ("i64", 3)
    lines += [
        f"  %q = getelementptr ptr, ptr %buffers, i64 {len(reads)}",
        "  %p = load ptr, ptr %q",
        f"  %masked = and i64 %s{len(reads)}, {mask}",
        "  %value = trunc i64 %masked to i8" if size == 1 else "  %value = add i64 %masked, 0",
    ]
    for element in range(1 if size == 1 else size // 8):
        lines += [
            f"  %e{element} = getelementptr {type}, ptr %p, i64 {element}",
            f"  store {type} %value, ptr %e{element}",
        ]
    code = compile_object("\n".join([*lines, "  ret void", "}"]))
    launch = Launch(name, tuple(range(len(reads) + 1)))
    return KernelSpec(name, "object", code, (launch,), ("",) * len(reads))


def kernels_of(schedule: Schedule) -> dict[str, KernelSpec]:
    """The kernels of all tasks."""
    return {t.kernel: kernel_of(t) for t in schedule.all_tasks if t.control is None}


@settings(max_examples=80, deadline=None)
@given(controlled_schedules(), st.integers(0, 2**32), st.integers(1, 3))
def test_random_nested_schedules_compute_what_their_bodies_do(
    schedule: Schedule, seed: int, threads: int
) -> None:
    schedule = with_names(schedule)
    try:
        check_schedule(schedule)
    except ScheduleError:
        assume(False)
    random = np.random.default_rng(seed)
    executable = BACKEND.load(schedule, kernels_of(schedule), {}, threads=threads, poison=True)
    for _ in range(4):
        inputs = {
            a.name: random.integers(0, 2 if a.dtype == "bool" else 4, a.shape).astype(a.dtype)
            for a in schedule.of_kind("input")
        }
        expected = run(schedule, [array.tobytes() for array in inputs.values()])
        found = executable.run(inputs)
        assert [array.tobytes() for array in found.values()] == expected
    executable.close()


LANES = 4096
ROW = (LANES,)


def adding(blocks: int) -> tuple[Schedule, Mapping[str, KernelSpec]]:
    """A loop that mixes its state with a captured tensor, in blocks that threads share."""
    kernel = mix(f"add_{blocks}", blocks, 1, LANES)
    body = Schedule(
        "body",
        (
            Allocation("input", "i", "int64", ()),
            Allocation("input", "state", "int64", ROW),
            Allocation("input", "other", "int64", ROW),
            Allocation("output", "next", "int64", ROW),
        ),
        (Task(kernel.name, 0, (), (View(1, 0, "int64", ROW), View(2, 0, "int64", ROW)),
              (View(3, 0, "int64", ROW),)),),
    )  # fmt: skip
    reads = (View(0, 0, "int64", ()), View(1, 0, "bool", ()), View(2, 0, "int64", ROW),
             View(3, 0, "int64", ROW))  # fmt: skip
    size = 8 * LANES
    writes = (View(4, 0, "int64", ROW), View(5, 0, "uint8", (8,)), View(5, 64, "uint8", (size,)))
    form = ControlForm("loop", carried=1)
    allocations = (
        Allocation("input", "trips", "int64", ()),
        Allocation("input", "going", "bool", ()),
        Allocation("input", "x", "int64", ROW),
        Allocation("input", "w", "int64", ROW),
        Allocation("output", "y", "int64", ROW),
        Allocation("arena", "arena", "uint8", (64 + size,)),
    )
    task = Task("loop", 0, (), reads, writes, control=Control(form, (body,)))
    schedule = Schedule("adding", allocations, (task,))
    check_schedule(schedule)
    return schedule, {kernel.name: kernel}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("blocks", [1, 16])
def test_a_loop_runs_any_number_of_times(threads: int, blocks: int) -> None:
    schedule, known = adding(blocks)
    executable = BACKEND.load(schedule, known, {}, threads=threads, poison=True)
    x, w = np.arange(LANES), np.arange(LANES)[::-1] * 7
    for trips in (-(2**63), -1, 0, 1, 2, 5, 2001):
        expected = x
        for _ in range(trips):
            expected = 3 * expected + w + 1
        given = {"trips": np.int64(trips), "going": np.True_, "x": x, "w": w}
        arrays = {name: np.asarray(array) for name, array in given.items()}
        np.testing.assert_array_equal(executable.run(arrays)["y"], expected)
        stopped = executable.run({**arrays, "going": np.asarray(False)})["y"]
        np.testing.assert_array_equal(stopped, x)
    executable.close()


@pytest.mark.parametrize("backwards", [(False, False), (False, True), (True, False), (True, True)])
def test_rows_are_read_and_written_in_their_direction(backwards: tuple[bool, bool]) -> None:
    length, row = 3, (4,)
    reads, writes = ("state", "row"), ("next", "out")
    edge = [Allocation("input", "i", "int64", ())]
    edge += [Allocation("input", name, "int64", row) for name in reads]
    edge += [Allocation("output", name, "int64", row) for name in writes]
    _, state, value, after, out = (View(i, 0, "int64", row) for i in range(5))
    kernel = mix("mix_rows", 1, 1, row[0])
    tasks = (
        Task(kernel.name, 0, (), (state, value), (after,)),
        Task(kernel.name, 1, (), (value, state), (out,)),
    )
    body = Schedule("body", tuple(edge), tasks)
    form = ControlForm("loop", 1, length, scans=backwards[:1], stacks=backwards[1:])
    spaces = (View(4, 0, "uint8", (8,)), View(4, 64, "uint8", (32,)))
    rows = (length, *row)
    task = Task(
        "loop", 0, (), (View(0, 0, "int64", row), View(1, 0, "int64", rows)),
        (View(2, 0, "int64", row), View(3, 0, "int64", rows), *spaces),
        control=Control(form, (body,)),
    )  # fmt: skip
    allocations = (
        Allocation("input", "first", "int64", row),
        Allocation("input", "x", "int64", rows),
        Allocation("output", "last", "int64", row),
        Allocation("output", "y", "int64", rows),
        Allocation("arena", "arena", "uint8", (128,)),
    )
    schedule = Schedule("rows", allocations, (task,))
    check_schedule(schedule)
    first, x = np.arange(4), np.arange(12).reshape(rows) * 11
    found = BACKEND.load(schedule, {kernel.name: kernel}, {}).run({"first": first, "x": x})
    last, stacked = first, list[np.ndarray]()
    for line in x[::-1] if backwards[0] else x:
        stacked.append(3 * line + last + 1)
        last = 3 * last + line + 1
    np.testing.assert_array_equal(found["last"], last)
    np.testing.assert_array_equal(found["y"], stacked[::-1] if backwards[1] else stacked)
