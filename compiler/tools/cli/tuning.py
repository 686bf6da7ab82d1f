"""The steps of `flowloom tune`; each imports only what it needs."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from compiler.errors import ArgumentError, ArtifactError, DeviceError, ModelError
from compiler.progress import Paused, in_parts, notify, step_progress
from compiler.target.target import parse_target
from compiler.tools.outputs import check_file
from compiler.tools.progress.options import conclude

DEFAULT_PRECISIONS = ("tf32",)
"""The precisions to tune for by default."""


def _reporter(options: Namespace) -> Callable[[str], None]:
    """Prints what a step does, unless it shall be quiet; on standard error next to JSON."""

    def report(line: str) -> None:
        if not options.quiet:
            notify(Paused())
            print(line, flush=True, file=sys.stderr if options.json else sys.stdout)

    return report


def model_files(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Each model's name and file; a folder stands for the ONNX files in it. Raises ModelError."""
    for path in paths:
        if str(path).startswith(("zoo:", "field:")) and not path.exists():
            raise ModelError(f"{path}: tune takes ONNX files, and folders of them")
        if not path.is_dir():
            yield path.name, path
            continue
        if (path / "manifest.json").exists():
            raise ModelError(f"{path} is an artifact, compiled already: name its ONNX file")
        files = sorted(path.glob("*.onnx"))
        if not files:
            raise ModelError(f"{path} holds no .onnx file")
        yield from ((file.name, file) for file in files)


IN_CONTEXT_S = 20.0
"""Seconds for each model in which whole runs choose, by default."""


def tune_command(options: Namespace) -> int:
    """`flowloom tune MODEL|DIR...`: prepare, measure and merge; needs TVM, a GPU and NVRTC."""
    from compiler.autotune.kernels.tune import ThisMachine, TuneOptions, tune

    if options.ray and options.in_context:
        raise ArgumentError(
            "--in-context runs whole models on this machine's GPU, --ray has others: leave one out"
        )
    in_context = IN_CONTEXT_S if options.in_context is None else options.in_context
    wanted = TuneOptions(
        models=[file for _, file in model_files(options.models)],
        precisions=options.precision or DEFAULT_PRECISIONS,
        input_shapes=dict(options.input_shape),
        candidates=options.candidates,
        budget=options.budget,
        in_context=0.0 if options.ray else in_context,
    )
    with ExitStack() as stack:
        here = ThisMachine(_device(), _compiled, options.jobs) if not options.ray else None
        machines = here or stack.enter_context(_ray_machines(options))
        tune(machines, wanted, _reporter(options))
        if options.json:
            conclude(options, "", _tuned_figures(machines.header, wanted))
    return 0


def _compiled(model: Path, input_shapes: Mapping[str, Sequence[int]], target: str) -> Any:
    """A model compiled as `flowloom compile` does it, in the default budget."""
    from compiler.autotune.schedule import DEFAULT_BUDGET
    from compiler.driver.build import build
    from compiler.driver.settings import Settings
    from compiler.kernels.building import KernelCache

    settings = Settings(target, cache=KernelCache(), budget=DEFAULT_BUDGET)
    return build(model, input_shapes, settings)


def _ray_machines(options: Namespace) -> Any:
    """The machines of the Ray cluster that the options name."""
    from compiler.autotune.kernels.compiling import compile_all
    from compiler.autotune.kernels.on_ray import ray_machines
    from compiler.autotune.kernels.remote_measure import MeasuringTools
    from compiler.backends.cuda import device as target

    return ray_machines(options.ray, MeasuringTools(target.device, compile_all), options.jobs)


def _tuned_figures(header: Any, wanted: Any) -> dict[str, Any]:
    """The database, and how many of each model's kernels it covers."""
    from compiler.autotune.kernels.coverage import coverage
    from compiler.kernels.database import user_file

    arch, device = header.arch, header.device
    covered = {
        f"{path.name} {precision}": str(
            coverage(path, f"cuda:{arch}:{precision}", device, wanted.input_shapes)
        )
        for path in wanted.models
        for precision in wanted.precisions
    }
    return {"database": str(user_file(arch)), "device": device, "coverage": covered}


def _device() -> Any:
    """The CUDA device; DeviceError that says how to tune from a machine without one."""
    from compiler.backends.cuda import device as target

    try:
        return target.device()
    except DeviceError as error:
        raise DeviceError(
            f"{error}; without a GPU, `flowloom tune prepare MODEL -o BUNDLE` writes what"
            " `flowloom tune measure BUNDLE` measures on a machine with one"
        ) from error


def prepare_command(options: Namespace) -> int:
    """`flowloom tune prepare MODEL|DIR... -o BUNDLE`: needs TVM, but no GPU."""
    from compiler.autotune.kernels.prepare import prepare_bundle

    check_file(options.output)
    precisions = options.precision or DEFAULT_PRECISIONS
    models, shapes = model_files(options.models), dict(options.input_shape)
    found = prepare_bundle(
        models, precisions, options.arch, options.candidates, _reporter(options), shapes
    )
    text = write_bundle(found, options.output, options.limit)
    figures = {"bundle": str(options.output), "kernels": len(found.kernels)}
    conclude(options, text, figures | {"candidates": found.count})
    return 0


