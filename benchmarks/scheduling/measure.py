"""Times of schedules: simulated, and measured on a GPU or on the CPU."""

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.scheduling.cases import Case, Planned
from compiler.autotune.kernel_times import KernelTimeDatabase
from compiler.autotune.schedule.costs import measure_missing
from compiler.backends.base import backend
from compiler.graph import cost
from compiler.schedule.choices import Mode
from compiler.schedule.tasks import Allocation, Schedule
from compiler.scheduling.costs import Costs
from compiler.scheduling.simulator import TaskDemand, predict
from compiler.target.devices import CORES
from compiler.target.target import parse_target

ROUNDS = 25
"""Runs of each schedule that are timed; schedules take turns."""

Run = Callable[[], float]


def simulated(planned: Planned, case: Case, costs: Mapping[str, float], mode: Mode) -> float:
    """Microseconds that the model of the device predicts."""
    schedule = planned.schedule
    if not parse_target(case.target).is_gpu:
        works = [TaskDemand(costs[task.kernel]) for task in schedule.tasks]
        return predict(schedule, works, "graph", CORES).makespan / 1e3
    known = Costs.make(case.kernels, costs, parse_target(case.target).architecture)
    works = known.works(schedule, case.kernels)
    return predict(schedule, works, mode, known.device, early=True).makespan / 1e3


def estimated_costs(case: Case) -> dict[str, float]:
    """Nanoseconds of each kernel from its work."""
    if not parse_target(case.target).is_gpu:
        works = {name: cost.Work(k.flops, k.traffic_bytes) for name, k in case.kernels.items()}
        return {name: float(cost.estimate(work)) for name, work in works.items()}
    return dict(Costs.make(case.kernels, {}, parse_target(case.target).architecture).of)


def measured_costs(case: Case, schedule: Schedule) -> dict[str, float]:
    """Nanoseconds of each kernel on the GPU that is present."""
    from compiler.backends.cuda.device import device

    database = KernelTimeDatabase()
    measure_missing(device(), schedule, case.kernels, database, lambda: False)
    return estimated_costs(case) | database.costs(case.kernels.values(), device().device)


def random_array(chance: np.random.Generator, spec: Allocation) -> Any:
    """Small numbers of a weight's or an input's type; integers are 0 or 1: valid indices."""
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, spec.dtype, spec.dtype))
    if dtype.kind in "iub":
        return chance.integers(0, 2, spec.shape).astype(dtype)
    return (0.05 * chance.standard_normal(spec.shape, np.float32)).astype(dtype)


class Bench:
    """One case on its device: weights loaded once, a runner for each schedule and mode."""

    def __init__(self, case: Case, schedules: Mapping[str, Schedule], costs: Mapping[str, float]):
        chance = np.random.default_rng(0)
        first = next(iter(schedules.values()))
        self.weights = {a.name: random_array(chance, a) for a in first.of_kind("weight")}
        self.inputs = {a.name: random_array(chance, a) for a in first.of_kind("input")}
        self.case, self.schedules = case, schedules
        self.base: Any = None
        if parse_target(case.target).backend == "cuda":
            from compiler.backends.cuda.device import device
            from compiler.backends.gpu.executable import GpuExecutable

            self.base = GpuExecutable.load(device(), first, case.kernels, self.weights, costs=costs)

    def open(self, name: str, mode: str) -> tuple[Any, Run]:
        """An executor, and what runs it once and returns nanoseconds."""
        schedule, kernels = self.schedules[name], self.case.kernels
        if self.base is None:
            executor: Any = backend("cpu").load(schedule, kernels, self.weights).executor()
            return executor, lambda: _wall(executor, self.inputs)
        from compiler.autotune.bindings import timed_run

        executor = self.base.alternative(schedule).executor(mode=mode)
        return executor, timed_run(executor)

    def time(self, mode: str) -> dict[str, float]:
        """Median microseconds of each schedule; they take turns in one process."""
        opened = {name: self.open(name, mode) for name in self.schedules}
        samples: dict[str, list[float]] = {name: [] for name in opened}
        for turn in range(3 + ROUNDS):
            for name, (_, run) in opened.items():
                if (taken := run()) and turn >= 3:
                    samples[name].append(taken / 1e3)
        for executor, _ in opened.values():
            executor.close()
        return {name: median(times) for name, times in samples.items()}

    def same_bits(self) -> dict[str, bool]:
        """Whether each schedule gives the first one's outputs, with every buffer poisoned."""
        expected: dict[str, Any] = {}
        same: dict[str, bool] = {}
        for name in self.schedules:
            outputs = self._outputs(name)
            expected = expected or outputs
            pairs = ((outputs[key], array) for key, array in expected.items())
            same[name] = all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in pairs)
        return same

    def _outputs(self, name: str) -> dict[str, Any]:
        if self.base is None:
            executor, _ = self.open(name, "streams")
        else:
            executor = self.base.alternative(self.schedules[name]).executor(
                mode="graph", poison=True
            )
        outputs = {key: np.atleast_1d(a) for key, a in executor.run(self.inputs).items()}
        executor.close()
        return outputs


def _wall(executor: Any, inputs: Mapping[str, Any]) -> float:
    start = perf_counter_ns()
    executor.run(inputs)
    return perf_counter_ns() - start


def deadline(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds from now have passed."""
    end = perf_counter() + seconds
    return lambda: perf_counter() > end
