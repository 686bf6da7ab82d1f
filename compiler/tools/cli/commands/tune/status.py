"""`flowloom tune status MODEL|DIR...`: how many of their kernels the database covers."""

from argparse import Namespace
from pathlib import Path

from compiler.autotune.kernels.coverage import coverage
from compiler.autotune.kernels.measure import device_name
from compiler.backends.cuda import device as cuda
from compiler.driver.build import full_target
from compiler.errors import DeviceError
from compiler.kernels.database import device_of
from compiler.progress import in_parts, step_progress
from compiler.target.target import parse_target
from compiler.tools.cli.commands.tune.common import DEFAULT_PRECISIONS, model_files
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Print a line for each model and precision."""
    precisions = options.precision or DEFAULT_PRECISIONS
    every = [
        (*model, precision) for model in model_files(options.models) for precision in precisions
    ]
    rows: list[dict[str, str]] = []
    with step_progress("coverage"):
        for name, path, precision in in_parts("coverage", every, lambda item: item[0]):
            rows.append({"model": name, **_coverage(path, precision, options)})
    lines = (
        f"{r['model']} {r['target']} on {r['device'] or 'any device'}: {r['coverage']}"
        for r in rows
    )
    conclude(options, "\n".join(lines), {"models": rows})
    return 0


def _coverage(path: Path, precision: str, options: Namespace) -> dict[str, str]:
    """The target and the device of a model in a precision, and what the database has for it."""
    target = full_target("cuda", options.arch, precision)
    architecture = parse_target(target).architecture
    name = options.device or _present(architecture) or device_of(architecture)
    covered = coverage(path, target, name, dict(options.input_shape))
    return {"target": target, "device": name, "coverage": str(covered)}


def _present(architecture: str) -> str:
    """The name of the present device, if it has an architecture."""
    try:
        driver = cuda.device()
    except DeviceError:
        return ""
    return device_name(driver) if driver.device.architecture == architecture else ""
