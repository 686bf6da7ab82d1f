"""The options of `flowloom tune`."""

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path

from compiler.tools.cli.option_types import input_shape, megabytes, positive, seconds
from compiler.tools.cli.options import add_operators
from compiler.tools.progress.options import add_json, add_progress

TUNE = ("models", "prepare", "measure", "merge", "status")
"""The steps of `flowloom tune`; the first is the default."""


def add_tune(add: Callable[..., ArgumentParser]) -> None:
    """Add the command with its steps."""
    command = add("tune", help="measure what templates can choose (docs/tuning.md)")
    steps = command.add_subparsers(dest="step", required=True, metavar="[STEP]").add_parser
    step = steps("models", help="the default: all steps on this machine; needs TVM and a GPU")
    _add_models(step)
    _add_candidates(step)
    _add_measuring(step)
    add_progress(step)
    add_json(step)
    step.add_argument(
        "--in-context",
        type=seconds,
        metavar="SECONDS",
        help="time a model in which whole runs choose among the best few (default: 20; 0: none)",
    )
    step.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="prepare and measure on the Ray cluster at HOST:PORT, `auto` or `local`",
    )
    step = steps("prepare", help="write the candidates of models to a bundle; needs no GPU")
    _add_models(step)
    _add_candidates(step)
    step.add_argument("-o", "--output", type=Path, required=True, metavar="BUNDLE")
    step.add_argument("--arch", default="sm_90", help="architecture (default: sm_90)")
    step.add_argument("--limit", type=megabytes, default=60.0, metavar="MB",
                      help="most megabytes of the bundle (default: 60)")  # fmt: skip
    add_progress(step)
    add_json(step)
    step = steps("measure", help="measure bundles on this device; needs no TVM")
    step.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE")
    step.add_argument("-o", "--output", type=Path, required=True, metavar="RESULTS")
    _add_measuring(step)
    add_progress(step)
    add_json(step)
    step = steps("merge", help="put results into the database")
    step.add_argument("results", type=Path, nargs="+", metavar="RESULTS")
    step.add_argument("-o", "--output", type=Path, help="database (default: the user's)")
    step.add_argument("--device", help="whose results count more, if they are of several devices")
    add_progress(step)
    add_json(step)
    step = steps("status", help="how many of models' kernels the database covers")
    _add_models(step)
    step.add_argument("--arch", help="architecture (default: the device's, or sm_90)")
    step.add_argument("--device", help="as `merge` names it (default: the present one)")
    add_progress(step)
    add_json(step)


def _add_models(step: ArgumentParser) -> None:
    step.add_argument(
        "models", type=Path, nargs="+", metavar="MODEL|DIR", help="ONNX files, or folders of them"
    )
    step.add_argument("--precision", action="append", help="repeat for more (default: tf32)")
    step.add_argument(
        "--input-shape", type=input_shape, action="append", default=[], metavar="NAME=DIMS",
        help="shape of an input with symbolic dimensions; repeat for more inputs",
    )  # fmt: skip
    add_operators(step)


def _add_candidates(step: ArgumentParser) -> None:
    step.add_argument("--candidates", type=positive, default=24, help="of a kernel (default: 24)")


def _add_measuring(step: ArgumentParser) -> None:
    step.add_argument(
        "--budget", type=seconds, default=float("inf"), metavar="SECONDS", help="time to measure"
    )
    step.add_argument("--jobs", type=positive, default=0, help="compilers at once (default: cores)")


def with_step(arguments: Sequence[str]) -> list[str]:
    """The arguments with the step that `flowloom tune MODEL` leaves out."""
    position = next(
        (i for i, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments)
    )
    command = [*arguments[: position + 1]]
    following = arguments[position + 1 :]
    if command[-1:] != ["tune"] or (following and following[0] in (*TUNE, "-h", "--help")):
        return [*arguments]
    return [*command, TUNE[0], *following]
