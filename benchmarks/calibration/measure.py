"""Measures cases on a GPU: each kernel alone, kernels side by side, and replays of schedules.

Needs neither TVM nor onnx. Times in nanoseconds.
"""

import random
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.calibration.cases import Case, load
from benchmarks.calibration.data import compact, write
from compiler.autotune.kernel_times import key_of
from compiler.autotune.profile import measure_kernels
from compiler.backends.cuda.device import device
from compiler.backends.gpu.buffers import Buffers
from compiler.backends.gpu.delays import Delays
from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.gpu.executor import ScheduleRunner
from compiler.backends.gpu.functions import Functions
from compiler.backends.gpu.graph import GraphSpec
from compiler.backends.gpu.kernels import Calls
from compiler.backends.gpu.runners import GraphRunner, StreamRunner
from compiler.backends.gpu.sharing import Weights
from compiler.schedule.choices import MODES
from compiler.schedule.tasks import Schedule, Task
from compiler.scheduling.graph_plan import plan_graph
from compiler.target.devices import typical_device
from compiler.tensors.dtypes import numpy_dtype

WARM_UP, REPLAYS = 5, 31

BRANCH_NS = 100_000.0
"""About how long each of the branches that run side by side takes alone."""


class Bench:
    """One case on a device: functions and weights loaded once."""

    def __init__(self, driver: Driver, case: Case):
        self.driver, self.case = driver, case
        first = next(iter(case.schedules.values()))
        synthetic = case.model == "synthetic"
        every = [Task(name, 0, (), (), ()) for name in case.kernels] if synthetic else first.tasks
        self.tasks = {task.kernel: task for task in every}
        self.names = list(self.tasks)
        self.whole = Schedule(case.model, first.allocations, tuple(self.tasks.values()))
        self.functions = Functions(driver, self.whole, case.kernels)
        self.weights = Weights(driver, first, random_weights(first))
        self.stream = driver.create_stream()
        self.times: dict[str, float] = {}

    def kernels(self, samples: int) -> list[dict[str, Any]]:
        """Every kernel alone, and what it uses of the device."""
        found = measure_kernels(self.driver, self.whole, self.case.kernels, samples)
        rows: list[dict[str, Any]] = []
        for name in self.names:
            kernel = self.case.kernels[name]
            record = found.records[key_of(kernel, self.driver.device)]
            self.times[name] = record.warm
            row = {"name": name, "flops": kernel.flops, "bytes": kernel.traffic_bytes}
            rows.append(row | asdict(record) | {"launches": self._launches(name)})
        return rows

    def _launches(self, name: str) -> list[dict[str, int]]:
        rows: list[dict[str, int]] = []
        for function, launch in self.functions.of[name]:
            used, threads = self.driver.function_info(function), prod(launch.block)
            fit = self.driver.blocks_per_multiprocessor(function, threads, launch.shared_bytes)
            row = {"blocks": prod(launch.grid), "threads": threads, "registers": used.registers}
            row |= {"shared": used.shared_bytes + launch.shared_bytes, "local": used.local_bytes}
            rows.append(row | {"fit": fit})
        return rows

    def replays(self, schedule: Schedule, modes: Sequence[str]) -> dict[str, Any]:
        """Median times of a schedule's runs, on the device and for the host, by mode."""
        driver = self.driver
        typical = typical_device(driver.device.architecture)
        planned = plan_graph(schedule, self.case.kernels, self.times, typical, driver.priorities)
        buffers = Buffers(driver, schedule, self.weights.addresses)
        calls = Calls(driver, schedule, self.functions, buffers.addresses)
        for allocation, address in zip(schedule.allocations, buffers.addresses, strict=True):
            if allocation.kind != "weight" and allocation.nbytes:
                driver.fill(address, 0, allocation.nbytes, self.stream)
        row: dict[str, Any] = {}
        spec = GraphSpec(driver, planned, calls, Delays(driver, None))
        for mode in modes:
            runner: ScheduleRunner = (
                GraphRunner(spec, self.stream)
                if mode == "graph"
                else StreamRunner(spec, self.stream, graphs=mode == "subgraphs")
            )
            row[mode] = self.timed(runner.run)
            runner.close()
        driver.synchronize_stream(self.stream)
        buffers.close()
        return row

    def timed(self, run: Callable[[Handle], None]) -> dict[str, float]:
        """Median nanoseconds between events around a run, and of the host until it has ended."""
        driver, stream = self.driver, self.stream
        start, end = (driver.create_event(timing=True) for _ in range(2))
        inside: list[float] = []
        outside: list[float] = []
        for _ in range(WARM_UP + REPLAYS):
            driver.synchronize_stream(stream)
            driver.record(start, stream)
            run(stream)
            driver.record(end, stream)
            driver.synchronize_event(end)
            inside.append(driver.elapsed(start, end))
        for _ in range(WARM_UP + REPLAYS):
            before = perf_counter_ns()
            run(stream)
            driver.synchronize_stream(stream)
            outside.append(float(perf_counter_ns() - before))
        for event in (start, end):
            driver.destroy_event(event)
        return {"device": median(inside[WARM_UP:]), "wall": median(outside[WARM_UP:])}

    def free(self) -> list[str]:
        """The kernels that may run in any order: no operand of theirs may hold indices."""
        return [n for n in self.names if all("float" in v.dtype for v in self.tasks[n].reads)]

    def side_by_side(self, names: Sequence[str]) -> dict[str, Any]:
        """A chain of each kernel, all at once; of such lengths that each takes as long alone."""
        counts = [max(2, min(50, round(BRANCH_NS / self.times[name]))) for name in names]
        tasks = [
            Task(name, stream, (), self.tasks[name].reads, self.tasks[name].writes)
            for stream, (name, count) in enumerate(zip(names, counts, strict=True))
            for _ in range(count)
        ]
        chains = Schedule(self.case.model, self.whole.allocations, tuple(tasks))
        figures = self.replays(chains, ("graph",))["graph"]
        chosen = [self.names.index(name) for name in names]
        return {"model": self.case.model, "kernels": chosen, "counts": counts} | figures


