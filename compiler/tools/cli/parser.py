"""The `flowloom` command: compile, run, bench, bisect, report, explore, export, trace, tune, ..."""

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compiler import __version__
from compiler.errors import FlowloomError
from compiler.tools.bisect.command import add_bisect
from compiler.tools.checking.saved import check_command
from compiler.tools.cli import commands, tuning
from compiler.tools.cli.completion import add_completion
from compiler.tools.option_types import bucket, input_shape, megabytes, positive, seconds, seed
from compiler.tools.progress.options import add_json, add_progress, shown_progress

MODEL = "ONNX file, or zoo:NAME or field:NAME for a network of examples/zoo or examples/field"
"""The help of an argument that names a model."""


def _add_compile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", help="where the kernels run: cpu (default), cuda, hip, emu")
    parser.add_argument("--pipeline", help="passes, as `flowloom passes` lists them")
    _add_own_passes(parser)
    parser.add_argument(
        "--input-shape",
        type=input_shape,
        action="append",
        default=[],
        metavar="NAME=DIMS",
        help="shape of an input with symbolic dimensions; repeat for more inputs",
    )
    parser.add_argument(
        "--bucket",
        type=bucket,
        action="append",
        default=[],
        metavar="DIMENSION=SIZES",
        help="sizes of a symbolic dimension to compile for now, to which the inputs of runs are "
        "padded: length=64,128,256 (INPUT.AXIS if it has no name); repeat for more dimensions",
    )
    parser.add_argument(
        "--overridable",
        action="append",
        default=[],
        metavar="NAME",
        help="an initializer that is also an input, and that each run gives; repeat for more",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="refuse what only a run decides: shapes, control flow, nodes on the host",
    )
    parser.add_argument(
        "--arch", help="architecture of the kernels: sm_90 for cuda, gfx90a,gfx942 for hip, ..."
    )
    parser.add_argument(
        "--precision", help="fp32 (cpu, hip), fp16, bf16 (hip); tf32 (default), ... (cuda, emu)"
    )
    parser.add_argument(
        "--schedule",
        type=Path,
        metavar="auto|FILE",
        help="constraints, or a schedule.json to obey; auto{steps=N seed=N} says how to search",
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        metavar="SECONDS",
        help="time to measure kernels and schedules on a GPU, half for each (default: 5 for "
        "schedules, 0.2 for each kernel that no database has, 10 for all at most; 0: none), or "
        "kernels on this CPU (default: 0.4 for each, 8 at most)",
    )
    parser.add_argument(
        "--graphs",
        metavar="PARTS",
        help="parts of PyGraph used on cuda and emu: all (default), none, or some of "
        "resident,indirection,selective",
    )
    parser.add_argument(
        "--quantised",
        metavar="HOW",
        help="what quantised operators contract: bytes, operands (bytes, where all else is only "
        "clipped to the range of its integers), floats, unrounded (floats that are only clipped), "
        "or auto (default): the faster of bytes and floats, in fp16 and bf16 of operands and "
        "unrounded",
    )
    parser.add_argument(
        "--semantics",
        action="append",
        default=[],
        metavar="[RULE=]onnx|onnxruntime",
        help="whose results the model has where onnxruntime's are not the ONNX text's, for all "
        "rules of docs/differences.md or one (default: onnx, with a warning); repeat for more",
    )
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="database of kernel times, used and added to"
    )
    parser.add_argument(
        "--frozen",
        action="store_true",
        help="measure nothing: the schedule follows from the model, the options and --profile",
    )
    parser.add_argument(
        "--dump-ir",
        type=Path,
        metavar="DIR",
        help="write the IR after each pass, and the CUDA text of every kernel",
    )
    add_progress(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="build every kernel again, and keep none"
    )
    parser.add_argument(
        "--check-indices",
        action="store_true",
        help="report indices in the input data that are out of range (on under run --check)",
    )


def _add_own_passes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pass",
        dest="own_passes",
        action="append",
        default=[],
        metavar="FILE.py:CLASS",
        help="a pass of your own that the pipeline names; repeat for more",
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL|DIR", help=f"{MODEL}, or artifact")
    parser.add_argument("--threads", type=positive, help="cores to use (default: all available)")
    parser.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    _add_trusted(parser)
    _add_compile_options(parser)


