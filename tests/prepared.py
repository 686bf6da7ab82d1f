"""Kernels and references for checks on a device, prepared while the device is busy."""

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx
from numpy.typing import NDArray

from compiler.autotune.schedule.candidates import scheduled
from compiler.driver.build import annotate
from compiler.driver.packed_weights import WeightPacker
from compiler.frontend.importing import import_model
from compiler.graph.targets import set_target
from compiler.ir.flatten import schedule_of
from compiler.kernels.building import KernelCache, build_kernels
from compiler.kernels.building.cache import source_version
from compiler.passes.pipeline import default_pipeline, parse, split_phases
from compiler.passes.runner import Runner
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.target.target import parse_target
from compiler.tools.reference import run_onnxruntime
from examples import zoo

Array = NDArray[Any]
Arrays = dict[str, Array]

STREAMS = (1, 4)
SEEDS = 7
"""Sets of inputs that a model is given."""


@dataclass(frozen=True)
class Prepared:
    """A model's kernels, packed weights and schedules by number of streams, for one target.

    `inputs` has one entry a seed, `expected` onnxruntime's outputs for the first of them.
    """

    name: str
    precision: str
    kernels: dict[str, KernelSpec]
    weights: Arrays
    schedules: dict[int, Schedule]
    inputs: Sequence[Arrays]
    expected: Arrays
    seconds: float = 0.0

    def checked(self) -> "Prepared":
        """The model itself."""
        return self


@dataclass(frozen=True)
class Failed:
    """A model that could not be prepared."""

    name: str
    precision: str
    error: Exception
    seconds: float = 0.0

    def checked(self) -> Prepared:
        """Raise what went wrong."""
        raise self.error


def cache_of(directory: Path | None) -> KernelCache:
    """The user's kernel cache, or one that is carried between machines with the same sources."""
    if directory is None:
        return KernelCache()
    return KernelCache(directory, version=f"carried {source_version()}")


def build(
    model: onnx.ModelProto, target: str, kernels: KernelCache, jobs: int = 0
) -> tuple[dict[str, KernelSpec], Arrays, dict[int, Schedule]]:
    """A model's kernels, weights and schedules by number of streams."""
    imported = import_model(model)
    pipelines = {streams: default_pipeline("policy=none", streams) for streams in STREAMS}
    set_target(imported.module, target)
    Runner().run(imported.module, split_phases(parse(pipelines[1]))[0])
    specs = build_kernels(imported.module, target, kernels, jobs)
    annotate(imported.module, specs)
    graphs = {n: scheduled(imported.module.clone(), p) for n, p in pipelines.items()}
    weights = WeightPacker(imported.weights).pack(graphs[1])
    return specs, weights, {n: schedule_of(graph) for n, graph in graphs.items()}


def prepare(model: onnx.ModelProto, target: str, kernels: KernelCache, jobs: int = 0) -> Prepared:
    """Do all that needs no device; the model's graph has its name."""
    start = perf_counter()
    built = build(model, target, kernels, jobs)
    inputs = [zoo.random_inputs(model, seed) for seed in range(SEEDS)]
    expected = run_onnxruntime(model, inputs[0])
    precision, seconds = parse_target(target).precision, round(perf_counter() - start, 1)
    return Prepared(model.graph.name, precision, *built, inputs, expected, seconds)


def prepare_named(name: str, target: str, directory: Path | None, jobs: int) -> Prepared:
    """Prepare a zoo model, in a new process."""
    return prepare(zoo.load(name), target, cache_of(directory), jobs)


def prepare_all(
    wanted: Sequence[tuple[str, str]], directory: Path | None, jobs: int
) -> Iterator[Prepared | Failed]:
    """Zoo models for targets, in order, with `jobs` of them prepared at once, ahead of their use.

    `directory` holds carried kernels; None stands for the user's cache.
    """
    context, threads = multiprocessing.get_context("spawn"), max(1, (os.cpu_count() or 1) // jobs)
    left, running = deque(wanted), deque[tuple[str, str, Future[Prepared]]]()
    pool = ProcessPoolExecutor(jobs, context)
    try:
        while left or running:
            while left and len(running) <= jobs:
                name, target = left.popleft()
                future = pool.submit(prepare_named, name, target, directory, threads)
                running.append((name, parse_target(target).precision, future))
            yield result_of(*running.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def result_of(name: str, precision: str, future: Future[Prepared]) -> Prepared | Failed:
    """The result of a process, or why there is none."""
    try:
        return future.result()
    except Exception as error:
        return Failed(name, precision, error)
