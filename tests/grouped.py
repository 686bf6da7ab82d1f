"""Random grouped and scheduled graphs, made without the passes that decide such things."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.frontend.interpreter import interpret
from compiler.graph.aliases import plan_views
from compiler.ir import taskflow
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, NoneOp, OperatorOp, YieldOp
from compiler.ir.flatten import schedule_of
from compiler.passes.schedule.elide_sync import ElideSync
from compiler.passes.schedule.insert_sync import InsertSync
from compiler.passes.schedule.lower_to_taskflow import LowerToTaskflow
from compiler.passes.schedule.plan_memory import PlanMemory
from compiler.schedule.tasks import Schedule, Task
from compiler.tensors.dtypes import numpy_dtype
from tests.strategies import Model, dataflow_graphs

Array = NDArray[np.generic]


def graph_of(module: ModuleOp) -> GraphOp:
    """The only `dataflow.graph` of a module."""
    (graph,) = [op for op in module.ops if isinstance(op, GraphOp)]
    return graph


def taskflow_of(module: ModuleOp) -> taskflow.GraphOp:
    """The only `taskflow.graph` of a module."""
    (graph,) = [op for op in module.ops if isinstance(op, taskflow.GraphOp)]
    return graph


def group_each(module: ModuleOp) -> None:
    """Give every operator that is not a view, and every copy, a separate group."""
    graph = graph_of(module)
    plan = plan_views(graph)
    for copy in plan.copies:
        value = copy.user.operands[copy.operand]
        identity = OperatorOp("Identity", [value], [value.type])
        Rewriter.insert_op(identity, InsertPoint.before(copy.user))
        copy.user.operands[copy.operand] = _wrap(identity, len(graph.body.block.ops)).outputs[0]
    for index, op in enumerate(list(graph.body.block.ops)):
        if isinstance(op, OperatorOp) and op not in plan.views:
            _wrap(op, index)


def _wrap(op: OperatorOp, index: int) -> GroupOp:
    outer = [v for v in dict.fromkeys(op.inputs) if not isinstance(v.owner, ConstantOp | NoneOp)]
    block = Block(arg_types=[value.type for value in outer])
    inner: dict[SSAValue, SSAValue] = dict(zip(outer, block.args, strict=True))
    for value in op.inputs:
        if isinstance(value.owner, ConstantOp | NoneOp):
            block.add_op(clone := value.owner.clone())
            inner[value] = clone.results[0]
    block.add_op(body := op.clone(value_mapper=inner))
    block.add_op(YieldOp(*body.results))
    kernel = f"{op.type_name}_{index}"
    group = GroupOp(outer, [value.type for value in op.outputs], Region(block), kernel)
    Rewriter.replace_op(op, group)
    return group


def schedule_groups(
    module: ModuleOp, streams: Sequence[int], cuts: Sequence[bool], workspaces: Sequence[int]
) -> None:
    """Partition at the bounds; the sequences, repeated as needed, give streams and workspaces."""
    partition = 0
    for index, group in enumerate(graph_of(module).groups):
        partition += cuts[index % len(cuts)]
        group.partition = IntegerAttr(partition, i64)
        group.stream = IntegerAttr(streams[partition % len(streams)], i64)
        if (size := workspaces[index % len(workspaces)]) > 0:
            group.workspaces = ArrayAttr([IntegerAttr(size, i64)])


@dataclass(frozen=True, repr=False)
class Scheduled:
    """A model whose module is an unsynchronized `taskflow.graph`, and its groups by kernel."""

    model: Model
    groups: dict[str, GroupOp]
    reference: dict[str, Array]
    module: ModuleOp

    def __repr__(self) -> str:
        return str(self.module)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def graph(self) -> taskflow.GraphOp:
        """The `taskflow.graph`."""
        return taskflow_of(self.module)

    def schedule(self) -> Schedule:
        """The schedule as it is now."""
        return schedule_of(self.graph)

    @property
    def data(self) -> dict[str, bytes]:
        """The bytes of inputs and weights."""
        return {n: a.tobytes() for n, a in (self.model.inputs | self.model.weights).items()}

    def kernel(self, task: Task, reads: Sequence[bytes]) -> list[bytes]:
        """Run the task's group in numpy."""
        group = self.groups[task.kernel]
        arrays = [
            np.frombuffer(data, numpy_dtype(view.dtype)).reshape(view.shape)
            for data, view in zip(reads, task.reads, strict=True)
        ]
        names = [f"i{i}" for i in range(len(arrays))]
        results = [f"o{i}" for i in range(len(group.outputs))]
        body = GraphOp("group", 21, names, results, group.body.clone())
        outputs = interpret(ModuleOp([body]), {}, dict(zip(names, arrays, strict=True)))
        written = [np.ascontiguousarray(outputs[name]).tobytes() for name in results]
        return written + [b"\x5a" * view.nbytes for view in task.writes[len(written) :]]


@st.composite
def grouped(draw: st.DrawFn, max_operators: int = 12) -> Model:
    """int32 models whose operators are in groups with partitions, streams and workspaces."""
    model = draw(dataflow_graphs("int32", max_operators))
    group_each(model.module)
    streams = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    cuts = draw(st.lists(st.booleans(), min_size=1, max_size=6))
    sizes = draw(st.lists(st.sampled_from([0, 0, 24, 200]), min_size=1, max_size=4))
    schedule_groups(model.module, streams, cuts, sizes)
    return model


@st.composite
def scheduled(draw: st.DrawFn, max_operators: int = 12) -> Scheduled:
    """Lowered int32 models, not yet synchronised."""
    return lower(draw(grouped(max_operators)))


def lower(model: Model) -> Scheduled:
    """Lower a grouped model, keeping what it computes for comparison."""
    groups = {g.kernel.data: g.clone() for g in graph_of(model.module).groups if g.kernel}
    reference = interpret(model.module, model.weights, model.inputs)
    LowerToTaskflow().apply(Context(), model.module)
    return Scheduled(model, groups, reference, model.module)


def synchronise(case: Scheduled, elide: bool = True, reuse: bool = False) -> Schedule:
    """Run the later passes, and return the schedule."""
    InsertSync().apply(Context(), case.module)
    if elide:
        ElideSync().apply(Context(), case.module)
    if reuse:
        PlanMemory().apply(Context(), case.module)
    return case.schedule()