def _add_trusted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trusted",
        type=Path,
        action="append",
        default=[],
        metavar="KEY.pub",
        help="refuse an artifact that no such Ed25519 public key signed; repeat for more",
    )


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        "flowloom",
        description="Compile ONNX models into verified schedules of fused kernels; run, measure,"
        " explain and export them. `flowloom COMMAND --help` has the options of each command.",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("--version", action="version", version=f"flowloom {__version__}")
    add = parser.add_subparsers(required=True, metavar="COMMAND").add_parser

    each = add("compile", help="compile an ONNX model into an artifact directory")
    each.add_argument("model", type=Path, metavar="MODEL", help=MODEL)
    each.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="directory (default: NAME.flowloom)"
    )
    add_json(each)
    _add_compile_options(each)
    each.set_defaults(command=commands.compile_command)

    each = add("run", help="run a model or an artifact once")
    _add_run_options(each)
    each.add_argument("--outputs", type=Path, help="write the outputs to this .npz")
    each.add_argument(
        "--check",
        nargs="?",
        const=True,
        metavar="MODEL",
        help="compare with onnxruntime (exit status 2 if that refuses the model); an artifact"
        " needs its ONNX file here",
    )
    each.add_argument(
        "--check-groups",
        action="store_true",
        help="compare every kernel with the interpreter on what it reads; stop at the first wrong",
    )
    each.set_defaults(command=commands.run_command)

    add_bisect(add, _add_compile_options)

    each = add("bench", help="time a model or an artifact")
    _add_run_options(each)
    each.add_argument("--runs", type=positive, default=50, help="timed runs (default: 50)")
    add_json(each)
    each.set_defaults(command=commands.bench_command)

    each = add("report", help="describe an artifact: kernels, streams, memory, why it was chosen")
    each.add_argument("directory", type=Path, metavar="DIR")
    each.add_argument("-o", "--output", type=Path, help="write the text to this file")
    each.add_argument(
        "--constraints", action="store_true", help="streams and order, for compile --schedule"
    )
    each.set_defaults(command=commands.report_command)

    each = add(
        "explore",
        help="write a page that shows a model compiled: graph, timeline, memory, kernels, passes",
        description="Write one page, which needs no network: the graph, the timeline, the memory,"
        " the kernels, the passes and the choice of a schedule; of two, what differs. A model is"
        " compiled for the page, so that it has its passes and operators, unlike an artifact.",
    )
    each.add_argument("models", type=Path, nargs="+", metavar="MODEL|DIR", help="one, or two")
    each.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html")
    _add_compile_options(each)
    each.set_defaults(command=commands.explore_command)

    each = add("export", help="write an artifact as a C++ project with CMake, for CUDA or HIP")
    each.add_argument("directory", type=Path, metavar="DIR")
    each.add_argument("-o", "--output", type=Path, required=True, metavar="PROJECT")
    each.add_argument(
        "--check",
        type=Path,
        metavar="MODEL",
        help="ONNX file of the artifact: store random inputs and onnxruntime's outputs",
    )
    each.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    add_progress(each)
    add_json(each)
    each.set_defaults(command=commands.export_command)

    each = add(
        "trace",
        help="write a timeline for Perfetto: predicted, and measured",
        description="Write a timeline for Perfetto (or chrome://tracing): a row a stream, a slice a"
        " kernel, an arrow a dependency. The first process is the run that the cost model predicts."
        " With the module's device present, the second is measured: of 15 runs that of median"
        " length. On the CPU its rows are threads, with the blocks that they executed for each"
        " other. On a GPU it runs in mode streams, each kernel between two timing events, which"
        " lengthen the run and forbid early launches, so `flowloom bench` gives the true total.",
    )
    each.add_argument("model", type=Path, metavar="MODEL|DIR", help=f"{MODEL}, or artifact")
    each.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")
    each.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    each.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    _add_compile_options(each)
    each.set_defaults(command=commands.trace_command)

    each = add("opt", help="run passes over text IR")
    each.add_argument("file", help="an .mlir file, or - for standard input")
    each.add_argument("-p", "--pipeline", default="", help="passes; none verifies and prints")
    _add_own_passes(each)
    each.add_argument("--dump-ir", type=Path, metavar="DIR", help="write the IR after each pass")
    each.add_argument("--timing", action="store_true", help="print seconds to standard error")
    each.add_argument(
        "--split-input-file", action="store_true", help="treat parts between `// -----` apart"
    )
    each.add_argument(
        "--verify-diagnostics", action="store_true", help="print an error instead of failing"
    )
    each.set_defaults(command=commands.opt_command)

    each = add("check", help="verify an artifact or a schedule, exit 1 and what is wrong; sign it")
    each.add_argument("path", type=Path, metavar="DIR|FILE.mlir|schedule.json")
    _add_trusted(each)
    each.add_argument(
        "--sign",
        type=Path,
        metavar="KEY.pem",
        help="sign an artifact that passes with this Ed25519 private key, for --trusted",
    )
    each.set_defaults(command=check_command)

    each = add("passes", help="list the passes and their options")
    each.set_defaults(command=commands.passes_command)

    _add_tune(add)

    each = add("cache", help="the kernel cache")
    each.add_argument("action", choices=("status", "clear"))
    each.set_defaults(command=commands.cache_command)

    add_completion(add, parser)
    return parser


