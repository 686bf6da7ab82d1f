"""The IR dumps of a compilation for the explorer: passes in numbers, and the graph's operators."""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Operation, SSAValue

from compiler.graph.signature import signature
from compiler.ir import dataflow
from compiler.ir.context import parse_module
from compiler.schedule.tasks import Task
from compiler.tools.explore.document import OperatorFact, PassFact

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


def pass_facts(dump: Path) -> list[PassFact]:
    """The IR after each pass, from the files of `--dump-ir`."""
    facts: list[PassFact] = []
    last = ""
    for path in sorted(dump.glob("*.mlir")):
        header, _, text = path.read_text(encoding="utf-8").partition("\n")
        spec = header.removeprefix("// ").removeprefix("after ")
        same = text == last
        counts = {name: _count(name, text) for name in COUNTED}
        facts.append(PassFact(spec, path.name, same, "" if same else text, counts))
        last = text
    return facts


def _count(name: str, text: str) -> int:
    matches = COUNTED[name].findall(text)
    if name == "tokens":
        return sum(match.count("%") for match in matches)
    return sum(map(int, matches)) if name == "arena bytes" else len(matches)


def lowered_graph(facts: Sequence[PassFact]) -> ModuleOp | None:
    """The last `dataflow` module before it was lowered; None where no dump holds one."""
    texts = [fact.text for fact in facts if "dataflow.graph" in fact.text]
    return parse_module(texts[-1], "dump") if texts else None


@dataclass(frozen=True)
class _Located:
    """An operator of a graph, and the group that it is in."""

    op: dataflow.OperatorOp
    group: dataflow.GroupOp | None


def operator_facts(module: ModuleOp, tasks: Sequence[Task]) -> list[OperatorFact]:
    """The operators of a module's graphs, bodies not included, and the task that computes each."""
    located = list(_located(module))
    task_of = _tasks_of(module, tasks)
    number: dict[Operation, int] = {entry.op: index for index, entry in enumerate(located)}
    return [_fact(entry, task_of, number) for entry in located]


def _located(module: ModuleOp) -> Iterator[_Located]:
    for graph in module.ops:
        if isinstance(graph, dataflow.GraphOp):
            for op in graph.body.block.ops:
                if isinstance(op, dataflow.OperatorOp):
                    yield _Located(op, None)
                elif isinstance(op, dataflow.GroupOp):
                    yield from (_Located(inner, op) for inner in op.operators)


def _tasks_of(module: ModuleOp, tasks: Sequence[Task]) -> dict[Operation, int]:
    """The task of each group: by kernel and nodes, in order where several have the same."""
    waiting: dict[tuple[str, tuple[str, ...]], deque[int]] = defaultdict(deque)
    for index, task in enumerate(tasks):
        waiting[task.kernel, task.nodes].append(index)
    task_of: dict[Operation, int] = {}
    for group in _groups(module):
        nodes = tuple(dict.fromkeys(op.node_name for op in group.operators if op.node_name))
        kernel = signature(group) if group.kernel is None else group.kernel.data
        if left := waiting.get((kernel, nodes)):
            task_of[group] = left.popleft()
    return task_of


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
