"""`flowloom compile MODEL [-o DIR]`: the module, saved."""

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import compiler
from compiler.artifact.replaceable import check_replaceable
from compiler.scheduling.prediction import gap, prediction
from compiler.target.target import parse_target
from compiler.tools.cli.opening import compile_model
from compiler.tools.models import default_artifact
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Compile, save and describe a module: on a GPU also its run against its lower bound."""
    output = options.output or default_artifact(options.model)
    check_replaceable(output)
    module = compile_model(options)
    module.save(output)
    text = f"{output}: {module.summary()}"
    if isinstance(module, compiler.Module) and parse_target(module.target).is_gpu:
        text += f"; {gap(module, prediction(module))}"
    conclude(options, text, _figures(options, module, output))
    return 0


def _figures(options: Namespace, module: Any, output: Path) -> dict[str, Any]:
    """The result of a compilation as plain data: its size, and the seconds of steps and kernels."""
    figures = {
        "output": str(output),
        "model": str(options.model),
        "target": module.target,
        "kernel_seconds": options.work.kernels,
    }
    if not isinstance(module, compiler.Module):
        return figures
    schedule = module.schedule
    figures |= {
        "kernels": len(module.kernels),
        "tasks": len(schedule.tasks),
        "streams": schedule.streams,
        "weight_bytes": sum(a.nbytes for a in schedule.of_kind("weight")),
        "arena_bytes": sum(a.nbytes for a in schedule.of_kind("arena")),
    }
    if module.tuning is not None:
        figures["tuning"] = asdict(module.tuning)
    return figures
