"""The commands of `flowloom`, each with its exit status."""

import json
import re
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, cast

import numpy as np

import compiler
from compiler.backends.base import backend
from compiler.backends.memory import Array
from compiler.driver.requirements import cpu_requirements
from compiler.errors import ArgumentError, ArtifactError, FlowloomError, ModelError
from compiler.progress import Announcement, Paused, notify, step_progress
from compiler.schedule.choices import TuningRecord
from compiler.support.words import counted, in_bytes
from compiler.target.target import parse_target
from compiler.tools.compile_options import compile_arguments
from compiler.tools.inputs import random_inputs, read_inputs
from compiler.tools.models import default_artifact, named_model
from compiler.tools.outputs import check_artifact, check_file, write_npz, write_text
from compiler.tools.progress.display import QUIET_SECONDS
from compiler.tools.progress.options import conclude

NOT_CHECKED = 2
"""Exit status of `run --check` if onnxruntime refuses the model."""

COMPILE_OPTIONS = (
    *("target", "arch", "precision", "pipeline", "input_shape", "bucket", "dump_ir"),
    *("budget", "profile", "frozen", "schedule", "own_passes", "no_cache", "check_indices"),
    *("overridable", "static", "graphs", "quantised", "semantics", "check_groups"),
)
"""Options of the compilation, which an artifact does not take."""


OPTION_NAMES = {"own_passes": "--pass"}
"""How an option is written, if not as its name."""


def compile_command(options: Namespace) -> int:
    """`flowloom compile MODEL [-o DIR]`: the module, saved."""
    output = options.output or default_artifact(options.model)
    check_artifact(output)
    module = _compile(options)
    module.save(output)
    figures = _compiled_figures(options, module, output)
    conclude(options, f"{output}: {module.summary()}{_gap(module)}", figures)
    return 0


def _compiled_figures(options: Namespace, module: Any, output: Path) -> dict[str, Any]:
    """The result of a compilation as plain data: its size, and the seconds of steps and kernels."""
    return {
        "output": str(output),
        "model": str(options.model),
        "target": module.target,
        **({} if not isinstance(module, compiler.Module) else _schedule_size(module)),
        "kernel_seconds": options.work.kernels,
        **_tuning_figures(module),
    }


def _tuning_figures(module: Any) -> dict[str, Any]:
    """The record of kernels that were measured, as plain data; empty where none were."""
    tuning = module.tuning if isinstance(module, compiler.Module) else None
    return {} if tuning is None else {"tuning": asdict(tuning)}


def _schedule_size(module: compiler.Module) -> dict[str, Any]:
    return {
        "kernels": len(module.kernels),
        "tasks": len(module.schedule.tasks),
        "streams": module.schedule.streams,
        "weight_bytes": sum(a.nbytes for a in module.schedule.of_kind("weight")),
        "arena_bytes": sum(a.nbytes for a in module.schedule.of_kind("arena")),
    }


def _gap(module: Any) -> str:
    """A GPU's run against its lower bound; empty for a CPU's, which is not predicted."""
    from compiler.tools.inspection import gap, prediction

    gpu = isinstance(module, compiler.Module) and parse_target(module.target).is_gpu
    return f"; {gap(module, prediction(module))}" if gpu else ""


def run_command(options: Namespace) -> int:
    """`flowloom run MODEL|DIR`: one run, its outputs described, saved or checked."""
    check_file(options.outputs)
    given = _given_inputs(options)
    module = _load_or_compile(options)
    inputs = _inputs(given, options, module)
    if options.inputs is None and inputs:
        print(f"inputs: random, seed {options.seed}")
    with step_progress("run"):
        outputs = module.run(inputs)
    for name, array in outputs.items():
        print(f"{name}: {_statistics(array)}")
    if options.outputs is not None:
        write_npz(options.outputs, outputs)
    if options.check is None:
        return 0
    return _check(_model_to_check_against(options), module, inputs, outputs)


def _check(
    model: Path, module: compiler.Module, inputs: dict[str, Array], outputs: dict[str, Array]
) -> int:
    """Print the comparison with onnxruntime: 0 if it passed, 1 if not, 2 if there was none."""
    from compiler.tools import comparison, reference

    try:
        report = comparison.check_with_onnxruntime(
            named_model(model), module.target, inputs, outputs
        )
    except reference.Refusal as error:
        print(f"flowloom: not checked: {error}", file=sys.stderr)
        return NOT_CHECKED
    print(report)
    return 0 if report.passed else 1