TUNE = ("models", "prepare", "measure", "merge", "status")
"""The steps of `flowloom tune`; the first is the default."""


def _add_tune(add: Callable[..., argparse.ArgumentParser]) -> None:
    each = add("tune", help="measure what templates can choose (docs/tuning.md)")
    steps = each.add_subparsers(required=True, metavar="[STEP]").add_parser
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
    step.set_defaults(command=tuning.tune_command)
    step = steps("prepare", help="write the candidates of models to a bundle; needs no GPU")
    _add_models(step)
    _add_candidates(step)
    step.add_argument("-o", "--output", type=Path, required=True, metavar="BUNDLE")
    step.add_argument("--arch", default="sm_90", help="architecture (default: sm_90)")
    step.add_argument("--limit", type=megabytes, default=60.0, metavar="MB",
                      help="most megabytes of the bundle (default: 60)")  # fmt: skip
    add_progress(step)
    add_json(step)
    step.set_defaults(command=tuning.prepare_command)
    step = steps("measure", help="measure bundles on this device; needs no TVM")
    step.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE")
    step.add_argument("-o", "--output", type=Path, required=True, metavar="RESULTS")
    _add_measuring(step)
    add_progress(step)
    add_json(step)
    step.set_defaults(command=tuning.measure_command)
    step = steps("merge", help="put results into the database")
    step.add_argument("results", type=Path, nargs="+", metavar="RESULTS")
    step.add_argument("-o", "--output", type=Path, help="database (default: the user's)")
    step.add_argument("--device", help="whose results count more, if they are of several devices")
    add_progress(step)
    add_json(step)
    step.set_defaults(command=tuning.merge_command)
    step = steps("status", help="how many of models' kernels the database covers")
    _add_models(step)
    step.add_argument("--arch", help="architecture (default: the device's, or sm_90)")
    step.add_argument("--device", help="as `merge` names it (default: the present one)")
    add_progress(step)
    add_json(step)
    step.set_defaults(command=tuning.status_command)


def _add_models(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "models", type=Path, nargs="+", metavar="MODEL|DIR", help="ONNX files, or folders of them"
    )
    step.add_argument("--precision", action="append", help="repeat for more (default: tf32)")
    step.add_argument(
        "--input-shape", type=input_shape, action="append", default=[], metavar="NAME=DIMS",
        help="shape of an input with symbolic dimensions; repeat for more inputs",
    )  # fmt: skip


def _add_candidates(step: argparse.ArgumentParser) -> None:
    step.add_argument("--candidates", type=positive, default=24, help="of a kernel (default: 24)")


def _add_measuring(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--budget", type=seconds, default=float("inf"), metavar="SECONDS", help="time to measure"
    )
    step.add_argument("--jobs", type=positive, default=0, help="compilers at once (default: cores)")


def with_step(arguments: Sequence[str]) -> list[str]:
    """The arguments with the step that `flowloom tune MODEL` leaves out."""
    at = next(
        (i for i, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments)
    )
    command, rest = [*arguments[: at + 1]], arguments[at + 1 :]
    if command[-1:] != ["tune"] or (rest and rest[0] in (*TUNE, "-h", "--help")):
        return [*arguments]
    return [*command, TUNE[0], *rest]


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"flowloom: warning: {message}", file=sys.stderr)


INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of SIGINT, as shells have it."""


NO_COMMAND = 2
"""Exit status without a command: that of any line that cannot be read."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; an error a user can act on is one line and exit status 1."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        make_parser().print_help(sys.stderr)
        return NO_COMMAND
    parsed = make_parser().parse_args(with_step(given))
    _print_undecodable_names()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            with shown_progress(parsed):
                status: int = parsed.command(parsed)
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader has closed the pipe: nothing more may be written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Exception) as error:
        if parsed.debug:
            raise
        print(f"flowloom: {described(error)}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _print_undecodable_names() -> None:
    """Let standard output escape file names that are not valid text."""
    output: Any = sys.stdout
    if isinstance(output, io.TextIOWrapper):
        output.reconfigure(errors="backslashreplace")


def described(error: BaseException) -> str:
    """An error on one line; an unexpected one with the place that raised it."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, FlowloomError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        return f"{type(error).__name__}: {named}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:500]
    return (
        f"internal error: {type(error).__name__}: {text} ({frame.filename}, line {frame.lineno});"
        " please report it with what `flowloom --debug` prints"
    )
