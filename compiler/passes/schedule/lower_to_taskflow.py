"""`lower-to-taskflow`: tensors become places in memory, groups become launches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError
from compiler.graph.aliases import ViewPlan, plan_views
from compiler.graph.packing import packed_shape
from compiler.graph.storage import lay_out
from compiler.ir import dataflow, taskflow
from compiler.ir.taskflow_control import make_control
from compiler.ir.types import dtype_of, memref_type, shape_of
from compiler.passes.base import SchedulePass
from compiler.passes.schedule.lower_bodies import LoweredBodies, lower_bodies
from compiler.scheduling.adapter import read_placement
from compiler.scheduling.subflows import partition_runs, stage_barriers


@dataclass(frozen=True)
class LowerToTaskflow(SchedulePass):
    """Lower groups to kernel launches over memory, without any order between streams yet.

    Requires groups with kernels and streams, partitions in one piece, stages one after another,
    and only views outside groups. Ensures an unsynchronized `taskflow.graph`: a launch for each
    lone group and a subflow for each larger partition, with disjoint places in one arena. Its
    tokens say that stages wait for each other: each stream's first task for each stream's last.

    Before:
        %a = dataflow.group "Relu" stream 0 (%x) : (tensor<4xf32>) -> tensor<4xf32> {...}
        dataflow.yield %a : tensor<4xf32>
    After:
        ^bb0(%x : memref<4xf32>, %y : memref<4xf32>):
          %0 = taskflow.launch "Relu" stream 0 reads %x : memref<4xf32> writes %y : memref<4xf32>
    """

    name = "lower-to-taskflow"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Replace every `dataflow.graph` of the module; raises PipelineError."""
        for graph in [graph for graph in op.ops if isinstance(graph, dataflow.GraphOp)]:
            Rewriter.replace_op(graph, _lower(graph), new_results=[])


def _lower(graph: dataflow.GraphOp) -> taskflow.GraphOp:
    plan = plan_views(graph)
    _check(graph, plan)
    bodies = {group: lower_bodies(group, _lower) for group in graph.groups if group.control}
    memory = _Memory(graph, plan, bodies)
    groups, placement = list(graph.groups), read_placement(graph)
    parts = partition_runs(placement.partitions)
    tasks = [_task(groups[places.start : places.stop], memory) for places in parts]
    barriers = stage_barriers(parts, placement.streams, placement.stages)
    for task, awaited in zip(tasks, barriers, strict=True):
        if awaited:
            taskflow.set_after(task, [tasks[other].token for other in awaited])
    memory.block.add_ops(tasks)
    inputs, outputs = ([name.data for name in n] for n in (graph.input_names, graph.output_names))
    return taskflow.GraphOp(graph.sym_name.data, inputs, outputs, Region(memory.block))


def _check(graph: dataflow.GraphOp, plan: ViewPlan) -> None:
    """Reject what no launch and no view of memory stands for."""
    for op in graph.body.block.ops:
        if isinstance(op, dataflow.OperatorOp) and op not in plan.views:
            raise PipelineError(f"{_label(op)} is in no group and no view: run fuse-operators")
    for copy in plan.copies:
        raise PipelineError(
            f"operand {copy.operand} of {_label(copy.user)} shares memory that it cannot share"
            " and needs a copy: run fuse-operators first"
        )


def _label(op: Operation) -> str:
    if isinstance(op, dataflow.OperatorOp):
        return f"{op.type_name} '{op.node_name}'" if op.node_name else f"a {op.type_name}"
    if isinstance(op, dataflow.GroupOp):
        return f"a group of {', '.join(map(_label, op.operators))}"
    return f"'{op.name}'"


def _buffer_type(value: SSAValue) -> taskflow.Buffer:
    return memref_type(dtype_of(value.type), shape_of(value.type))


def _task(part: Sequence[dataflow.GroupOp], memory: "_Memory") -> taskflow.TaskOp:
    launches = [_launch(group, memory) for group in part]
    if len(launches) == 1:
        return launches[0]
    return taskflow.SubflowOp(launches[0].stream.value.data, Region(Block(launches)))


def _launch(group: dataflow.GroupOp, memory: "_Memory") -> taskflow.AccessOp:
    if group.control is not None:
        return _control(group, group.control, memory)
    if group.kernel is None:
        raise PipelineError(f"{_label(group)} has no kernel: run fuse-operators first")
    if group.stream is None:
        raise PipelineError(f"{_label(group)} is on no stream: run assign-streams first")
    packings = [packing.data for packing in group.packings or ()] or [""] * len(group.inputs)
    nodes = dict.fromkeys(op.node_name for op in group.operators if op.node_name)
    return taskflow.LaunchOp(
        group.kernel.data,
        group.stream.value.data,
        [memory.read(*read, group) for read in zip(group.inputs, packings, strict=True)],
        [memory.buffer(value) for value in group.outputs] + memory.workspaces(group),
        list(nodes),
        group.cost.value.data if group.cost is not None else None,
    )


