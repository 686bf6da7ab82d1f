"""How far kernels are from the roof: their times against what their FLOPs and bytes need."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.artifact.module import Module
from compiler.backends.cpu.peaks import measured_core
from compiler.scheduling.critical_path import floor_time
from compiler.scheduling.prediction import Prediction
from compiler.target.devices import DeviceModel
from compiler.target.target import parse_target
from compiler.tools.inputs import random_inputs
from compiler.tools.measured import MeasuredRun, measured_run

FAR = 3.0
"""Times the least that a kernel can take, from which on it is listed."""

RUNS = 5
"""Measured runs; the shortest counts, as the first ones fill caches."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel: its tasks, nanoseconds of all, the least of them, and whether that was measured."""

    name: str
    tasks: int
    time: float
    least: float
    measured: bool

    @property
    def ratio(self) -> float:
        """The time over the least; 0 where a kernel neither computes nor moves anything."""
        return self.time / self.least if self.least else 0.0


def roof_of(module: Module, predicted: Prediction, run: MeasuredRun) -> DeviceModel:
    """The peaks of what ran the module: of one core of this host, or of the device's model."""
    measured_here = run.times is not None and parse_target(module.target).backend == "cpu"
    return measured_core() if measured_here else predicted.device


def best_run(module: Module) -> MeasuredRun:
    """The shortest of some measured runs on a CPU.

    GPUs have times of kernels from their compilation, which events between tasks would lengthen.
    """
    if parse_target(module.target).backend != "cpu":
        return MeasuredRun(None, "by the compilation")
    inputs = random_inputs(module, 0)
    runs = [measured_run(module, inputs) for _ in range(RUNS)]
    return min(runs, key=lambda run: max((time.end for time in run.times or ()), default=0.0))


def task_times(predicted: Prediction, run: MeasuredRun) -> list[float]:
    """Nanoseconds of each task: of a measured run, or predicted."""
    if run.times is None:
        return [work.time for work in predicted.works]
    return [time.end - time.start for time in run.times]


def kernel_times(module: Module, predicted: Prediction, run: MeasuredRun) -> list[KernelTime]:
    """The kernels of a schedule's tasks, the most costly first; those of bodies have no times."""
    roof = roof_of(module, predicted, run)
    names = [task.kernel for task in module.schedule.tasks]
    times: defaultdict[str, float] = defaultdict(float)
    for name, time in zip(names, task_times(predicted, run), strict=True):
        times[name] += time
    rows = [
        KernelTime(
            name,
            count,
            times[name],
            count * floor_time(module.kernels[name], roof),
            run.times is not None or name in predicted.measured,
        )
        for name, count in Counter(names).items()
        if name in module.kernels
    ]
    return sorted(rows, key=lambda row: (-row.time, row.name))


def far_from_roof(rows: Sequence[KernelTime], limit: int) -> list[str]:
    """Lines of text: the kernels beyond `FAR` times their least, by the time that they lose."""
    far = sorted(
        (row for row in rows if row.ratio > FAR), key=lambda row: (row.least - row.time, row.name)
    )
    share = sum(row.time for row in far) / (sum(row.time for row in rows) or 1.0)
    first = (
        f"{len(far)} of {len(rows)} kernels, {share:.0%} of the time, take more than {FAR:.0f}"
        " times what their FLOPs and bytes need"
    )
    return [
        first,
        *(f"{row.ratio:9.1f} times, {row.time / 1e3:9.1f} us  {row.name}" for row in far[:limit]),
    ]
