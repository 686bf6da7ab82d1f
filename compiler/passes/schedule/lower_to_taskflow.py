"""`lower-to-taskflow`: tensors become views of memory, groups become launches."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError
from compiler.graph.aliases import ViewPlan, plan_views
from compiler.ir import dataflow, taskflow
from compiler.ir.groups import symbols_of_group
from compiler.ir.taskflow_control import make_control
from compiler.passes.base import SchedulePass
from compiler.passes.base.adapter import read_placement
from compiler.passes.schedule.lower_bodies import lower_bodies
from compiler.passes.schedule.task_memory import TaskMemory, op_label
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
    memory = TaskMemory(graph, plan, bodies)
    groups = list(graph.groups)
    placement = read_placement(graph)
    runs = partition_runs(placement.partitions)
    tasks = [_task(groups[run.start : run.stop], memory) for run in runs]
    barriers = stage_barriers(runs, placement.streams, placement.stages)
    for task, awaited in zip(tasks, barriers, strict=True):
        if awaited:
            taskflow.set_after(task, [tasks[predecessor].token for predecessor in awaited])
    memory.block.add_ops(tasks)
    inputs, outputs = ([name.data for name in n] for n in (graph.input_names, graph.output_names))
    return taskflow.GraphOp(graph.sym_name.data, inputs, outputs, Region(memory.block))


def _check(graph: dataflow.GraphOp, plan: ViewPlan) -> None:
    """Reject what no launch and no view of memory stands for."""
    for op in graph.body.block.ops:
        if isinstance(op, dataflow.OperatorOp) and op not in plan.views:
            raise PipelineError(f"{op_label(op)} is in no group and no view: run fuse-operators")
    for copy in plan.copies:
        raise PipelineError(
            f"operand {copy.operand} of {op_label(copy.user)} shares memory that it cannot share"
            " and needs a copy: run fuse-operators first"
        )


def _task(groups: Sequence[dataflow.GroupOp], memory: TaskMemory) -> taskflow.TaskOp:
    launches = [_launch(group, memory) for group in groups]
    if len(launches) == 1:
        return launches[0]
    return taskflow.SubflowOp(launches[0].stream.value.data, Region(Block(launches)))


def _launch(group: dataflow.GroupOp, memory: TaskMemory) -> taskflow.AccessOp:
    if group.control is not None:
        return _control(group, group.control, memory)
    if group.kernel is None:
        raise PipelineError(f"{op_label(group)} has no kernel: run fuse-operators first")
    if group.stream is None:
        raise PipelineError(f"{op_label(group)} is on no stream: run assign-streams first")
    packings = [packing.data for packing in group.packings or ()] or [""] * len(group.inputs)
    nodes = dict.fromkeys(op.node_name for op in group.operators if op.node_name)
    reads = [memory.read(*read, group) for read in zip(group.inputs, packings, strict=False)]
    if symbols := symbols_of_group(group):
        reads.append(memory.extents(tuple(symbol.name for symbol in symbols)))
    return taskflow.LaunchOp(
        group.kernel.data,
        group.stream.value.data,
        reads,
        [memory.buffer(value) for value in group.outputs] + memory.workspaces(group),
        nodes=list(nodes),
        cost=group.cost.value.data if group.cost is not None else None,
    )


def _control(
    group: dataflow.GroupOp, control: dataflow.ControlOp, memory: TaskMemory
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
        nodes=[control.node.data] if control.node is not None else [],
        cost=group.cost.value.data if group.cost is not None else None,
    )
