"""Options that several commands of `flowloom` take."""

from argparse import ArgumentParser
from pathlib import Path

from compiler.tools.cli.option_types import input_shape, positive, seconds, seed
from compiler.tools.progress.options import add_progress

MODEL = "ONNX file, or zoo:NAME or field:NAME for a network of examples/zoo or examples/field"
"""The help of an argument that names a model."""


def add_import_options(parser: ArgumentParser) -> None:
    """The options that decide what a model means: target, shapes, and whose results it has."""
    parser.add_argument("--target", help="where the kernels run: cpu (default), cuda, hip, emu")
    parser.add_argument(
        "--input-shape",
        type=input_shape,
        action="append",
        default=[],
        metavar="NAME=DIMS",
        help="shape of an input with symbolic dimensions; repeat for more inputs",
    )
    parser.add_argument(
        "--arch", help="architecture of the kernels: sm_90 for cuda, gfx90a,gfx942 for hip, ..."
    )
    parser.add_argument(
        "--precision", help="fp32 (cpu, hip), fp16, bf16 (hip); tf32 (default), ... (cuda, emu)"
    )
    parser.add_argument(
        "--semantics",
        action="append",
        default=[],
        metavar="[RULE=]onnx|onnxruntime",
        help="whose results the model has where onnxruntime's are not the ONNX text's, for all "
        "rules of docs/differences.md or one (default: onnx, with a warning); repeat for more",
    )


def add_compile_options(parser: ArgumentParser) -> None:
    """Those of a compilation, which are the arguments of `compiler.compile`."""
    add_import_options(parser)
    parser.add_argument("--pipeline", help="passes, as `flowloom passes` lists them")
    add_own_passes(parser)
    add_operators(parser)
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
        "schedules, 0.8 for each kernel that no database has, 5 for all at most; 0: none), or "
        "kernels on this CPU (default: none)",
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


def add_own_passes(parser: ArgumentParser) -> None:
    """The option `--pass`."""
    parser.add_argument(
        "--pass",
        dest="own_passes",
        action="append",
        default=[],
        metavar="FILE.py:CLASS",
        help="a pass of your own that the pipeline names; repeat for more",
    )


def add_run_options(parser: ArgumentParser) -> None:
    """A model or an artifact, the inputs of its runs, and how a model is compiled for them."""
    parser.add_argument("model", type=Path, metavar="MODEL|DIR", help=f"{MODEL}, or artifact")
    parser.add_argument("--threads", type=positive, help="cores to use (default: all available)")
    parser.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    add_trusted(parser)
    add_compile_options(parser)


def add_trusted(parser: ArgumentParser) -> None:
    """The option `--trusted`."""
    parser.add_argument(
        "--trusted",
        type=Path,
        action="append",
        default=[],
        metavar="KEY.pub",
        help="refuse an artifact that no such Ed25519 public key signed; repeat for more",
    )


def add_operators(parser: ArgumentParser) -> None:
    """The option `--operators`, which `main` obeys before the command starts."""
    parser.add_argument(
        "--operators",
        action="append",
        default=[],
        metavar="FILE.py|MODULE",
        help="a file or module that registers operators of your own; repeat for more",
    )
