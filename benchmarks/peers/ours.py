"""Our contenders: one stream, and the fastest of several execution modes and stream counts."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np
import onnx
import torch

import compiler
from benchmarks.peers.contenders import Contender
from compiler.artifact.module import Module
from compiler.backends.cuda.device import device
from compiler.backends.gpu.driver import Driver
from compiler.backends.gpu.functions import Functions
from compiler.backends.gpu.kernels import Calls
from compiler.backends.gpu.memory import as_bytes, upload
from compiler.scheduling.subflows import predecessors
from compiler.support.dag import finish_times

TRIALS = 20
"""Runs that a candidate gets before the fastest is kept."""

REPEATS = 20
"""Times that a kernel follows itself when it is timed alone."""

Arrays = Mapping[str, np.ndarray]


def compile_for(model: onnx.ModelProto, precision: str, streams: int) -> Module:
    """Compile for the device with the default pipeline and so many streams; 0 lets it search."""
    fixed = compiler.DEFAULT_PIPELINE.replace("streams=4", f"streams={streams}")
    pipeline = fixed if streams else None
    return compiler.compile(model, target="cuda", precision=precision, pipeline=pipeline, budget=0)


def compile_by_default(model: onnx.ModelProto, precision: str, **options: Any) -> Module:
    """Compile as a user does who gives no option but these, as `budget=0` to measure nothing."""
    return compiler.compile(model, target="cuda", precision=precision, **options)


def contender(
    module: Module, inputs: Arrays, stream: torch.cuda.Stream, **options: Any
) -> Contender:
    """A module with its inputs in its own buffers; runs are queued on PyTorch's stream.

    `options` are those of an executor, such as its mode.
    """
    executor: Any = module.executor(**options)
    given, taken = executor.in_place("input"), executor.in_place("output")
    for name, array in given.items():
        upload(device(), [(array.address, as_bytes(np.ascontiguousarray(inputs[name])))])

    def queue() -> None:
        executor.submit(given, outputs=taken, stream=stream)

    def outputs() -> list[np.ndarray]:
        stream.synchronize()
        return [array.numpy() for array in taken.values()]

    return Contender(queue, outputs, close=executor.close, module=module)


def fastest(
    modules: Mapping[int, Module],
    modes: list[str],
    inputs: Arrays,
    stream: torch.cuda.Stream,
    clock_of: Callable[[Contender], Callable[[], float]],
) -> tuple[tuple[int, str], dict[str, float]]:
    """The stream count and mode of the least median, and every median in microseconds."""
    figures: dict[tuple[int, str], float] = {}
    for streams, module in modules.items():
        for mode in modes:
            candidate = contender(module, inputs, stream, mode=mode)
            clock = clock_of(candidate)
            samples = [clock() for _ in range(5 + TRIALS)][5:]
            figures[streams, mode] = median(samples)
            candidate.close()
    best = min(figures, key=figures.__getitem__)
    return best, {f"{s} x {mode}": round(time, 2) for (s, mode), time in figures.items()}


def kernel_times(module: Module) -> dict[str, float]:
    """Microseconds of each kernel alone, by name: on zeros, following itself in a graph."""
    driver, schedule = device(), module.schedule
    functions = Functions(driver, schedule, module.kernels)
    stream = driver.create_stream()
    addresses = [_zeros(driver, allocation.nbytes, stream) for allocation in schedule.allocations]
    calls = Calls(driver, schedule, functions, addresses)
    first = {task.kernel: index for index, task in reversed(list(enumerate(schedule.tasks)))}
    times = {
        name: _time_alone(driver, calls, calls.of_task[task], stream)
        for name, task in first.items()
    }
    driver.destroy_stream(stream)
    for address in addresses:
        driver.free(address)
    return times


def _zeros(driver: Driver, nbytes: int, stream: Any) -> int:
    address = driver.allocate(max(nbytes, 1))
    driver.fill(address, 0, max(nbytes, 1), stream)
    return address


def _time_alone(driver: Driver, calls: Calls, launches: tuple[int, ...], stream: Any) -> float:
    """Microseconds that one more repetition of a task's launches takes."""
    short = _chain_time(driver, calls, launches, stream, REPEATS)
    long = _chain_time(driver, calls, launches, stream, 2 * REPEATS)
    return max(0.0, (long - short) / REPEATS)


def _chain_time(
    driver: Driver, calls: Calls, launches: tuple[int, ...], stream: Any, repeats: int
) -> float:
    """The median microseconds of a graph that repeats the launches one after another."""
    built, after = driver.create_graph(), ()
    for _ in range(repeats):
        for index in launches:
            after = (driver.add_call(built, after, calls.calls[index]),)
    executable = driver.instantiate(built, stream)
    start, end = driver.create_event(timing=True), driver.create_event(timing=True)
    samples: list[float] = []
    for _ in range(9):
        driver.record(start, stream)
        driver.launch_graph(executable, stream)
        driver.record(end, stream)
        driver.synchronize_event(end)
        samples.append(driver.elapsed(start, end) / 1e3)
    for event in (start, end):
        driver.destroy_event(event)
    driver.destroy_executable(executable)
    driver.destroy_graph(built)
    return median(samples[2:])


def structure(module: Module) -> dict[str, float]:
    """Tasks, and microseconds of their kernels alone: in all and along the longest path.

    The path follows the edges of the schedule.
    """
    times = kernel_times(module)
    of_task = [times[task.kernel] for task in module.schedule.tasks]
    paths = finish_times(of_task, predecessors(module.schedule))
    return {
        "tasks": len(of_task),
        "alone_us": round(sum(of_task), 2),
        "critical_path_us": round(max(paths, default=0.0), 2),
    }
