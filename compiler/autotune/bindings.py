"""The measured choice among execution modes and schedules, and of how buffers are bound.

After PyGraph (2025): a graph is not always faster, so it is measured; and the choice is never
slower than the graph of the one-stream schedule, which is one of the candidates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from time import perf_counter, perf_counter_ns

from compiler.autotune.timing import WARM_UP, Timing, time_all
from compiler.backends.gpu.arrays import DeviceArray
from compiler.backends.gpu.binding import Binding
from compiler.backends.gpu.executor import GpuExecutor
from compiler.backends.gpu.memory import reserve
from compiler.backends.gpu.random_inputs import fill_inputs
from compiler.errors import DeviceError
from compiler.schedule import BindingChoice


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """The candidate kept, the one it is compared with, and every figure that decided."""

    name: str
    baseline: str
    timings: Mapping[str, Timing]
    skipped: Mapping[str, str]


def choose(timings: Mapping[str, Timing], baseline: str) -> str:
    """The fastest candidate that is surely no slower than the baseline, else the baseline.

    Surely: the upper end of its interval is at most the baseline's median.
    """
    limit = timings[baseline].median
    safe = [name for name, timing in timings.items() if timing.high <= limit]
    return min([*safe, baseline], key=lambda name: (timings[name].median, name != baseline))


def measured_choice(
    candidates: Mapping[str, Callable[[], GpuExecutor]], baseline: str, seconds: float
) -> MeasuredChoice:
    """Run candidates on their device within a time and keep the best.

    A candidate opens an executor; one that does not fit on the device is skipped and the reason
    recorded, except the baseline.
    """
    open_ones: dict[str, GpuExecutor] = {}
    skipped: dict[str, str] = {}
    for name in (baseline, *(name for name in candidates if name != baseline)):
        try:
            open_ones[name] = candidates[name]()
        except DeviceError as error:
            if name == baseline:
                raise
            skipped[name] = str(error)
    try:
        runs = {name: timed_run(executor) for name, executor in open_ones.items()}
        timings = time_all(runs, seconds, perf_counter, keep=(baseline,))
        skipped |= dict.fromkeys(runs.keys() - timings.keys(), "time was over")
    finally:
        for executor in open_ones.values():
            executor.close()
    return MeasuredChoice(choose(timings, baseline), baseline, timings, skipped)


def timed_run(executor: GpuExecutor) -> Callable[[], float]:
    """A function that runs on the executor's own buffers and returns the wall nanoseconds."""
    fill_inputs(executor)
    return partial(_wall_time, executor, executor.in_place("input"), executor.in_place("output"))


def _wall_time(
    executor: GpuExecutor, inputs: Mapping[str, DeviceArray], outputs: Mapping[str, DeviceArray]
) -> float:
    start = perf_counter_ns()
    executor.run(inputs, outputs=outputs)
    return perf_counter_ns() - start


def measure_bindings(executor: GpuExecutor, seconds: float) -> dict[str, BindingChoice]:
    """Time all ways to bind a buffer that moves, for each input and output, and set the fastest.

    Returns the figures; nothing is measured where the executor has no choice, and what is not
    measured when time is over stays as it is.
    """
    fill_inputs(executor)
    inputs, outputs = executor.in_place("input"), executor.in_place("output")
    trials = [(inputs, name) for name in inputs] + [(outputs, name) for name in outputs]
    figures: dict[str, BindingChoice] = {}
    end = perf_counter() + seconds
    for arrays, name in trials if executor.binds_freely else []:
        if arrays[name].nbytes and perf_counter() < end:
            share = seconds / len(trials)
            figures[name] = _measure_binding(executor, inputs, outputs, arrays, name, share)
    return figures


def _measure_binding(
    executor: GpuExecutor,
    inputs: dict[str, DeviceArray],
    outputs: dict[str, DeviceArray],
    arrays: dict[str, DeviceArray],
    name: str,
    seconds: float,
) -> BindingChoice:
    """Let one buffer of a run move to and fro, bound in each way; `arrays` holds it."""
    own, driver = arrays[name], executor.driver
    moved = [reserve(driver, own.nbytes, f"measuring {name!r}") for _ in range(2)]
    for address in moved:
        driver.copy(address, own.address, own.nbytes, executor.stream)
    turn = cycle(DeviceArray(driver, own.allocation, address, None) for address in moved)

    def once(binding: Binding) -> float:
        if executor.bindings[name] != binding:
            executor.bind_by(name, binding)
            for _ in range(WARM_UP):
                arrays[name] = next(turn)
                _wall_time(executor, inputs, outputs)
        arrays[name] = next(turn)
        return _wall_time(executor, inputs, outputs)

    ways: dict[str, Callable[[], float]] = {w: partial(once, w) for w in executor.ways(name)}
    timings = time_all(ways, seconds, perf_counter, keep=tuple(ways), samples=30)
    arrays[name] = own
    chosen = min(executor.ways(name), key=lambda way: timings[way].median)
    executor.bind_by(name, chosen)
    for address in moved:
        driver.free(address)
    return BindingChoice(chosen, timings)
