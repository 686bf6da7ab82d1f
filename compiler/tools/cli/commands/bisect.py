"""`flowloom bisect MODEL`: the story of a wrong output, and a reduced model that shows it."""

import json
import shlex
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import onnx

from compiler.errors import FlowloomError
from compiler.frontend.load import without_defaults
from compiler.progress import Paused, notify
from compiler.tools.bisect.finding import Story
from compiler.tools.bisect.reduce import reduced_model
from compiler.tools.bisect.search import Answer, Question, search_cause
from compiler.tools.compile_options import compile_arguments
from compiler.tools.inputs import read_inputs
from compiler.tools.models import named_model
from compiler.tools.outputs import check_folder, write_npz
from compiler.tools.reference import Refusal

DIFFERENT = 1
"""Exit status if something is wrong; 0 if nothing is."""

REPRO = ("repro.onnx", "repro.npz")
"""The files of a reduced model and its inputs."""

VALUES = (
    *("target", "arch", "precision", "pipeline", "graphs", "quantised", "budget", "profile"),
    *("schedule", "reference", "runs"),
)
FLAGS_KEPT = ("frozen", "no_cache", "check_indices")


def run(options: Namespace) -> int:
    """Search the cause, print each step, and write the reduced model and its inputs."""
    if options.model.is_dir():
        raise FlowloomError(f"{options.model} is an artifact, which has no IR: name its ONNX file")
    if options.reduce > 0:
        check_folder(options.output, *REPRO)
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
    if options.reduce > 0:
        story = _with_repro(story, answer, question, options, report)
    _conclude(replace(story, lines=tuple(lines)), options)
    return 0 if answer.finding is None else DIFFERENT


def _conclude(story: Story, options: Namespace) -> None:
    if options.json:
        print(json.dumps(story.to_json()))
    elif story.finding is None:
        print(f"nothing differs from {story.reference} on {story.target}")
    else:
        print(f"found     {story.finding.headline}")
        if story.repro:
            print(f"repeat    {story.repro['command']}")


def _with_repro(
    story: Story,
    answer: Answer,
    question: Question,
    options: Namespace,
    report: Callable[[str], None],
) -> Story:
    """The story after the model was reduced and written; as it was if no part shows the finding."""
    finding = answer.finding
    if finding is None:
        return story
    asked = replace(question, inputs=answer.inputs)
    try:
        reduced = reduced_model(asked, answer.inputs, finding, options.reduce)
    except Refusal as error:
        report(f"reduced   not, as that takes onnxruntime: {error}")
        return story
    if reduced is None:
        report("reduced   no part of the model shows it alone")
        return story
    options.output.mkdir(parents=True, exist_ok=True)
    model, inputs = (options.output / name for name in REPRO)
    cast(Any, onnx).save(reduced.part.model, str(model))
    write_npz(inputs, reduced.part.inputs)
    kinds = [node.op_type for node in reduced.part.model.graph.node]
    shown = ", ".join(kinds[:8]) + (", ..." if len(kinds) > 8 else "")
    report(
        f"reduced   to {reduced.nodes} nodes ({shown}), after {reduced.tried} parts:"
        f" {model}, {inputs}"
    )
    if finding.cause in ("import", "pass"):
        nodes = tuple(node.name or node.op_type for node in reduced.part.model.graph.node)
        finding = replace(finding, operators=reduced.finding.operators, nodes=nodes[:8])
    written = {
        "model": str(model),
        "inputs": str(inputs),
        "nodes": kinds,
        "difference": reduced.finding.difference,
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
    for option, names in (("--pass", options.own_passes), ("--operators", options.operators)):
        words += [word for name in names for word in (option, name)]
    words += [f"--{name.replace('_', '-')}" for name in FLAGS_KEPT if getattr(options, name)]
    return shlex.join(words)
