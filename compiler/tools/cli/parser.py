"""The parser of the command line: the commands, and the options that only one of them takes."""

from argparse import ArgumentParser
from pathlib import Path

from compiler import __version__
from compiler.tools.cli.option_types import positive, seconds, seed
from compiler.tools.cli.options import (
    MODEL,
    add_compile_options,
    add_import_options,
    add_operators,
    add_own_passes,
    add_run_options,
    add_trusted,
)
from compiler.tools.cli.tune_options import add_tune
from compiler.tools.progress.options import add_json, add_progress


def make_parser() -> ArgumentParser:
    """The parser of the whole command line."""
    parser = ArgumentParser(
        "flowloom",
        description="Compile ONNX models into verified schedules of fused kernels; run, measure,"
        " explain and export them. `flowloom COMMAND --help` has the options of each command.",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.add_argument("--version", action="version", version=f"flowloom {__version__}")
    add = parser.add_subparsers(dest="command", required=True, metavar="COMMAND").add_parser

    sub = add("compile", help="compile an ONNX model into an artifact directory")
    sub.add_argument("model", type=Path, metavar="MODEL", help=MODEL)
    sub.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="directory (default: NAME.flowloom)"
    )
    add_json(sub)
    add_compile_options(sub)

    sub = add("run", help="run a model or an artifact once")
    add_run_options(sub)
    sub.add_argument("--outputs", type=Path, help="write the outputs to this .npz")
    sub.add_argument(
        "--check",
        nargs="?",
        const=True,
        metavar="MODEL",
        help="compare with onnxruntime (exit status 2 if that refuses the model); an artifact"
        " needs its ONNX file here",
    )
    sub.add_argument(
        "--check-groups",
        action="store_true",
        help="compare every kernel with the interpreter on what it reads; stop at the first wrong",
    )
    add_json(sub)

    sub = add(
        "bisect",
        help="find the pass, kernel or missing wait that makes a model's outputs wrong",
        description="Find by itself what makes a model's outputs differ from the reference's: the"
        " IR after each pass is interpreted in float64, each kernel is compared with its operators"
        " on what it reads, and whole runs with runs of one task at a time. Then reduce the model"
        " to the fewest nodes that show it. Exit status 0: nothing differs; 1: found.",
    )
    sub.add_argument("model", type=Path, metavar="MODEL", help="ONNX file, zoo:NAME or field:NAME")
    sub.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    sub.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    sub.add_argument(
        "--reference",
        choices=("onnxruntime", "interpreter"),
        default="onnxruntime",
        help="what is right: onnxruntime (default), or the imported model in float64",
    )
    sub.add_argument(
        "--runs",
        type=positive,
        default=8,
        help="whole runs to compare, with delays on GPUs (default: 8)",
    )
    sub.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR",
        help="where repro.onnx and repro.npz go (default: here)",
    )  # fmt: skip
    sub.add_argument(
        "--reduce", type=seconds, default=60.0, metavar="SECONDS",
        help="time to reduce the model (default: 60; 0 writes no files)",
    )  # fmt: skip
    add_json(sub)
    add_compile_options(sub)

    sub = add("bench", help="time a model or an artifact")
    add_run_options(sub)
    sub.add_argument(
        "--warmup", type=positive, default=3, metavar="N", help="untimed runs first (default: 3)"
    )
    length = sub.add_mutually_exclusive_group()
    length.add_argument("--runs", type=positive, default=50, help="timed runs (default: 50)")
    length.add_argument(
        "--duration", type=seconds, default=0.0, metavar="SECONDS",
        help="time runs for so long, not for a number of them",
    )  # fmt: skip
    sub.add_argument(
        "--concurrency",
        type=positive,
        default=1,
        metavar="N",
        help="threads that run the module at once, each again when its run has ended (default: 1)",
    )
    add_json(sub)

    sub = add(
        "compare",
        help="time ways to run a model in turns: pipelines, policies, artifacts, other runtimes",
        description="Time ways to run a model in turns, with 95 % intervals, and compare their"
        " outputs. A contender is flowloom (the default pipeline), a policy of assign-streams or"
        " FILE.py:FUNCTION, passes that replace those of the default pipeline, a whole pipeline,"
        " the directory of an artifact, onnxruntime or openvino. Without any, it is flowloom and"
        " the runtimes that are installed. Exit status 1: one could not run or has other outputs.",
    )
    sub.add_argument("model", type=Path, metavar="MODEL|DIR", help=f"{MODEL}, or artifact")
    sub.add_argument("contenders", nargs="*", metavar="CONTENDER", help="the first is compared to")
    sub.add_argument(
        "--duration", type=seconds, default=10.0, metavar="SECONDS",
        help="time for the runs (default: 10)",
    )  # fmt: skip
    sub.add_argument("--threads", type=positive, help="cores to use (default: all available)")
    sub.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    sub.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    sub.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the times")
    add_compile_options(sub)
    add_json(sub)

    sub = add(
        "inspect",
        help="describe a model before it is compiled: inputs, operators, what would run where",
        description="Describe a model: inputs, outputs, parameters, operators, and whether a target"
        " compiles it to one schedule, to a dynamic module with nodes on the host, or refuses it,"
        " and why. No kernel is built. Exit status 1: refused.",
    )
    sub.add_argument("model", type=Path, metavar="MODEL", help=MODEL)
    add_import_options(sub)
    add_operators(sub)
    add_json(sub)

    sub = add("report", help="describe an artifact: kernels, streams, memory, why it was chosen")
    sub.add_argument("directory", type=Path, metavar="DIR")
    sub.add_argument("-o", "--output", type=Path, help="write the text to this file")
    sub.add_argument(
        "--constraints", action="store_true", help="streams and order, for compile --schedule"
    )

    sub = add(
        "explore",
        help="write a page that shows a model compiled: graph, timeline, memory, kernels, passes",
        description="Write one page, which needs no network: the graph, the timeline, the memory,"
        " the kernels, the passes and the choice of a schedule; of two, what differs. A model is"
        " compiled for the page, so that it has its passes and operators, unlike an artifact.",
    )
    sub.add_argument("models", type=Path, nargs="+", metavar="MODEL|DIR", help="one, or two")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="PAGE.html")
    add_json(sub)
    add_compile_options(sub)

    sub = add("export", help="write an artifact as a C++ project with CMake, for CUDA, HIP or CPUs")
    sub.add_argument("directory", type=Path, metavar="DIR")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="PROJECT")
    sub.add_argument(
        "--check",
        type=Path,
        metavar="MODEL",
        help="ONNX file of the artifact: store random inputs and onnxruntime's outputs",
    )
    sub.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    sub.add_argument(
        "--emulator",
        action="store_true",
        help="add the emulator, by which a project for GPUs runs on a CPU (emu artifacts have it)",
    )
    add_progress(sub)
    add_json(sub)

    sub = add(
        "trace",
        help="write a timeline for Perfetto: predicted, and measured",
        description="Write a timeline for Perfetto (or chrome://tracing): each stream is a row,"
        " each kernel a slice, each dependency an arrow. The first process is the run that the cost"
        " model predicts. With the module's device present, the second is measured: the run of"
        " median length of 15. On the CPU its rows are threads, with the blocks that they executed"
        " for each other. On a GPU it runs in mode streams, each kernel between two timing events,"
        " which lengthen the run and forbid early launches: `flowloom bench` gives the true total.",
    )
    sub.add_argument("model", type=Path, metavar="MODEL|DIR", help=f"{MODEL}, or artifact")
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.json")
    sub.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    sub.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    add_json(sub)
    add_compile_options(sub)

    sub = add("opt", help="run passes over text IR")
    sub.add_argument("file", help="an .mlir file, or - for standard input")
    sub.add_argument("-p", "--pipeline", default="", help="passes; none verifies and prints")
    add_own_passes(sub)
    add_operators(sub)
    sub.add_argument("--dump-ir", type=Path, metavar="DIR", help="write the IR after each pass")
    sub.add_argument("--timing", action="store_true", help="print seconds to standard error")
    sub.add_argument(
        "--split-input-file", action="store_true", help="treat parts between `// -----` apart"
    )
    sub.add_argument(
        "--verify-diagnostics", action="store_true", help="print an error instead of failing"
    )

    sub = add("check", help="verify an artifact or a schedule (exit status 1: wrong); sign it")
    sub.add_argument("path", type=Path, metavar="DIR|FILE.mlir|schedule.json")
    add_trusted(sub)
    sub.add_argument(
        "--sign",
        type=Path,
        metavar="KEY.pem",
        help="sign an artifact that passes with this Ed25519 private key, for --trusted",
    )
    add_json(sub)

    sub = add("passes", help="list the passes and their options")
    add_json(sub)

    add_tune(add)

    sub = add("cache", help="show the size of the kernel cache, or empty it")
    sub.add_argument("action", choices=("status", "clear"))
    add_json(sub)

    sub = add(
        "library",
        help="build a library: kernels that compilations read where the cache has none",
        description="Compile models for a target, and write their kernels as a library into a"
        " folder. A release builds those of the package; FLOWLOOM_LIBRARY=FOLDER has compilations"
        " read the libraries of another folder instead.",
    )
    sub.add_argument("action", choices=("build",))
    sub.add_argument("models", nargs="+", type=Path, metavar="MODEL", help=MODEL)
    sub.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    sub.add_argument("--target", default="cpu", help="such as cpu:x86-64-v3 or cuda:sm_90:fp16")

    sub = add("doctor", help="say what works on this machine, and what to install for the rest")
    add_json(sub)

    sub = add("completion", help="print a shell's script that completes flowloom's commands")
    sub.add_argument("shell", choices=("bash", "fish", "zsh"))
    sub.set_defaults(parser=parser)
    return parser