def bench_command(options: Namespace) -> int:
    """`flowloom bench MODEL|DIR`: median and spread of many runs, in milliseconds."""
    given = _given_inputs(options)
    module = _load_or_compile(options)
    inputs = _inputs(given, options, module)
    with step_progress("warm-up"):
        warm = min(_milliseconds(module, inputs) for _ in range(3))
    left = warm / 1e3 * options.runs
    if left >= QUIET_SECONDS:
        notify(Announcement(f"{options.runs} runs, about {left:.0f} s"))
    notify(Paused())
    with step_progress("runs"):
        times = [_milliseconds(module, inputs) for _ in range(options.runs)]
    low, high = np.percentile(times, [10, 90])
    figures = {
        "model": str(options.model),
        "target": module.target,
        **_size(module),
        "runs": len(times),
        "median_ms": round(median(times), 4),
        "p10_ms": round(float(low), 4),
        "p90_ms": round(float(high), 4),
    }
    conclude(options, "\n".join(f"{name:10} {value}" for name, value in figures.items()), figures)
    return 0


def _milliseconds(module: compiler.Module, inputs: dict[str, Array]) -> float:
    """The time of a run."""
    start = perf_counter()
    module.run(inputs)
    return 1e3 * (perf_counter() - start)


def _size(module: Any) -> dict[str, int]:
    """The threads, streams and tasks of a run, or the segments of a program."""
    if not isinstance(module, compiler.Module):
        return {"segments": len(module.compiler.modules)}
    schedule = module.schedule
    return {
        "threads": module.threads,
        "streams": schedule.streams,
        "tasks": len(schedule.tasks),
    }


def opt_command(options: Namespace) -> int:
    """`flowloom opt FILE.mlir -p PIPELINE`: the IR after the passes, on standard output."""
    from compiler.passes.pipeline import check_used
    from compiler.passes.user import using
    from compiler.tools.opt import read_text

    text = read_text(None if options.file == "-" else Path(options.file))
    parts = text.split("// -----") if options.split_input_file else [text]
    with using(options.own_passes) as own:
        check_used(own, options.pipeline)
        for index, part in enumerate(parts):
            if index:
                print("// -----")
            print(_optimized(part, options))
    return 0


def _optimized(text: str, options: Namespace) -> str:
    """The text of a module after the passes, or of the error where errors are printed."""
    from compiler.tools.opt import optimize

    try:
        return optimize(text, options.file, options.pipeline, options.dump_ir, options.timing)
    except FlowloomError as error:
        if not options.verify_diagnostics:
            raise
        return f"{type(error).__name__}: {error}"


def report_command(options: Namespace) -> int:
    """`flowloom report DIR`: the artifact and why it is so, as text; or constraints."""
    from compiler.scheduling.constraints_json import constraints_to_json
    from compiler.tools.inspection import open_module
    from compiler.tools.report import report

    if options.output is not None and options.output.suffix in (".html", ".htm"):
        raise ArgumentError(
            f"a report is text: `flowloom explore {options.directory} -o {options.output}` writes"
            " a page"
        )
    module = open_module(options.directory)
    text = constraints_to_json(module.schedule) if options.constraints else report(module)
    if options.output is None:
        print(text, end="")
    else:
        write_text(options.output, text)
    return 0


def explore_command(options: Namespace) -> int:
    """`flowloom explore DIR|MODEL [DIR|MODEL] -o page.html`: a page to look at one, or two."""
    from compiler.tools.explore.command import explored

    check_file(options.output)
    page = explored(options, _compile, _check_compiled)
    write_text(options.output, page)
    print(f"{options.output}: {in_bytes(len(page))}, opens in a browser without network")
    return 0


def export_command(options: Namespace) -> int:
    """`flowloom export DIR -o PROJECT`: the artifact as a C++ project."""
    from compiler.tools.exporting import export

    conclude(options, *export(options))
    return 0


def trace_command(options: Namespace) -> int:
    """`flowloom trace DIR|MODEL -o trace.json`: the predicted run, and the measured one."""
    from compiler.tools.inspection import open_module
    from compiler.tools.trace import trace

    check_file(options.output)
    given = _given_inputs(options)
    if options.model.is_dir():
        _check_compiled(options)
        module = open_module(options.model)
    else:
        module = _compile(options, dynamic=False)
    data, note = trace(module, _inputs(given, options, module))
    write_text(options.output, json.dumps(data))
    print(f"{options.output}: {counted(len(module.schedule.tasks), 'task')}, predicted; {note}")
    return 0


