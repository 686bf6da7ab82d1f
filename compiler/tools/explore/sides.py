"""The sides of a page, as the command line names them: an artifact, a saved program, or a model."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from compiler.artifact.manifest import PROGRAM_MANIFEST, format_in, trust_all
from compiler.artifact.module import Module
from compiler.errors import ArgumentError, ShapeError
from compiler.kernels.building.module import distinct_groups
from compiler.program.loading import load_program
from compiler.program.model import DynamicModule
from compiler.program.segment import ProgramSegment
from compiler.target.target import parse_target
from compiler.tools.explore.collect import control_note, module_fact
from compiler.tools.explore.configs import kernel_configs
from compiler.tools.explore.document import ModuleFact, SideFact, StepFact
from compiler.tools.explore.dumps import lowered_graph, operator_facts, pass_facts
from compiler.tools.inspection import open_module

NO_DUMPS = (
    "An artifact has neither its passes nor its operators: `flowloom explore MODEL` compiles the"
    " model for the page and shows both, and the provenance of kernels."
)
NOTHING_COMPILED = (
    "no segment of {} is compiled yet: give --input-shape, run it once and save it"
    " (`flowloom run`, `module.save`), or name a model of static shapes"
)

LONGEST_LABEL = 60
"""Characters of a graph's label."""


def artifact_side(directory: Path) -> SideFact:
    """A saved module, or a saved program with the segments that it has compiled."""
    if format_in(directory) is PROGRAM_MANIFEST:
        program = load_program(directory, {}, trust_all)
        folders = [segment.directory for segment in program.compiler.saved.values()]
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
    passes = pass_facts(dump)
    graph = lowered_graph(passes)
    if graph is None:
        return module_fact(module, passes=passes)
    operators = operator_facts(graph, module.schedule.tasks)
    groups = distinct_groups(graph)
    configs = kernel_configs(groups, parse_target(module.target))
    return module_fact(module, operators, passes, configs, groups)


def _segments_of(program: DynamicModule, title: str) -> Mapping[str, Module]:
    """The compiled segments of a program: those that read inputs alone, if sizes are known."""
    try:
        program.prepare()
    except ShapeError as error:
        raise ArgumentError(f"{NOTHING_COMPILED.format(title)} ({error})") from error
    return {name: module for name, module in program.compiler.modules.items()}


def _program_side(title: str, program: DynamicModule, modules: Mapping[str, Module]) -> SideFact:
    if not modules:
        raise ArgumentError(NOTHING_COMPILED.format(title))
    facts = [module_fact(module) for module in modules.values()]
    labels = [f"{index}: {_reads(module)}" for index, module in enumerate(modules.values())]
    return SideFact(title, NO_DUMPS, labels, facts, step_facts(program))


def _reads(module: Module) -> str:
    """The inputs of a compiled graph, as far as a list has room for them."""
    shapes = ("x".join(map(str, spec.shape)) for spec in module.inputs)
    named = zip(module.inputs, shapes, strict=True)
    text = ", ".join(f"{spec.name} {shape}".strip() for spec, shape in named)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def step_facts(program: DynamicModule) -> list[StepFact]:
    """The steps of a program's own graph, in the order in which a run executes them."""
    body = program.body
    plan = body.plan()
    return [
        StepFact(
            kind="segment" if isinstance(runner, ProgramSegment) else "host",
            label=_label(body.graph.nodes, step.nodes),
            nodes=[_node(body.graph.nodes[i]) for i in step.nodes],
            reads=step.reads,
            writes=step.writes,
            reason="; ".join(body.alone[i] for i in step.nodes if i in body.alone),
        )
        for step, runner in zip(plan.steps, plan.runners, strict=True)
    ]


def _node(node: Any) -> str:
    return f"{node.op_type} {node.name}".strip()


def _label(nodes: Any, members: tuple[int, ...]) -> str:
    if len(members) == 1:
        return nodes[members[0]].op_type
    return f"{len(members)} nodes, {nodes[members[0]].op_type} to {nodes[members[-1]].op_type}"
