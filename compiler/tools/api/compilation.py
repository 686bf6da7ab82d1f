"""The work of `compiler.compile`: settings, then a module, or a program of what a run decides."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from logging import INFO, WARNING, getLogger
from typing import Any

import onnx
from xdsl.passes import ModulePass

from compiler.artifact.module import Module
from compiler.autotune.kernels.kernel_tuner import KernelTuner
from compiler.autotune.kernels.plan import TuningLimits
from compiler.autotune.schedule import DEFAULT_BUDGET, SearchOptions
from compiler.backends.policy import GraphPolicy
from compiler.driver.build import build, full_target
from compiler.driver.settings import Settings, check_files
from compiler.errors import ArgumentError, DeviceError, OpenShapeError, UnsupportedOperatorError
from compiler.frontend.load import without_defaults
from compiler.frontend.semantics import Semantics
from compiler.kernels.building import KernelCache
from compiler.kernels.cpu.host import host_cpu
from compiler.passes.dry_run import check_pipeline
from compiler.passes.pipeline import DEFAULT_PIPELINE, check_used, with_schedule
from compiler.passes.user import using
from compiler.progress import Listener, listening
from compiler.target.target import contractions_of, parse_cpu, parse_target

_LOG = getLogger("compiler")


def compiled(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    target: str,
    pipeline: str | None,
    input_shapes: Mapping[str, Sequence[int]] | None,
    arch: str | None,
    precision: str | None,
    threads: int | None,
    dump_ir: str | os.PathLike[str] | None,
    budget: float | None,
    profile: str | os.PathLike[str] | None,
    schedule: str | os.PathLike[str] | None,
    passes: Sequence[type[ModulePass] | str],
    overridable: Sequence[str],
    cache: bool,
    check_indices: bool,
    dynamic: bool,
    graphs: str,
    quantised: str,
    semantics: str | Mapping[str, str] | None,
    check: bool,
    progress: Listener | None,
    keep: Callable[[Module, bool], None],
) -> Any:
    """The module or program of `compiler.compile`, whose checked arguments these are.

    `keep` is called with a module, and whether its compilation warned of a node.
    """
    chosen = full_target(target, arch, precision)
    name = parse_target(chosen).backend
    check_files(chosen, budget, profile, dump_ir)
    if name == "cpu" and budget and not host_cpu(parse_cpu(chosen)):
        raise DeviceError(f"{chosen} is another CPU than this one: leave out the budget")
    usual = 0.0 if name == "cpu" else DEFAULT_BUDGET
    policy = GraphPolicy.parse(graphs)
    if name in ("cpu", "hip") and policy != GraphPolicy():
        raise ArgumentError(f"graphs={graphs!r} is for cuda and emu: leave it out for {name}")
    if threads is not None and name != "cpu":
        raise ArgumentError(f"threads={threads} is for cpu: leave it out for {name}")
    searching = SearchOptions.asked(schedule, chosen, pipeline)
    fixed = schedule is not None and searching is None
    model = without_defaults(model, overridable)
    with using(passes) as user_passes, listening(progress):
        check_used(user_passes, pipeline)
        if pipeline is not None:
            check_pipeline(pipeline, chosen)
        if schedule is not None and fixed:
            pipeline = with_schedule(DEFAULT_PIPELINE if pipeline is None else pipeline, schedule)
        settings = Settings(
            chosen,
            pipeline,
            dump_ir,
            cache=KernelCache() if cache else None,
            budget=float(usual if budget is None else budget),
            tuner=KernelTuner((TuningLimits.on_cpu if name == "cpu" else TuningLimits.of)(budget)),
            profile=profile,
            searching=searching or SearchOptions(),
            check_indices=check_indices,
            graphs=policy,
            contractions=contractions_of(quantised, chosen),
            semantics=Semantics.parse(semantics),
            chosen=any(x is not None for x in (pipeline, schedule, budget, profile)),
        )
        options: dict[str, Any] = {} if threads is None else {"threads": threads}
        options |= policy.executor_options
        try:
            if check:
                from compiler.tools.checking.compiling import checked_module

                return checked_module(partial(build, model, input_shapes, settings), options)
            module = Module.of(build(model, input_shapes, settings), options)
            keep(module, settings.semantics.has_warned)
            return module
        except (OpenShapeError, UnsupportedOperatorError) as error:
            if check or not dynamic or fixed:
                raise
            static = parse_target(chosen).runs_control_flow
            _LOG.log(INFO if static else WARNING, "for %s this becomes a program: %s", name, error)
        from compiler.program.model import open_model

        return open_model(model, input_shapes or {}, settings, options)
