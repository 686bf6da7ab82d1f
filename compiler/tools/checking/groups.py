"""The right results of a kernel: those of its group, evaluated by the interpreter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from compiler.backends.memory import Array
from compiler.frontend.interpreter import interpret
from compiler.graph.rewriting.weights import weight_array
from compiler.ir import dataflow, taskflow_memory
from compiler.ir.layouts import stored_block, with_block
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import stored_as
from compiler.net.evaluation.rounding import is_floating
from compiler.net.operators import PARTIAL_RANGES
from compiler.passes.runner import Snapshot
from compiler.schedule.tasks import Task

OPSET = 23
"""The opset of the graph that holds a group alone; evaluation does not depend on it."""


@dataclass
class GroupStore:
    """The groups that became kernels, and the keys of laid-out weights by name.

    It watches compilations; groups of one kernel name compute the same.
    """

    kernels: dict[str, dataflow.GroupOp] = field(default_factory=dict[str, dataflow.GroupOp])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    _keys: dict[str, str] = field(default_factory=dict[str, str])
    _controls: dict[tuple[str, ...], dataflow.GroupOp | None] = field(
        default_factory=dict[tuple[str, ...], dataflow.GroupOp | None]
    )

    def watch(self, snapshot: Snapshot) -> None:
        """Keep the groups whose kernels were built, and the keys of weights that tasks read."""
        if snapshot.name == "kernels":
            self.weights.update(snapshot.weights)
            for op in snapshot.module.clone().walk():
                if isinstance(op, dataflow.GroupOp):
                    self._keep(op)
        for op in snapshot.module.walk():
            if isinstance(op, taskflow_memory.WeightOp):
                self._keys[op.allocation_name] = op.key.data

    def _keep(self, group: dataflow.GroupOp) -> None:
        if group.kernel is not None:
            self.kernels.setdefault(group.kernel.data, group)
        elif group.control is not None:
            nodes = (group.control.node.data,) if group.control.node is not None else ()
            self._controls[nodes] = None if nodes in self._controls else group

    def group_of(self, task: Task) -> dataflow.GroupOp | None:
        """The group that a task launches; None for an If or a Loop that is not distinct."""
        if task.control is not None:
            return self._controls.get(task.nodes)
        return self.kernels.get(task.kernel)

    def weight(self, allocation: str, group: dataflow.GroupOp, operand: int) -> Array:
        """The weight of an allocation in the model's own layout, as the operand's type has it."""
        key = self._keys[allocation]
        return stored_as(weight_array(self.weights, key), group.inputs[operand].type, key)


def operator_names(group: dataflow.GroupOp) -> tuple[str, ...]:
    """The types of a group's operators, in order; of an If or a Loop its own."""
    if group.control is not None:
        return (group.control.form.kind,)
    return tuple(op.type_name for op in group.operators)


def evaluated_group(
    group: dataflow.GroupOp,
    operands: Sequence[Array],
    weights: Mapping[str, Array],
    *,
    precise: bool = True,
) -> list[Array]:
    """The results of a group for its operands, row-major; in float64 if `precise`."""
    names = [f"operand {index}" for index in range(len(group.inputs))]
    inputs = dict(zip(names, operands, strict=True))
    results = interpret(_alone(group, names), weights, inputs, precise=precise)
    return list(results.values())


def comparable(group: dataflow.GroupOp, results: Sequence[Array]) -> list[Array]:
    """The results of a group that can be compared: of extremes of parts, which are any kernel's
    choice, those of the whole tensor."""
    if group.control is not None:
        return list(results)
    pairs = zip(group.results_yielded, results, strict=True)
    return [_whole(value, array) for value, array in pairs]


def _whole(value: SSAValue, array: Array) -> Array:
    maker = value.owner
    if not isinstance(maker, dataflow.OperatorOp) or maker.type_name != PARTIAL_RANGES:
        return array
    extreme = np.min if value is maker.outputs[0] else np.max
    return np.asarray(extreme(array))


def _alone(group: dataflow.GroupOp, names: Sequence[str]) -> ModuleOp:
    """A module whose graph is one group."""
    block = Block(arg_types=[with_block(value.type, 0) for value in group.inputs])
    copied = group.clone(dict(zip(group.inputs, block.args, strict=False)))
    block.add_ops([copied, dataflow.YieldOp(*copied.outputs)])
    results = [f"result {index}" for index in range(len(copied.outputs))]
    graph = dataflow.GraphOp("main", OPSET, names, results, Region(block))
    return ModuleOp([graph])


def row_major(stored: Array, type: Attribute) -> Array:
    """The logical tensor of a type, from an array in the layout of the type."""
    shape = shape_of(type)
    block = stored_block(type)
    if not block:
        return stored.reshape(shape)
    outer, channels, *spatial = shape
    blocks = stored.reshape(channels // block, outer, *spatial, block)
    return np.moveaxis(np.moveaxis(blocks, 0, 1), -1, 2).reshape(shape)


def narrowest(group: dataflow.GroupOp) -> str:
    """The precision of the least exact float type that a group reads or writes."""
    dtypes = {dtype_of(value.type) for value in (*group.inputs, *group.outputs)}
    return next((p for d, p in (("bfloat16", "bf16"), ("float16", "fp16")) if d in dtypes), "fp32")


def as_double(array: Array) -> Array:
    """A float array as float64; others as they are."""
    return array.astype(np.float64) if is_floating(array.dtype) else array
