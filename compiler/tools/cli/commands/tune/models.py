"""`flowloom tune MODEL|DIR...`: prepare, measure and merge; needs TVM, a GPU and NVRTC."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from compiler.autotune import schedule
from compiler.autotune.kernels import compiling, on_ray
from compiler.autotune.kernels.coverage import coverage
from compiler.autotune.kernels.remote_measure import MeasuringTools
from compiler.autotune.kernels.tune import ThisMachine, TuneOptions, tune
from compiler.backends.cuda import device as cuda
from compiler.backends.gpu.driver import Driver
from compiler.driver.build import build
from compiler.driver.settings import Settings
from compiler.errors import ArgumentError, DeviceError
from compiler.kernels.building import KernelCache
from compiler.kernels.database import user_file
from compiler.tools.cli.commands.tune.common import DEFAULT_PRECISIONS, model_files, reporter
from compiler.tools.progress.options import conclude

IN_CONTEXT_S = 20.0
"""Seconds for each model in which whole runs choose, by default."""


def run(options: Namespace) -> int:
    """Tune models on this machine's GPU or on a Ray cluster, into the user's database."""
    if options.ray and options.in_context:
        raise ArgumentError(
            "--in-context runs whole models on this machine's GPU, --ray has others: leave one out"
        )
    if options.ray and options.operators:
        raise ArgumentError("--operators are not known to the nodes of --ray: leave one out")
    in_context = IN_CONTEXT_S if options.in_context is None else options.in_context
    tuning = TuneOptions(
        models=[file for _, file in model_files(options.models)],
        precisions=options.precision or DEFAULT_PRECISIONS,
        input_shapes=dict(options.input_shape),
        candidates=options.candidates,
        budget=options.budget,
        in_context=0.0 if options.ray else in_context,
    )
    with ExitStack() as stack:
        if options.ray:
            tools = MeasuringTools(cuda.device, compiling.compile_all)
            machines: Any = stack.enter_context(
                on_ray.ray_machines(options.ray, tools, options.jobs)
            )
        else:
            machines = ThisMachine(_driver(), _compiled, options.jobs)
        tune(machines, tuning, reporter(options))
        if options.json:
            covered = {
                f"{path.name} {precision}": str(
                    coverage(
                        path,
                        f"cuda:{machines.header.arch}:{precision}",
                        machines.header.device,
                        tuning.input_shapes,
                    )
                )
                for path in tuning.models
                for precision in tuning.precisions
            }
            conclude(
                options,
                "",
                {
                    "database": str(user_file(machines.header.arch)),
                    "device": machines.header.device,
                    "coverage": covered,
                },
            )
    return 0


def _compiled(model: Path, input_shapes: Mapping[str, Sequence[int]], target: str) -> Any:
    """A model compiled as `flowloom compile` does it, in the default budget."""
    return build(
        model, input_shapes, Settings(target, cache=KernelCache(), budget=schedule.DEFAULT_BUDGET)
    )


def _driver() -> Driver:
    """The CUDA device; DeviceError that says how to tune from a machine without one."""
    try:
        return cuda.device()
    except DeviceError as error:
        raise DeviceError(
            f"{error}; without a GPU, `flowloom tune prepare MODEL -o BUNDLE` writes what"
            " `flowloom tune measure BUNDLE` measures on a machine with one"
        ) from error
