"""Recurrences as groups: the sizes, the operands, and the shared memory of a block."""

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.graph.fusion.recurrences import Recurrence
from compiler.kernels.gpu.operands import find_operand
from compiler.kernels.group import Group, Node

READS = ("x", "weights", "bias", "lengths", "first_h", "first_c")
"""The operands, in the operator's order."""

WRITES = ("all_h", "last_h", "last_c")
"""The results, in the operator's order."""


@dataclass(frozen=True)
class Buffer:
    """A task's argument and its dtype."""

    argument: int
    dtype: str


@dataclass(frozen=True)
class Problem:
    """A recurrence and its operands and results by name; those left out are missing."""

    sizes: Recurrence
    operator: Node
    reads: Mapping[str, Buffer]
    writes: Mapping[str, Buffer]


def read_recurrence(group: Group) -> Problem | None:
    """The problem of a group that is a recurrence, casts aside; None for any other."""
    operator = group.only("Recurrence")
    if operator is None or {op.type for op in group.operators} > {"Recurrence", "Cast"}:
        return None
    reads, writes = _reads(group, operator), _writes(group, operator)
    if reads is None or writes is None or not group.weights[reads["weights"].argument]:
        return None
    return Problem(_sizes(group, operator), operator, reads, writes)


def _sizes(group: Group, operator: Node) -> Recurrence:
    steps, batch, _ = group.values[operator.operand(0)].shape
    directions, _, hidden = group.values[operator.operand(1)].shape
    cell, after = str(operator.attributes["cell"]), operator.attributes["linear_before_reset"]
    exchanges = 1 if after else 2
    return Recurrence(cell, steps, batch, hidden, directions, exchanges=exchanges)


def _reads(group: Group, operator: Node) -> dict[str, Buffer] | None:
    """The operands that are given; None if one is not a whole tensor that the kernel reads."""
    buffers: dict[str, Buffer] = {}
    for name, value in zip(READS, operator.inputs, strict=False):
        if value is None:
            continue
        if name == "lengths":
            if value >= group.inputs:
                return None
            buffers[name] = Buffer(value, group.values[value].dtype)
            continue
        operand = find_operand(group, value)
        if operand is None or operand.block or not operand.view.flags.c_contiguous:
            return None
        buffers[name] = Buffer(operand.read, operand.dtype)
    return buffers


def _writes(group: Group, operator: Node) -> dict[str, Buffer] | None:
    """The results that are stored; None if one is in blocks of channels or is stored twice."""
    buffers: dict[str, Buffer] = {}
    for place, (value, info) in enumerate(zip(group.outputs, group.writes, strict=True)):
        maker = next(op for op in group.operators if value in op.outputs)
        source = value if maker is operator else maker.operand(0)
        name = WRITES[operator.outputs.index(source)] if source in operator.outputs else ""
        if info.block or not name or name in buffers:
            return None
        buffers[name] = Buffer(group.inputs + place, info.dtype)
    return buffers
