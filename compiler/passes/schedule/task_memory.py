"""The buffers that the tasks of a graph read and write."""

from collections.abc import Mapping

from xdsl.ir import Block, Operation, SSAValue

from compiler.errors import PipelineError
from compiler.graph.aliases import ViewPlan
from compiler.graph.packing import packed_dtype, packed_shape
from compiler.graph.storage import lay_out
from compiler.ir import dataflow, taskflow_memory
from compiler.ir.types import dtype_of, memref_type, shape_of
from compiler.passes.schedule.lower_bodies import LoweredBodies


def op_label(op: Operation) -> str:
    """An operation by its operators and nodes, for messages."""
    if isinstance(op, dataflow.OperatorOp):
        return f"{op.type_name} '{op.node_name}'" if op.node_name else f"a {op.type_name}"
    if isinstance(op, dataflow.GroupOp):
        return f"a group of {', '.join(map(op_label, op.operators))}"
    return f"'{op.name}'"


def buffer_type(value: SSAValue) -> taskflow_memory.Buffer:
    """The type of the buffer of a value."""
    return memref_type(dtype_of(value.type), shape_of(value.type))


class TaskMemory:
    """The buffers of a graph's values; those outside the arena are made at their first use."""

    def __init__(
        self,
        graph: dataflow.GraphOp,
        plan: ViewPlan,
        bodies: Mapping[dataflow.GroupOp, LoweredBodies],
    ):
        self.bodies = bodies
        values = [*graph.body.block.args, *graph.results_yielded]
        self.block = Block(arg_types=[buffer_type(value) for value in values])
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
        self._extents: dict[tuple[str, ...], SSAValue] = {}
        self._arena: SSAValue | None = None
        if self._layout.size:
            self.block.add_op(
                arena := taskflow_memory.ArenaOp(memref_type("uint8", (self._layout.size,)))
            )
            self._arena = arena.result
            self._arena.name_hint = "arena"

    def read(self, value: SSAValue, packing: str, group: dataflow.GroupOp) -> SSAValue:
        """The buffer of a group's operand, laid out as the group's kernel wants a weight."""
        if isinstance(self._plan.locations[value].root.owner, dataflow.ConstantOp):
            raise PipelineError(f"{op_label(group)} reads an outer constant: run fuse-operators")
        if not packing:
            return self.buffer(value)
        if not isinstance(value.owner, dataflow.WeightOp):
            raise PipelineError(f"{op_label(group)} packs an operand which is not a weight")
        return self._weight(value.owner, packing)

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer of a value: an allocation or a view of one."""
        if value not in self._buffers:
            location = self._plan.locations[value]
            source = self._source(location.root)
            offset = location.offset + self._layout.roots.get(location.root, 0)
            type = buffer_type(value)
            is_source = source.type == type and source is not self._arena
            self._buffers[value] = source if is_source else self._view(source, offset, type)
            if not is_source:
                self._buffers[value].name_hint = value.name_hint
        return self._buffers[value]

    def workspaces(self, group: dataflow.GroupOp) -> list[SSAValue]:
        """The buffers of a group's workspaces."""
        places = self._layout.workspaces.get(group, [])
        return [self._view(self._in_arena(), o, memref_type("uint8", (n,))) for o, n in places]

    def extents(self, symbols: tuple[str, ...]) -> SSAValue:
        """The buffer of the sizes of some symbols."""
        if symbols not in self._extents:
            self.block.add_op(op := taskflow_memory.ExtentsOp(symbols))
            self._extents[symbols] = op.result
        return self._extents[symbols]

    def _in_arena(self) -> SSAValue:
        assert self._arena is not None
        return self._arena

    def _source(self, root: SSAValue) -> SSAValue:
        if isinstance(root.owner, dataflow.WeightOp):
            return self._weight(root.owner, "")
        return self._bases[root] if root in self._bases else self._in_arena()

    def weight(self, like: taskflow_memory.WeightOp) -> SSAValue:
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
            type = memref_type(packed_dtype(dtype_of(weight.output.type), packing), shape)
            self.block.add_op(op := taskflow_memory.WeightOp(weight.key.data, packing, type))
            self._weights[key] = op.result
        return self._weights[key]

    def _view(self, source: SSAValue, offset: int, type: taskflow_memory.Buffer) -> SSAValue:
        self.block.add_op(op := taskflow_memory.ViewOp(source, offset, type))
        return op.result