def passes_command(options: Namespace) -> int:
    """`flowloom passes`: name, options and first sentence of each pass; the default pipeline."""
    from compiler.passes import PASSES
    from compiler.passes.pipeline import DEFAULT_PIPELINE, option_names

    for name, kind in PASSES.items():
        settings = " ".join(option_names(kind))
        print(f"{name}{{{settings}}}" if settings else name)
        print(f"    {first_sentence(kind)}")
    print("\ndefault pipeline:\n" + DEFAULT_PIPELINE.rstrip())
    return 0


def first_sentence(kind: type) -> str:
    """The first sentence of a class's docstring, on one line."""
    text = " ".join((kind.__doc__ or "").split())
    end = re.search(r"[.!?](?= [A-Z])|$", text)
    return text[: end.end()] if end else text


def cache_command(options: Namespace) -> int:
    """`flowloom cache status|clear`."""
    from compiler.kernels.building import KernelCache

    cache = KernelCache()
    if options.action == "clear":
        print(f"{cache.directory}: {counted(cache.clear(), 'kernel')} removed")
        return 0
    status = cache.status()
    print(f"{status.directory}: {counted(status.entries, 'kernel')}, {in_bytes(status.nbytes)}")
    for target, (entries, nbytes) in sorted(status.targets.items()):
        print(f"    {target}: {counted(entries, 'kernel')}, {in_bytes(nbytes)}")
    return 0


def _compile(options: Namespace, dynamic: bool = True) -> compiler.Module:
    """The module of a model; one without `dynamic` has one schedule."""
    given = compile_arguments(options)
    given["dynamic"] &= dynamic
    module = compiler.compile(named_model(options.model), **given)
    if options.timing:
        for name, figures in _tuning_figures(module).items():
            print(f"{name}: {TuningRecord(**figures)}", file=sys.stderr)
    return module


def _load_or_compile(options: Namespace) -> compiler.Module:
    if not options.model.is_dir():
        if options.trusted:
            raise ArgumentError(f"--trusted is for an artifact: {options.model} is a model")
        _check_present(options.target or "cpu", options.arch)
        return _compile(options)
    _check_compiled(options)
    with step_progress("load"):
        trusted = options.trusted or None
        return compiler.load(options.model, threads=options.threads, trusted=trusted)


def _check_present(target: str, architecture: str | None) -> None:
    """Raise DeviceError where a run on CUDA or a CPU would, before a compilation for it."""
    kind = parse_target(target).backend
    if kind == "cuda":
        from compiler.backends.cuda.build import device

        device()
    elif kind == "cpu":
        named = f"cpu:{architecture}" if architecture else target
        backend(named).check(cpu_requirements(named))


def _check_compiled(options: Namespace) -> None:
    """Raise ArtifactError for options of the compilation, which is over."""
    given = [
        name for name in COMPILE_OPTIONS if getattr(options, name, None) not in (None, [], False)
    ]
    if given:
        named = ", ".join(OPTION_NAMES.get(n) or "--" + n.replace("_", "-") for n in given)
        raise ArtifactError(f"{options.model} is compiled already: {named} needs its ONNX file")


def _model_to_check_against(options: Namespace) -> Path:
    if options.check is not True:
        return Path(options.check)
    if options.model.is_dir():
        raise ModelError(f"{options.model} is an artifact: name its ONNX file after --check")
    return options.model


def _given_inputs(options: Namespace) -> dict[str, Array] | None:
    """The inputs of `--inputs`, read before the work; None for random ones."""
    return None if options.inputs is None else read_inputs(options.inputs)


def _inputs(
    given: dict[str, Array] | None, options: Namespace, module: compiler.Module
) -> dict[str, Array]:
    return random_inputs(module, options.seed) if given is None else given


def _statistics(value: Any) -> str:
    """The type of an output, and the mean and deviation of its numbers."""
    if not isinstance(value, np.ndarray):
        return "nothing" if value is None else f"a sequence of {len(value)}"
    array = cast(Array, value)
    text = f"{array.dtype}{list(array.shape)} "
    if array.size == 0 or array.dtype.kind not in "fiu":
        return text
    numbers = array.astype(np.float64)
    return f"{text}mean {numbers.mean():.6g} std {numbers.std():.6g}"
