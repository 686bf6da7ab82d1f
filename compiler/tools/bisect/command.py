"""`flowloom bisect MODEL`: its options, what it prints and the files that it writes."""

import json
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from compiler.errors import FlowloomError
from compiler.progress import Paused, notify
from compiler.tools.compile_options import compile_arguments
from compiler.tools.inputs import read_inputs
from compiler.tools.models import named_model
from compiler.tools.option_types import positive, seconds, seed
from compiler.tools.outputs import write_npz
from compiler.tools.progress.options import add_json
from compiler.tools.reference import Refusal

DIFFERENT = 1
"""Exit status if something is wrong; 0 if nothing is."""

VALUES = (
    *("target", "arch", "precision", "pipeline", "graphs", "quantised", "budget", "profile"),
    *("schedule", "reference", "runs"),
)
FLAGS_KEPT = ("frozen", "no_cache", "check_indices")


def add_bisect(add: Callable[..., ArgumentParser], compile_options: Callable[[Any], None]) -> None:
    """Add the command to the command line."""
    each = add(
        "bisect",
        help="find the pass, kernel or missing wait that makes a model's outputs wrong",
        description="Find by itself what makes a model's outputs differ from the reference's: the"
        " IR after each pass is interpreted in float64, each kernel is compared with its operators"
        " on what it reads, and whole runs with runs of one task at a time. Then reduce the model"
        " to the fewest nodes that show it. Exit status 0: nothing differs; 1: found.",
    )
    each.add_argument("model", type=Path, metavar="MODEL", help="ONNX file, zoo:NAME or field:NAME")
    each.add_argument("--inputs", type=Path, help="inputs by name, as .npz (default: random)")
    each.add_argument("--seed", type=seed, default=0, help="seed of the random inputs")
    each.add_argument(
        "--reference",
        choices=("onnxruntime", "interpreter"),
        default="onnxruntime",
        help="what is right: onnxruntime (default), or the imported model in float64",
    )
    each.add_argument(
        "--runs",
        type=positive,
        default=8,
        help="whole runs to compare, with delays on GPUs (default: 8)",
    )
    each.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR",
        help="where repro.onnx and repro.npz go (default: here)",
    )  # fmt: skip
    each.add_argument(
        "--reduce", type=seconds, default=60.0, metavar="SECONDS",
        help="time to reduce the model (default: 60; 0 writes no files)",
    )  # fmt: skip
    add_json(each)
    compile_options(each)
    each.set_defaults(command=bisect_command)


def bisect_command(options: Namespace) -> int:
    """`flowloom bisect MODEL`: the story, and a reduced model of what it finds."""
    from compiler.frontend.load import without_defaults
    from compiler.tools.bisect.finding import Story
    from compiler.tools.bisect.search import Question, search_cause

    if options.model.is_dir():
        raise FlowloomError(f"{options.model} is an artifact, which has no IR: name its ONNX file")
    arguments = compile_arguments(options)
    question = Question(
        model=without_defaults(named_model(options.model), arguments.pop("overridable")),
        inputs=None if options.inputs is None else read_inputs(options.inputs),
        arguments=arguments,
        reference=options.reference,
        seed=options.seed,
        runs=options.runs,
    )
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if not options.json:
            notify(Paused())
            print(line, flush=True)

    answer = search_cause(question, report)
    story = Story((), answer.finding, answer.target, options.reference)
    if answer.finding is not None and options.reduce > 0:
        asked = replace(question, inputs=answer.inputs)
        story = _with_repro(story, asked, options, report)
    _conclude(replace(story, lines=tuple(lines)), options)
    return 0 if answer.finding is None else DIFFERENT


def _conclude(story: Any, options: Namespace) -> None:
    if options.json:
        print(json.dumps(story.to_json()))
    elif story.finding is None:
        print(f"nothing differs from {story.reference} on {story.target}")
    else:
        print(f"found     {story.finding.headline}")
        if story.repro:
            print(f"repeat    {story.repro['command']}")


def _with_repro(
    story: Any, question: Any, options: Namespace, report: Callable[[str], None]
) -> Any:
    """The story after the model was reduced and written; without files if no part shows it."""
    import onnx

    from compiler.tools.bisect.reduce import reduced_model

    try:
        found = reduced_model(question, question.inputs, story.finding, options.reduce)
    except Refusal as error:
        report(f"reduced   not, as that takes onnxruntime: {error}")
        return story
    if found is None:
        report("reduced   no part of the model shows it alone")
        return story
    options.output.mkdir(parents=True, exist_ok=True)
    model, inputs = options.output / "repro.onnx", options.output / "repro.npz"
    cast(Any, onnx).save(found.part.model, str(model))
    write_npz(inputs, found.part.inputs)
    kinds = [node.op_type for node in found.part.model.graph.node]
    shown = ", ".join(kinds[:8]) + (", ..." if len(kinds) > 8 else "")
    report(
        f"reduced   to {found.nodes} nodes ({shown}), after {found.tried} parts: {model}, {inputs}"
    )
    finding = story.finding
    if finding.cause in ("import", "pass"):
        nodes = tuple(node.name or node.op_type for node in found.part.model.graph.node)
        finding = replace(finding, operators=found.finding.operators, nodes=nodes[:8])
    written = {
        "model": str(model),
        "inputs": str(inputs),
        "nodes": kinds,
        "difference": found.finding.difference,
        "command": repeat_command(options, model, inputs),
    }
    return replace(story, finding=finding, repro=written)


def repeat_command(options: Namespace, model: Path, inputs: Path) -> str:
    """The command that searches a reduced model with the same options."""
    words = ["flowloom", "bisect", str(model), "--inputs", str(inputs), "--reduce", "0"]
    for name in VALUES:
        value = getattr(options, name)
        if value is not None and (name, value) not in (("reference", "onnxruntime"), ("runs", 8)):
            words += [f"--{name.replace('_', '-')}", str(value)]
    for own in options.own_passes:
        words += ["--pass", own]
    words += [f"--{name.replace('_', '-')}" for name in FLAGS_KEPT if getattr(options, name)]
    return shlex.join(words)
