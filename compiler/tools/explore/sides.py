"""The sides of a page, as the command line names them: an artifact, a saved program, or a model."""

import re
from argparse import Namespace
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Operation, SSAValue

from compiler.artifact.manifest import MODEL_FILE, PROGRAM_MANIFEST, format_in, trust_all
from compiler.artifact.module import Module
from compiler.errors import ArgumentError, ShapeError
from compiler.graph.signature import signature
from compiler.ir import dataflow
from compiler.ir.context import parse_module
from compiler.kernels.building.module import distinct_groups
from compiler.program.loading import load_program
from compiler.program.model import DynamicModule
from compiler.program.segment import ProgramSegment
from compiler.support.caches import read_regular
from compiler.target.target import parse_target
from compiler.tools.explore.collect import control_note, module_fact
from compiler.tools.explore.configs import kernel_configs
from compiler.tools.explore.document import ModuleFact, OperatorFact, PassFact, SideFact, StepFact
from compiler.tools.inspection import open_module

COUNTED = {
    "operators": re.compile(r"= dataflow\.op ", re.ASCII),
    "groups": re.compile(r"dataflow\.group ", re.ASCII),
    "tasks": re.compile(r"taskflow\.(?:launch|if|loop) ", re.ASCII),
    "tokens": re.compile(r" after (%[\w, %]+)", re.ASCII),
    "arena bytes": re.compile(r"taskflow\.arena.*?memref<(\d+)xui8>", re.ASCII),
}
"""The things that are counted in an IR's text, by the pattern of one, of a list or a number."""

MOST_ATTRIBUTE = 200
"""Characters of an operator's attribute that the page shows."""


def _count(name: str, text: str) -> int:
    matches = COUNTED[name].findall(text)
    if name == "tokens":
        return sum(match.count("%") for match in matches)
    return sum(map(int, matches)) if name == "arena bytes" else len(matches)


@dataclass(frozen=True)
class _Located:
    """An operator of a graph, and the group that it is in."""

    op: dataflow.OperatorOp
    group: dataflow.GroupOp | None


def _located(module: ModuleOp) -> Iterator[_Located]:
    for graph in module.ops:
        if isinstance(graph, dataflow.GraphOp):
            for op in graph.body.block.ops:
                if isinstance(op, dataflow.OperatorOp):
                    yield _Located(op, None)
                elif isinstance(op, dataflow.GroupOp):
                    yield from (_Located(inner, op) for inner in op.operators)


def _groups(module: ModuleOp) -> Iterator[dataflow.GroupOp]:
    for graph in module.ops:
        if isinstance(graph, dataflow.GraphOp):
            yield from (group for group in graph.groups if group.control is None)


def _fact(
    located: _Located, task_of: Mapping[Operation, int], number: Mapping[Operation, int]
) -> OperatorFact:
    sources = (_source(value) for value in located.op.inputs)
    reads = [number[op] for op in sources if op is not None and op in number]
    return OperatorFact(
        type=located.op.type_name,
        name=located.op.node_name,
        task=None if located.group is None else task_of.get(located.group),
        reads=tuple(dict.fromkeys(reads)),
        inputs=tuple(_type_text(value) for value in located.op.inputs),
        outputs=tuple(_type_text(value) for value in located.op.outputs),
        attributes={
            name: str(value)[:MOST_ATTRIBUTE] for name, value in located.op.attributes.items()
        },
    )


def _source(value: SSAValue) -> Operation | None:
    """The operator that makes a value, through the borders of groups."""
    owner = value.owner
    if isinstance(owner, Operation):
        if not isinstance(owner, dataflow.GroupOp):
            return owner
        inner = owner.body.block.last_op
        assert inner is not None
        return _source(inner.operands[owner.results.index(value)])
    around = owner.parent_op()
    if isinstance(around, dataflow.GroupOp):
        return _source(around.inputs[owner.args.index(value)])
    return None


def _type_text(value: SSAValue) -> str:
    return "none" if isinstance(value.type, NoneType) else str(value.type)


NO_DUMPS = (
    "An artifact has neither its passes nor its operators: `flowloom explore MODEL` compiles the"
    " model for the page and shows both, and the provenance of kernels."
)

LONGEST_LABEL = 60
"""Characters of a graph's label."""


def artifact_side(directory: Path) -> SideFact:
    """A saved module, or a saved program with the segments that it has compiled."""
    if format_in(directory) is PROGRAM_MANIFEST:
        program = load_program(directory, {}, trust_all)
        folders = [segment.directory for segment in program.compiler.saved.values()]
        if not folders:
            raise ArgumentError(
                f"no segment of {directory} is compiled: where its inputs have open sizes, explore"
                " its model with the sizes of its inputs, flowloom explore"
                f" {directory / MODEL_FILE} --input-shape NAME=SIZES"
            )
        modules = {path.name: open_module(path) for path in folders}
        return _program_side(directory.name, program, modules)
    module = open_module(directory)
    note = f"{NO_DUMPS} {control_note(module.schedule.tasks)}".strip()
    return _one(directory.name, note, module_fact(module))


