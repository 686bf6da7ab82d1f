"""`flowloom export DIR -o PROJECT`: an artifact as a C++ project, with outputs to check it."""

from argparse import Namespace

import compiler
from compiler.artifact import artifact
from compiler.artifact.generate import StoredCheck, check_project, export_project
from compiler.artifact.module import Module
from compiler.progress import Announcement, notify, step_progress
from compiler.support.words import counted, in_bytes
from compiler.target.target import parse_target
from compiler.tools import reference
from compiler.tools.inputs import random_inputs
from compiler.tools.models import named_model
from compiler.tools.progress.options import conclude
from compiler.tools.tolerance import TOLERANCES


def run(options: Namespace) -> int:
    """Write the project that the options name, and say what it holds."""
    check_project(options.output)
    with step_progress("read"):
        # the project is built elsewhere: what it requires need not be here
        saved = artifact.load(options.directory, lambda target, requirements: None)
    check = None
    if options.check is not None:
        with step_progress("outputs to check against"):
            notify(Announcement("running onnxruntime for outputs to check against"))
            module = Module(saved)
            model = named_model(options.check)
            inputs = random_inputs(module, options.seed)
            outputs = reference.run_onnxruntime(model, inputs)
            check = StoredCheck(inputs, outputs, TOLERANCES[parse_target(module.target).precision])
    weights = sum(array.nbytes for array in saved.weights.values())
    with step_progress("write"):
        kernels = counted(len(saved.kernels), "kernel")
        notify(
            Announcement(
                f"writing {kernels} and {in_bytes(weights)} of weights to {options.output}"
            )
        )
        export_project(
            saved,
            options.output,
            version=compiler.__version__,
            check=check,
            emulator=options.emulator,
        )
    figures = {
        "project": str(options.output),
        "kernels": len(saved.kernels),
        "target": saved.target,
        "checked": check is not None,
    }
    stored = "" if check else "; no outputs to check against are stored: see --check"
    conclude(options, f"{options.output}: {kernels} for {saved.target}{stored}", figures)
    return 0