def random_weights(schedule: Schedule) -> dict[str, Any]:
    """Small numbers for every weight; ones for integers, which may be indices."""
    chance, found = np.random.default_rng(0), dict[str, Any]()
    for weight in schedule.of_kind("weight"):
        if "float" in weight.dtype:
            values = chance.standard_normal(weight.shape, np.float32) * np.float32(0.02)
        else:
            values = np.zeros(weight.shape)
        found[weight.name] = np.ascontiguousarray(values.astype(numpy_dtype(weight.dtype)))
    return found


def measure(driver: Driver, case: Case, seconds: float, samples: int) -> dict[str, Any]:
    """All figures of one case; kernels side by side until time is over."""
    end, bench = perf_counter() + seconds, Bench(driver, case)
    found: dict[str, Any] = {"kernels": bench.kernels(samples), "schedules": {}, "side by side": []}
    for name, schedule in case.schedules.items():
        real = case.model != "synthetic"
        modes = MODES if real and name in ("sequential", "opara4", "ppd8-opara4") else MODES[:1]
        replays = bench.replays(schedule, modes)
        found["schedules"][name] = {"tasks": compact(schedule, bench.names), "replays": replays}
    chance, free = random.Random(case.model), bench.free()
    while perf_counter() < end and case.model != "synthetic" and len(found["side by side"]) < 60:
        names = chance.sample(free, min(len(free), chance.choice((2, 2, 2, 4, 8))))
        found["side by side"].append(bench.side_by_side(names))
    return found


def measure_all(cases: Path, output: Path, seconds: float = 5.0, samples: int = 9) -> None:
    """Measure every case that can be measured, for about so long each, and write the figures."""
    driver = device()
    head = {"device": asdict(driver.device), "date": date.today().isoformat()}
    models: dict[str, Any] = {}
    for case in load(cases):
        start = perf_counter()
        try:
            models[case.model] = measure(driver, case, seconds, samples)
        except Exception:
            traceback.print_exc()
        print(f"{case.model:14} {perf_counter() - start:5.1f} s", flush=True)
        write(output, head, models)
