"""Tuning models on the machine that runs them: prepare, measure, merge, and choose in context."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

from compiler.autotune.kernels import bundle as bundles
from compiler.autotune.kernels.bundle import Bundle
from compiler.autotune.kernels.compiling import compile_all
from compiler.autotune.kernels.coverage import coverage
from compiler.autotune.kernels.duration import expected_duration
from compiler.autotune.kernels.in_context import CompiledModel, descend_in_context, record
from compiler.autotune.kernels.measure import TextCompiler, device_name, header_here, measure
from compiler.autotune.kernels.merge import entries_of, merge_into
from compiler.autotune.kernels.prepare import (
    any_candidate,
    built_groups,
    lowered_module,
    prepare_bundle,
    untuned_on,
)
from compiler.autotune.kernels.results import Header, ResultFile
from compiler.autotune.lock import locked
from compiler.autotune.substitution.model import simulator_version
from compiler.autotune.trials import TrialError, TrialUnavailableError
from compiler.backends.gpu.driver import Driver
from compiler.errors import ArtifactError
from compiler.kernels.building.cache import generator_version
from compiler.kernels.database import user_file
from compiler.progress import in_parts, step_progress
from compiler.target.target import parse_gpu

LEFT_OVER = "work"
"""The folder next to the databases for the bundles and results that an interrupted run resumes."""


@dataclass(frozen=True)
class TuneOptions:
    """The models to tune, and the limits of a run."""

    models: Sequence[Path]
    precisions: Sequence[str] = ("tf32",)
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    candidates: int = 24
    budget: float = float("inf")
    """Seconds of measuring kernels."""
    in_context: float = 0.0
    """Seconds for each model and precision of measuring the whole model with the best choices, on
    this machine."""


class ModelCompiler(Protocol):
    """Compiles a model for a target, choosing its schedule by measuring."""

    def __call__(
        self, model: Path, input_shapes: Mapping[str, Sequence[int]], target: str
    ) -> CompiledModel: ...


class Machines(Protocol):
    """The machines that prepare and measure candidates: this one, or a Ray cluster."""

    @property
    def header(self) -> Header:
        """The device that measures, and the compiler of its code."""
        ...

    def prepare(self, options: TuneOptions, untuned: bool, report: Callable[[str], None]) -> Bundle:
        """The candidates of the models: of all kernels, or of those without times on the device."""
        ...

    def measure(
        self, bundle: Bundle, results: ResultFile, budget: float, report: Callable[[str], None]
    ) -> float:
        """Measure what has no result yet, for at most some seconds; how many it took."""
        ...


@dataclass(frozen=True)
class ThisMachine:
    """Prepares and measures here, where the device is."""

    driver: Driver
    compile: ModelCompiler
    jobs: int = 0
    """Compilers at once; 0 for one a core."""

    @property
    def header(self) -> Header:
        """The device and the compiler."""
        return header_here(self.driver)

    def prepare(self, options: TuneOptions, untuned: bool, report: Callable[[str], None]) -> Bundle:
        """The candidates of one model after the other."""
        return prepare_bundle(
            ((path.name, path) for path in options.models),
            options.precisions,
            self.header.arch,
            count=options.candidates,
            report=report,
            input_shapes=options.input_shapes,
            accepts=untuned_on(self.header.device) if untuned else any_candidate,
        )

    def measure(
        self, bundle: Bundle, results: ResultFile, budget: float, report: Callable[[str], None]
    ) -> float:
        """Compile on all cores while the device measures."""
        jobs = self.jobs or os.cpu_count() or 1
        start = perf_counter()
        report(
            f"{bundle.count} candidates of {len(bundle.kernels)} kernels:"
            f" {expected_duration(bundle, jobs)}"
        )
        arch = bundle.compiler_arch
        compiler: TextCompiler = partial(compile_all, arch=arch, headers=bundle.headers, jobs=jobs)
        with step_progress("measure"):
            measure(self.driver, bundle, results, compiler, seconds=budget, report=report)
        return perf_counter() - start


def tune(machines: Machines, options: TuneOptions, report: Callable[[str], None]) -> None:
    """Tune models for a device into the user's database.

    Measurements survive a killed run: the next one resumes after them.
    """
    folder = user_file(machines.header.arch).parent / LEFT_OVER
    busy = f"another `flowloom tune` is at work in {folder}, wait for it: "
    with locked(folder / "tune", 0.0, busy):
        header = machines.header
        bundle = _prepared(machines, folder, options, report)
        spare = options.budget - _measure(machines, bundle, folder, options.budget, report)
        # by measured times, a compilation may compare other graphs than by estimates
        if spare > 0 and (untuned := machines.prepare(options, True, lambda line: None)).kernels:
            _measure(machines, untuned, folder, spare, report)
        every = [(path, precision) for path in options.models for precision in options.precisions]
        for path, precision in in_parts(
            "choose in context", every, lambda item: f"{item[0].name} {item[1]}"
        ):
            target = f"cuda:{header.arch}:{precision}"
            if options.in_context and isinstance(machines, ThisMachine):
                gain = _in_context(machines, path, target, options)
                report(f"{path.name} {precision}: {gain}")
            covered = coverage(path, target, header.device, options.input_shapes)
            report(f"{path.name} {precision}: {covered}")


def _in_context(machine: ThisMachine, path: Path, target: str, options: TuneOptions) -> str:
    """Choose among the best few configs of a model's kernels in the whole model; says the gain."""
    gpu = parse_gpu(target)
    shapes = options.input_shapes
    built = machine.compile(path, shapes, target)
    module = lowered_module(path, gpu, shapes)
    assert built.choice is not None
    groups = built_groups(module, gpu, built.choice.schedule.pipeline)
    try:
        descended = descend_in_context(machine.driver, built, groups, gpu, options.in_context)
    except (TrialError, TrialUnavailableError) as error:
        return f"not measured as a whole: {error}"
    if descended is None:
        return "no kernel has several measured choices that fit its schedule"
    descent, entries = descended
    record(descent, entries, path.name, gpu, device_name(machine.driver))
    start_ms = descent.start.median / 1e6
    end_ms = descent.end.median / 1e6
    return (
        f"{start_ms:.4f} ms to {end_ms:.4f} ms in the whole model, {len(descent.steps)} kernels"
        f" changed in {descent.compared} comparisons"
    )


