"""The module that a command works on, compiled from a model or loaded; and its inputs."""

import sys
from argparse import Namespace
from typing import Any

import compiler
from compiler.backends.base import backend
from compiler.backends.memory import Array
from compiler.driver.requirements import cpu_requirements
from compiler.errors import ArgumentError, ArtifactError
from compiler.progress import step_progress
from compiler.target.target import parse_target
from compiler.tools.compile_options import compile_arguments
from compiler.tools.inputs import random_inputs, read_inputs
from compiler.tools.models import named_model

COMPILE_OPTIONS = (
    *("target", "arch", "precision", "pipeline", "input_shape", "dump_ir"),
    *("budget", "profile", "frozen", "schedule", "own_passes", "no_cache", "check_indices"),
    *("overridable", "static", "graphs", "quantised", "semantics", "check_groups"),
)
"""Options of the compilation, which an artifact does not take."""

OPTION_NAMES = {"own_passes": "--pass"}
"""How an option is written, if not as its name."""


def compile_model(options: Namespace, dynamic: bool = True) -> Any:
    """The module of the model that a command names; without `dynamic` it has one schedule."""
    arguments = compile_arguments(options)
    arguments["dynamic"] &= dynamic
    module = compiler.compile(named_model(options.model), **arguments)
    if options.timing and isinstance(module, compiler.Module) and module.tuning is not None:
        print(f"tuning: {module.tuning}", file=sys.stderr)
    return module


def load_or_compile(options: Namespace) -> Any:
    """The module of a command that runs it; raises DeviceError where it cannot run here."""
    if not options.model.is_dir():
        if options.trusted:
            raise ArgumentError(f"--trusted is for an artifact: {options.model} is a model")
        target = options.target or "cpu"
        # a missing device is said before the compilation, which takes long
        kind = parse_target(target).backend
        if kind == "cuda":
            from compiler.backends.cuda.build import device

            device()
        elif kind == "cpu":
            named = f"cpu:{options.arch}" if options.arch else target
            backend(named).check(cpu_requirements(named))
        return compile_model(options)
    check_compiled(options)
    with step_progress("load"):
        trusted = options.trusted or None
        return compiler.load(options.model, threads=options.threads, trusted=trusted)


def check_compiled(options: Namespace) -> None:
    """Raise ArtifactError for options of the compilation, which is over."""
    names = [
        name for name in COMPILE_OPTIONS if getattr(options, name, None) not in (None, [], False)
    ]
    if names:
        named = ", ".join(OPTION_NAMES.get(n) or "--" + n.replace("_", "-") for n in names)
        raise ArtifactError(f"{options.model} is compiled already: {named} needs its ONNX file")


def stored_inputs(options: Namespace) -> dict[str, Array] | None:
    """The inputs of `--inputs`, to be read before the work starts; None without that option."""
    return None if options.inputs is None else read_inputs(options.inputs)


def run_inputs(
    stored: dict[str, Array] | None, options: Namespace, module: Any
) -> dict[str, Array]:
    """The stored inputs of a run, or random ones."""
    return random_inputs(module, options.seed) if stored is None else stored