def _one(title: str, note: str, fact: ModuleFact) -> SideFact:
    return SideFact(title, note, [fact.name], [fact])


def model_side(title: str, options: Namespace, compiled: Callable[[Namespace], Any]) -> SideFact:
    """A model, compiled with its IR dumped to a folder: `dump_ir` of the options, or none."""
    with TemporaryDirectory(prefix="flowloom-explore-") as scratch:
        dump = options.dump_ir or Path(scratch)
        module = compiled(Namespace(**{**vars(options), "dump_ir": dump}))
        if isinstance(module, Module):
            return _one(title, control_note(module.schedule.tasks), _with_dumps(module, dump))
        return _program_side(title, module, _segments_of(module, title))


def _with_dumps(module: Module, dump: Path) -> ModuleFact:
    # The IR after each pass, from the files of `--dump-ir`.
    facts: list[PassFact] = []
    last = ""
    for path in sorted(dump.glob("*.mlir")):
        header, _, text = read_regular(path).decode().partition("\n")
        spec = header.removeprefix("// ").removeprefix("after ")
        same = text == last
        counts = {name: _count(name, text) for name in COUNTED}
        facts.append(PassFact(spec, path.name, same, "" if same else text, counts))
        last = text
    passes = facts
    # The last `dataflow` module before it was lowered; None where no dump holds one.
    texts = [fact.text for fact in passes if "dataflow.graph" in fact.text]
    graph = parse_module(texts[-1], "dump") if texts else None
    if graph is None:
        return module_fact(module, passes=passes)
    # The operators of a module's graphs, bodies not included, and the task that computes each.
    located = list(_located(graph))
    # The task of each group: by kernel and nodes, in order where several have the same.
    waiting: dict[tuple[str, tuple[str, ...]], deque[int]] = defaultdict(deque)
    for index, task in enumerate(module.schedule.tasks):
        waiting[task.kernel, task.nodes].append(index)
    task_of: dict[Operation, int] = {}
    for group in _groups(graph):
        nodes = tuple(dict.fromkeys(op.node_name for op in group.operators if op.node_name))
        kernel = signature(group) if group.kernel is None else group.kernel.data
        if indices := waiting.get((kernel, nodes)):
            task_of[group] = indices.popleft()
    number: dict[Operation, int] = {entry.op: index for index, entry in enumerate(located)}
    operators = [_fact(entry, task_of, number) for entry in located]
    groups = distinct_groups(graph)
    configs = kernel_configs(groups, parse_target(module.target))
    return module_fact(module, operators, passes, configs, groups)


def _segments_of(program: DynamicModule, title: str) -> Mapping[str, Module]:
    """The compiled segments of a program: those that read inputs alone, if sizes are known."""
    try:
        program.prepare()
    except ShapeError as error:
        raise ArgumentError(
            f"no segment of {title} is compiled: give the sizes of its inputs (--input-shape)"
            f" ({error})"
        ) from error
    return {name: module for name, module in program.compiler.modules.items()}


def _program_side(title: str, program: DynamicModule, modules: Mapping[str, Module]) -> SideFact:
    if not modules:
        raise ArgumentError(
            f"no segment of {title} is compiled before a run: its nodes run on the host, or read"
            " what such nodes give"
        )
    facts = [module_fact(module) for module in modules.values()]
    labels = [f"{index}: {_reads(module)}" for index, module in enumerate(modules.values())]
    # The steps of a program's own graph, in the order in which a run executes them.
    body = program.body
    plan = body.plan()
    return SideFact(
        title,
        NO_DUMPS,
        labels,
        facts,
        [
            StepFact(
                kind="segment" if isinstance(runner, ProgramSegment) else "host",
                label=_label(body.graph.nodes, step.nodes),
                nodes=[_node(body.graph.nodes[i]) for i in step.nodes],
                reads=step.reads,
                writes=step.writes,
                reason="; ".join(body.alone[i] for i in step.nodes if i in body.alone),
            )
            for step, runner in zip(plan.steps, plan.runners, strict=True)
        ],
    )


def _reads(module: Module) -> str:
    """The inputs of a compiled graph, as far as a list has room for them."""
    shapes = ("x".join(map(str, spec.shape)) for spec in module.inputs)
    named = zip(module.inputs, shapes, strict=True)
    text = ", ".join(f"{spec.name} {shape}".strip() for spec, shape in named)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _node(node: Any) -> str:
    return f"{node.op_type} {node.name}".strip()


def _label(nodes: Any, members: tuple[int, ...]) -> str:
    if len(members) == 1:
        return nodes[members[0]].op_type
    return f"{len(members)} nodes, {nodes[members[0]].op_type} to {nodes[members[-1]].op_type}"
