"""Checks on a GPU that measure: streams overlap, choices are the fastest, overhead is small."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from compiler.autotune.bindings import measure_bindings, running
from compiler.autotune.profile import measure_kernels
from compiler.backends.gpu.executor import GpuExecutor
from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.budget import Budget
from compiler.choice.judges import MeasuredJudge
from compiler.schedule.choices import BINDING, MODES
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from tests.backends.gpu import device_checks as on
from tests.backends.gpu.cases import Case, Mix, case

OVERHEAD = Path(__file__).parents[3] / "benchmarks" / "gpu_overhead.py"


def check_overlap() -> str:
    """Independent kernels on several streams take less time than on one."""
    times: dict[tuple[str, int], float] = {}
    for streams in (1, 8):
        found = independent(streams)
        for options in on.OPTIONS:
            executor = on.load(found, "work", **options).executor()
            arrays = {name: on.OnDevice(array) for name, array in found.inputs(0).items()}
            outputs = on.outputs_on_device(found)
            samples = list[float]()
            for _ in range(60):
                start = perf_counter()
                executor.run(arrays, outputs=outputs)
                samples.append(1e6 * (perf_counter() - start))
            times["+".join(str(v) for v in options.values()), streams] = median(samples[10:])
    assert times["graph", 8] < 0.5 * times["graph", 1], times
    return ", ".join(f"{mode}/{n}: {time:.0f} us" for (mode, n), time in times.items())


def independent(streams: int) -> Case:
    """Eight chains of twelve one-block kernels each, one output a chain."""
    kernel = Mix("chain", (32,), (32,), 5)
    inputs = Allocation("input", "x", "uint32", (32,))
    outputs = tuple(Allocation("output", f"y{i}", "uint32", (32,)) for i in range(8))
    arena = Allocation("arena", "arena", "uint8", (8 * 12 * 128,))
    tasks = list[Task]()
    for step in range(12):
        for chain in range(8):
            slot = View(2 + chain, 0, "uint32", (32,))
            here = slot if step == 11 else View(1, 128 * (12 * chain + step), "uint32", (32,))
            source = tasks[-8].writes[0] if step else View(0, 0, "uint32", (32,))
            tasks.append(Task("chain", chain % streams, (), (source,), (here,)))
    schedule = Schedule("chains", (inputs, arena, *outputs), tuple(tasks))
    return Case(schedule, {"chain": (kernel,)}, {})


def check_bindings() -> str:
    """Both ways to bind a moving buffer are timed, the faster is kept, and bits stay the same."""
    found = case(15, tasks=30, streams=4, words=300)
    executor = on.load(found).executor()
    choices = measure_bindings(executor, Budget(20.0))
    figures = {choice.question.removeprefix(BINDING): choice for choice in choices}
    names = [a.name for a in found.schedule.allocations if a.kind in ("input", "output")]
    assert sorted(figures) == sorted(names), figures
    assert executor.bindings == {name: figures[name].chosen for name in executor.bindings}
    inputs = found.inputs(5)
    arrays, outputs = {n: on.OnDevice(a) for n, a in inputs.items()}, on.outputs_on_device(found)
    executor.run(arrays, outputs=outputs)
    on.equal({n: o.get() for n, o in outputs.items()}, found.expected(inputs), "after measuring")
    return ", ".join(
        f"{name}: {f.chosen} (update {f.timings['update'].median / 1e3:.1f}, copy "
        f"{f.timings['copy'].median / 1e3:.1f} us)"
        for name, f in figures.items()
    )


def check_choice() -> str:
    """Modes and stream counts are timed; the choice is no slower than the one-stream graph."""
    executables = {streams: on.load(independent(streams), "work") for streams in (1, 2, 8)}
    candidates = {
        f"{mode}/{streams}": partial(executable.executor, mode=mode)
        for streams, executable in executables.items()
        for mode in MODES
    }
    judge = MeasuredJudge[Callable[[], GpuExecutor]](lambda made: running(made()), Budget(5.0))
    choice = choose(Alternatives("mode", candidates), judge)
    assert choice.baseline == "graph/1"
    assert choice.timings[choice.chosen].median <= choice.timings["graph/1"].median
    times = ", ".join(f"{name} {time / 1e3:.0f}" for name, time in choice.times.items())
    return f"chosen {choice.chosen} of {times} us"


def check_profile() -> str:
    """A kernel that waits 6000 clocks is timed as about that, and the time finds its way back."""
    found, driver = independent(8), on.device()
    text = f"#define WAIT {on.WAITS['work']}\n"
    text += "".join(mix.cuda() for mix in found.functions.values())
    image = on.compile_cuda(text, driver.device.architecture)
    specs = found.specs(lambda _: image)
    times = measure_kernels(driver, found.schedule, specs)
    record = next(iter(times.records.values()))
    assert 2000 < record.warm < 30000, record
    assert times.costs(specs.values(), driver.device) == {"chain": record.in_a_run}
    return f"warm {record.warm:.0f} ns [{record.low:.0f}, {record.high:.0f}], cold {record.cold}"


def check_overhead() -> str:
    """Queueing a run on device buffers costs the host at most 10 us above an empty graph."""
    overhead: Any = SimpleNamespace(**run_path(str(OVERHEAD)))
    lines: list[str] = []
    worst = 0.0
    for tasks in (1, 100, 400):
        figures = overhead.measure(tasks)
        above = overhead.above_empty(figures)
        worst = max(worst, above["ours, device arrays: queue"] if tasks == 1 else 0.0)
        lines.append(f"{tasks} tasks: " + ", ".join(f"{n} {t:.1f}" for n, t in figures.items()))
    assert worst <= overhead.GOAL_US, f"{worst:.1f} us above an empty graph; " + "; ".join(lines)
    return f"{worst:.1f} us above; " + "; ".join(lines)


CHECKS: tuple[Callable[[], str], ...] = (
    check_overlap,
    check_bindings,
    check_choice,
    check_profile,
    check_overhead,
)
