"""`flowloom export`: the C++ project of an artifact, with outputs to check it against."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import compiler
from compiler.artifact import artifact
from compiler.artifact.generate import StoredCheck, export_project
from compiler.progress import Announcement, notify, step_progress
from compiler.support.words import counted, in_bytes
from compiler.target.target import parse_target
from compiler.tools import reference
from compiler.tools.inputs import random_inputs
from compiler.tools.inspection import open_module
from compiler.tools.models import named_model
from compiler.tools.tolerance import TOLERANCES


def export(options: Namespace) -> tuple[str, Mapping[str, Any]]:
    """Write the project that the options of the command name; the result in words and figures."""
    with step_progress("read"):
        found = artifact.load(options.directory, lambda target, requirements: None)
    check = None
    if options.check is not None:
        with step_progress("outputs to check against"):
            notify(Announcement("running onnxruntime for outputs to check against"))
            module, model = open_module(options.directory), named_model(options.check)
            check = stored_check(module, model, options.seed)
    weights = sum(array.nbytes for array in found.weights.values())
    with step_progress("write"):
        kernels = counted(len(found.kernels), "kernel")
        notify(
            Announcement(
                f"writing {kernels} and {in_bytes(weights)} of weights to {options.output}"
            )
        )
        export_project(found, options.output, version=compiler.__version__, check=check)
    figures = {
        "project": str(options.output),
        "kernels": len(found.kernels),
        "target": found.target,
        "checked": check is not None,
    }
    stored = "" if check else "; no outputs to check against are stored: see --check"
    return (
        f"{options.output}: {kernels} for {found.target}{stored}",
        figures,
    )


def stored_check(module: compiler.Module, model: Any, seed: int) -> StoredCheck:
    """Random inputs, and what onnxruntime makes of them, with the tolerance of the precision."""
    inputs = random_inputs(module, seed)
    outputs = reference.run_onnxruntime(model, inputs)
    return StoredCheck(inputs, outputs, TOLERANCES[parse_target(module.target).precision])