def _measure(
    machines: Machines,
    bundle: Bundle,
    folder: Path,
    budget: float,
    report: Callable[[str], None],
) -> float:
    """Measure what is missing, and merge all results into the database, however it ended."""
    header = machines.header
    results = ResultFile(folder / f"{_mark(asdict(header))}.jsonl", header)
    try:
        return machines.measure(bundle, results, budget, report)
    finally:
        results.close()
        path = user_file(header.arch)
        database = merge_into(path, entries_of(header, results.found), header.device)
        report(f"{path}: {len(database.entries)} kernels, for {database.device}")


def _prepared(
    machines: Machines, folder: Path, options: TuneOptions, report: Callable[[str], None]
) -> Bundle:
    """The bundle of some models: as an interrupted run left it, or made now."""
    content = [hashlib.sha256(_bytes(path)).hexdigest() for path in options.models]
    shapes = sorted(options.input_shapes.items())
    mark = _mark([content, *options.precisions, shapes, machines.header.arch,
                  options.candidates, generator_version(), simulator_version()])  # fmt: skip
    path = folder / f"{mark}.bundle"
    if path.exists():
        return bundles.load_bundle(path)
    bundle = machines.prepare(options, False, report)
    bundles.save_bundle(bundle, path)
    for old in folder.glob("*.bundle"):
        if old != path:
            old.unlink(missing_ok=True)
    return bundle


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error


def _mark(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