def write_bundle(found: Any, path: Path, limit: float) -> str:
    """Write a bundle of at most some megabytes; what it holds and how long it takes, in words."""
    from compiler.autotune.kernels.bundle import bounded, write
    from compiler.autotune.kernels.duration import expected_duration

    kept, content = bounded(found, int(1e6 * limit))
    write(content, path)
    dropped = found.count - kept.count
    less = f" ({dropped} more would exceed {limit:g} MB)" if dropped else ""
    return (
        f"{path}: {kept.count} candidates of {len(kept.kernels)} kernels{less},"
        f" {len(content) / 1e6:.1f} MB\n{expected_duration(kept)}"
    )


def measure_command(options: Namespace) -> int:
    """`flowloom tune measure BUNDLE... -o RESULTS`: needs a GPU and NVRTC, but no TVM."""
    from compiler.autotune.kernels.bundle import load_bundle, merge_bundles
    from compiler.autotune.kernels.compiling import compile_all
    from compiler.autotune.kernels.duration import expected_duration
    from compiler.autotune.kernels.measure import header_of, measure
    from compiler.autotune.kernels.results import ResultFile
    from compiler.backends.cuda.device import device

    bundle = merge_bundles([load_bundle(path) for path in options.bundles])
    driver = device()
    results = ResultFile(options.output, header_of(driver, bundle))
    jobs = options.jobs or os.cpu_count() or 1
    report = _reporter(options)
    report(
        f"{bundle.count} candidates of {len(bundle.kernels)} kernels:"
        f" {expected_duration(bundle, jobs)}"
    )
    arch, headers = bundle.compiler_arch, bundle.headers
    compiler = partial(compile_all, arch=arch, headers=headers, jobs=jobs)
    try:
        with step_progress("measure"):
            done = measure(driver, bundle, results, compiler, options.budget, report)
    finally:
        results.close()
    wrong = sum(result.problem.startswith("wrong") for result in results.found)
    text = f"{options.output}: {done} measured, {len(results.found)} in all, {wrong} of them wrong"
    figures = {"results": str(options.output), "measured": done, "all": len(results.found)}
    conclude(options, text, figures | {"wrong": wrong})
    return 0


def merge_command(options: Namespace) -> int:
    """`flowloom tune merge RESULTS...`: into the database of their architecture."""
    from compiler.autotune.kernels.merge import entries_of, merge_into
    from compiler.autotune.kernels.results import load_results
    from compiler.kernels.database import user_file

    loaded = [(*load_results(path), path) for path in options.results]
    found = [part[:2] for part in sorted(loaded, key=lambda part: (part[0], part[2]))]
    archs = {header.arch for header, _ in found}
    if len(archs) > 1:
        raise ArtifactError(f"results of {', '.join(sorted(archs))}: merge one architecture a time")
    devices = sorted({header.device for header, _ in found})
    if len(devices) > 1 and options.device not in devices:
        raise ArtifactError(f"results of {devices}: name the one that counts more with --device")
    path = options.output or user_file(archs.pop())
    with step_progress("merge"):
        entries = [entry for header, results in found for entry in entries_of(header, results)]
        database = merge_into(path, entries, options.device or devices[0])
    text = f"{path}: {len(database.entries)} kernels, for {database.device}"
    figures = {"kernels": len(database.entries), "device": database.device}
    conclude(options, text, {"database": str(path), **figures})
    return 0


def status_command(options: Namespace) -> int:
    """`flowloom tune status MODEL|DIR...`: how many of their kernels the database covers."""
    precisions = options.precision or DEFAULT_PRECISIONS
    every = [
        (*model, precision) for model in model_files(options.models) for precision in precisions
    ]
    rows: list[dict[str, str]] = []
    with step_progress("coverage"):
        for name, path, precision in in_parts("coverage", every, lambda one: one[0]):
            rows.append({"model": name, **_coverage(path, precision, options)})
    lines = (
        f"{r['model']} {r['target']} on {r['device'] or 'any device'}: {r['coverage']}"
        for r in rows
    )
    conclude(options, "\n".join(lines), {"models": rows})
    return 0


def _coverage(path: Path, precision: str, options: Namespace) -> dict[str, str]:
    """The target and the device of a model in a precision, and what the database has for it."""
    from compiler.autotune.kernels.coverage import coverage
    from compiler.driver.build import full_target
    from compiler.kernels.database import device_of

    target = full_target("cuda", options.arch, precision)
    architecture = parse_target(target).architecture
    device = options.device or _present(architecture) or device_of(architecture)
    found = coverage(path, target, device, dict(options.input_shape))
    return {"target": target, "device": device, "coverage": str(found)}


def _present(architecture: str) -> str:
    """The name of the present device, if it has an architecture."""
    from compiler.autotune.kernels.measure import device_name
    from compiler.backends.cuda.device import device

    try:
        driver = device()
    except DeviceError:
        return ""
    return device_name(driver) if driver.device.architecture == architecture else ""
