"""The overhead of the CPU executor for each task and each run: kernels that do nothing, timed.

`python benchmarks/dispatch_overhead.py [--tasks N] [--runs N] [--threads N ...] [--json]`.
Prints microseconds a task, the median over runs of a run's time divided by its tasks; and the time
from the call of `run` to the first kernel, by a kernel that reads the clock. A stream belongs to no
thread, and the caller may execute all these empty tasks before others wake: tokens are timed here,
not hand-offs from one core to another.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import llvmlite.binding
import numpy

from compiler.backends.base import Executable
from compiler.backends.cpu.driver import BACKEND, usable_threads
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Allocation, Schedule, Task, View

llvm: Any = llvmlite.binding  # its functions are untyped

EMPTY = "define void @{symbol}(ptr %buffers, i64 %begin, i64 %end) {{\n  ret void\n}}\n"

CLOCK = """
declare i32 @clock_gettime(i32, ptr)
define void @read_clock(ptr %buffers, i64 %begin, i64 %end) {
  %where = load ptr, ptr %buffers
  %failed = call i32 @clock_gettime(i32 1, ptr %where)
  ret void
}
"""
"""Writes seconds and nanoseconds of Linux's monotonic clock, which Python's perf_counter reads."""


def compile_kernel(symbol: str, text: str, args: tuple[int, ...], blocks: int) -> KernelSpec:
    """A kernel from LLVM IR."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    code = machine.emit_object(llvm.parse_assembly(text))
    return KernelSpec(symbol, "object", code, (Launch(symbol, args, (blocks, 1, 1)),), ())


def empty_tasks(tasks: int, streams: int, blocks: int, threads: int) -> Executable:
    """Tasks in turn on each stream; each waits for the one before it, so tokens cross streams."""
    kernel = compile_kernel("empty", EMPTY.format(symbol="empty"), (), blocks)
    chain = tuple(Task("empty", i % streams, (i - 1,) if i else (), (), ()) for i in range(tasks))
    return BACKEND.load(Schedule("empty", (), chain), {"empty": kernel}, {}, threads=threads)


def microseconds_a_task(executable: Executable, tasks: int, runs: int) -> float:
    """The median of many runs, after some that are not counted."""
    times: list[float] = []
    for _ in range(runs + 10):
        start = time.perf_counter_ns()
        executable.run({})
        times.append((time.perf_counter_ns() - start) / tasks / 1e3)
    return statistics.median(times[10:])


def microseconds_to_first_kernel(threads: int, runs: int, pause: float) -> float:
    """From the call of `run` until a kernel reads the clock; `pause` lets the threads sleep."""
    kernel = compile_kernel("read_clock", CLOCK, (0,), 1)
    allocations = (Allocation("output", "time", "int64", (2,)),)
    task = Task("read_clock", 0, (), (), (View(0, 0, "int64", (2,)),))
    schedule = Schedule("clock", allocations, (task,))
    executable = BACKEND.load(schedule, {"read_clock": kernel}, {}, threads=threads)
    times: list[float] = []
    for _ in range(runs):
        time.sleep(pause)
        start = time.perf_counter_ns()
        seconds, nanoseconds = executable.run({})["time"]
        times.append((int(seconds) * 10**9 + int(nanoseconds) - start) / 1e3)
    return statistics.median(times)


def measure(tasks: int, runs: int, threads: Sequence[int]) -> list[dict[str, str | int | float]]:
    """One row a case, in microseconds."""
    rows: list[dict[str, str | int | float]] = []
    for count in threads:
        for name, streams, blocks in (
            ("chain on one stream", 1, 1),
            ("two streams, a token every task", 2, 1),
            ("four streams, a token every task", 4, 1),
            ("chain of launches of 64 shared blocks", 1, 64),
        ):
            executable = empty_tasks(tasks, streams, blocks, count)
            figure = microseconds_a_task(executable, tasks, runs)
            rows.append({"case": name, "threads": count, "us_per_task": round(figure, 4)})
            executable.close()
        for name, pause in (("run to first kernel", 0.0), ("the same, threads asleep", 0.002)):
            figure = microseconds_to_first_kernel(count, runs, pause)
            rows.append({"case": name, "threads": count, "us": round(figure, 2)})
    return rows


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description="dispatch overhead of the CPU executor")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, usable_threads()])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.tasks, options.runs, options.threads)
    if options.json:
        print(json.dumps({"tasks": options.tasks, "runs": options.runs, "rows": rows}, indent=1))
        return
    for row in rows:
        figure = numpy.float64(row.get("us_per_task", row.get("us", 0)))
        unit = "us/task" if "us_per_task" in row else "us"
        print(f"{figure:9.3f} {unit:8} {row['threads']} threads, {row['case']}")


if __name__ == "__main__":
    main()
