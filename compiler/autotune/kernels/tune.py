"""Tuning models on the machine that runs them: prepare, measure, merge, and choose in context."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

from compiler.autotune.kernels import bundle as bundles
from compiler.autotune.kernels.bundle import Bundle
from compiler.autotune.kernels.compiling import compile_all
from compiler.autotune.kernels.coverage import coverage
from compiler.autotune.kernels.duration import expected_duration
from compiler.autotune.kernels.in_context import choose_in_context, record
from compiler.autotune.kernels.measure import TextCompiler, device_name, header_of, measure
from compiler.autotune.kernels.merge import entries_of, merge_into
from compiler.autotune.kernels.prepare import built_groups, prepare_bundle, untuned_on
from compiler.autotune.kernels.results import Header, ResultFile
from compiler.autotune.lock import locked
from compiler.autotune.schedule import DEFAULT_BUDGET
from compiler.autotune.substitution.model import simulator_version
from compiler.backends.gpu.driver import Driver
from compiler.build import Settings, build
from compiler.errors import ArtifactError
from compiler.frontend import import_model
from compiler.kernels import KernelCache
from compiler.kernels.cache import generator_version
from compiler.kernels.database import user_file
from compiler.target.target import parse_gpu

LEFT_OVER = "work"
"""The folder next to the databases for bundles and results that an interrupted run goes on with."""


@dataclass(frozen=True)
class TuneOptions:
    """The models to tune, and the limits of a run."""

    models: Sequence[Path]
    precisions: Sequence[str] = ("tf32",)
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    candidates: int = 24
    budget: float = float("inf")
    """Seconds of measuring kernels."""
    jobs: int = 0
    """Compilers at once; 0 for one a core."""
    in_context: float = 0.0
    """Seconds for each model and precision of measuring the whole model with the best choices."""


def tune(driver: Driver, options: TuneOptions, report: Callable[[str], None]) -> None:
    """Tune models for a device into the user's database.

    Measurements are kept when a run is killed: the next one goes on after them.
    """
    folder = user_file(driver.device.architecture).parent / LEFT_OVER
    with locked(folder / "tune", f"another `flowloom tune` is at work in {folder}: wait for it"):
        _tune(driver, folder, options, report)


def _tune(
    driver: Driver, folder: Path, options: TuneOptions, report: Callable[[str], None]
) -> None:
    arch, start = driver.device.architecture, perf_counter()
    bundle = _prepared(folder, options, arch, report)
    header = header_of(driver, bundle)
    _measure(driver, bundle, folder, header, options, options.budget, report)
    # by measured times, a compilation may compare other graphs than by estimates
    left = options.budget - (perf_counter() - start)
    if left > 0 and (rest := _untuned(options, arch, header.device)).kernels:
        _measure(driver, rest, folder, header, options, left, report)
    for path in options.models:
        for precision in options.precisions:
            target, shapes = f"cuda:{arch}:{precision}", options.input_shapes
            if options.in_context:
                report(f"{path.name} {precision}: {_in_context(driver, path, target, options)}")
            found = coverage(path, target, header.device, shapes)
            report(f"{path.name} {precision}: {found}")


def _in_context(driver: Driver, path: Path, target: str, options: TuneOptions) -> str:
    """Choose among the best few configs of a model's kernels in the whole model; says the gain."""
    machine = parse_gpu(target)
    settings = Settings(target, cache=KernelCache(), budget=DEFAULT_BUDGET)
    built = build(path, options.input_shapes, settings)
    module = import_model(path, options.input_shapes).module
    assert built.choice is not None
    groups = built_groups(module, machine, built.choice.pipeline)
    found = choose_in_context(driver, built, groups, machine, options.in_context)
    if found is None:
        return "no kernel has several measured choices that fit its schedule"
    descent, entries = found
    record(descent, entries, path.name, machine, device_name(driver))
    before, after = descent.start.median / 1e6, descent.end.median / 1e6
    return (
        f"{before:.4f} ms to {after:.4f} ms in the whole model, {len(descent.steps)} kernels"
        f" changed in {descent.compared} comparisons"
    )


def _measure(
    driver: Driver,
    bundle: Bundle,
    folder: Path,
    header: Header,
    options: TuneOptions,
    budget: float,
    report: Callable[[str], None],
) -> None:
    """Measure what is missing, and merge all results into the database, however it ended."""
    jobs = options.jobs or os.cpu_count() or 1
    report(
        f"{bundle.count} candidates of {len(bundle.kernels)} kernels:"
        f" {expected_duration(bundle, jobs)}"
    )
    arch, headers = bundle.compiler_arch, bundle.headers
    compiler: TextCompiler = partial(compile_all, arch=arch, headers=headers, jobs=jobs)
    results = ResultFile(folder / f"{_mark(asdict(header))}.jsonl", header)
    try:
        measure(driver, bundle, results, compiler, budget, report)
    finally:
        results.close()
        path = user_file(header.arch)
        found = merge_into(path, entries_of(header, results.found), header.device)
        report(f"{path}: {len(found.entries)} kernels, for {found.device}")


def _prepared(
    folder: Path, options: TuneOptions, arch: str, report: Callable[[str], None]
) -> Bundle:
    """The bundle of some models: as an interrupted run left it, or made now."""
    content = [hashlib.sha256(_bytes(path)).hexdigest() for path in options.models]
    mark = _mark([content, *options.precisions, sorted(options.input_shapes.items()), arch,
                  options.candidates, generator_version(), simulator_version()])  # fmt: skip
    path = folder / f"{mark}.bundle"
    if path.exists():
        return bundles.load_bundle(path)
    models, shapes = _named(options.models), options.input_shapes
    found = prepare_bundle(models, options.precisions, arch, options.candidates, report, shapes)
    bundles.save_bundle(found, path)
    for old in folder.glob("*.bundle"):
        if old != path:
            old.unlink(missing_ok=True)
    return found


def _untuned(options: TuneOptions, arch: str, device: str) -> Bundle:
    """The kernels that the database has no times of on a device."""
    return prepare_bundle(
        _named(options.models),
        options.precisions,
        arch,
        options.candidates,
        input_shapes=options.input_shapes,
        wanted=untuned_on(device),
    )


def _named(models: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    return ((path.name, path) for path in models)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error


def _mark(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