def _control(
    group: dataflow.GroupOp, control: dataflow.ControlOp, memory: "_Memory"
) -> taskflow.AccessOp:
    """The If or Loop of a group; it also reads the weights of its bodies."""
    if group.stream is None:
        raise PipelineError(f"'{control.name}' is on no stream: run assign-streams first")
    lowered = memory.bodies[group]
    reads = [memory.read(value, "", group) for value in group.inputs]
    reads += [memory.weight(weight) for weight in lowered.weights]
    writes = [memory.buffer(value) for value in group.outputs] + memory.workspaces(group)
    return make_control(
        control.form,
        group.stream.value.data,
        (reads, writes),
        lowered.graphs,
        [control.node.data] if control.node is not None else [],
        group.cost.value.data if group.cost is not None else None,
    )


class _Memory:
    """The buffers of a graph's values; those outside the arena are made where first asked for."""

    def __init__(
        self,
        graph: dataflow.GraphOp,
        plan: ViewPlan,
        bodies: Mapping[dataflow.GroupOp, LoweredBodies],
    ):
        self.bodies = bodies
        values = [*graph.body.block.args, *graph.results_yielded]
        self.block = Block(arg_types=[_buffer_type(value) for value in values])
        names = [*graph.input_names, *graph.output_names]
        for argument, name in zip(self.block.args, names, strict=True):
            argument.name_hint = name.data if SSAValue.is_valid_name(name.data) else None
        self._plan = plan
        self._buffers: dict[SSAValue, SSAValue] = {}
        inputs = len(graph.input_names)
        arguments = zip(graph.body.block.args, self.block.args[:inputs], strict=True)
        self._bases: dict[SSAValue, SSAValue] = dict(arguments)
        self._bases |= {root: self.block.args[inputs + i] for root, i in plan.outputs.items()}
        self._layout = lay_out(graph, plan)
        self._weights: dict[tuple[str, str, str], SSAValue] = {}
        self._arena: SSAValue | None = None
        if self._layout.size:
            self.block.add_op(arena := taskflow.ArenaOp(memref_type("uint8", (self._layout.size,))))
            self._arena = arena.result
            self._arena.name_hint = "arena"

    def read(self, value: SSAValue, packing: str, group: dataflow.GroupOp) -> SSAValue:
        """The buffer of a group's operand, laid out as the group's kernel wants a weight."""
        if isinstance(self._plan.locations[value].root.owner, dataflow.ConstantOp):
            raise PipelineError(f"{_label(group)} reads an outer constant: run fuse-operators")
        if not packing:
            return self.buffer(value)
        if not isinstance(value.owner, dataflow.WeightOp):
            raise PipelineError(f"{_label(group)} packs an operand which is not a weight")
        return self._weight(value.owner, packing)

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer of a value: an allocation or a view of one."""
        if value not in self._buffers:
            place = self._plan.locations[value]
            source = self._source(place.root)
            offset = place.offset + self._layout.roots.get(place.root, 0)
            type = _buffer_type(value)
            whole = source.type == type and source is not self._arena
            self._buffers[value] = source if whole else self._view(source, offset, type)
            if not whole:
                self._buffers[value].name_hint = value.name_hint
        return self._buffers[value]

    def workspaces(self, group: dataflow.GroupOp) -> list[SSAValue]:
        """The buffers of a group's workspaces."""
        places = self._layout.workspaces.get(group, [])
        return [self._view(self._in_arena(), o, memref_type("uint8", (n,))) for o, n in places]

    def _in_arena(self) -> SSAValue:
        assert self._arena is not None
        return self._arena

    def _source(self, root: SSAValue) -> SSAValue:
        if isinstance(root.owner, dataflow.WeightOp):
            return self._weight(root.owner, "")
        return self._bases[root] if root in self._bases else self._in_arena()

    def weight(self, like: taskflow.WeightOp) -> SSAValue:
        """The buffer of a weight that bodies read."""
        packing = "" if like.packing is None else like.packing.data
        key = (like.key.data, packing, dtype_of(like.result.type))
        if key not in self._weights:
            self.block.add_op(op := like.clone())
            self._weights[key] = op.result
        return self._weights[key]

    def _weight(self, weight: dataflow.WeightOp, packing: str) -> SSAValue:
        key = (weight.key.data, packing, dtype_of(weight.output.type))
        if key not in self._weights:
            shape = packed_shape(shape_of(weight.output.type), packing)
            type = memref_type(dtype_of(weight.output.type), shape)
            self.block.add_op(op := taskflow.WeightOp(weight.key.data, packing, type))
            self._weights[key] = op.result
        return self._weights[key]

    def _view(self, source: SSAValue, offset: int, type: taskflow.Buffer) -> SSAValue:
        self.block.add_op(op := taskflow.ViewOp(source, offset, type))
        return op.result
