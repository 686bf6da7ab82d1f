"""Concats and Splits of many tensors as trees of some that have few tensors each.

The code of such a kernel has a branch for each tensor, and a kernel takes few pointers.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.ir import SSAValue

from compiler.analysis.attributes import integer
from compiler.analysis.fusion_state import MOST_TENSORS
from compiler.ir.dataflow import ConstantOp, GraphOp, OperatorOp
from compiler.ir.layouts import stored_block
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import array_to_attribute, value_to_attribute

T = TypeVar("T")


def divide_parts(graph: GraphOp, views: Set[OperatorOp]) -> bool:
    """Replace the Concats and Splits of too many tensors that are no views; whether there are any.

    Each tensor is copied once more for each level of the tree.
    """
    wide = [op for op in graph.body.block.ops if isinstance(op, OperatorOp) and _is_wide(op)]
    kernels = [op for op in wide if op not in views]
    for op in kernels:
        write = _Writer(op)
        results = [write.concat(op.inputs)] if op.type_name == "Concat" else write.split_all()
        for old, new in zip(op.outputs, results, strict=True):
            old.replace_all_uses_with(new)
        op.detach()
        op.erase()
    return len(kernels) > 0


def _is_wide(op: OperatorOp) -> bool:
    """Whether an operator puts together or cuts too many tensors, all of them row-major."""
    parts = {"Concat": op.inputs, "Split": op.outputs}.get(op.type_name, ())
    return len(parts) > MOST_TENSORS and not any(stored_block(part.type) for part in parts)


@dataclass(frozen=True)
class _Writer:
    """Writes a tree before the operator that it replaces, under its name."""

    op: OperatorOp

    @property
    def axis(self) -> int:
        """The axis of all the tree, not negative."""
        rank = len(shape_of(self.op.outputs[0].type))
        return integer(self.op, "axis", 0) % rank

    def insert(self, op: OperatorOp | ConstantOp) -> None:
        block = self.op.parent_block()
        assert block is not None
        block.insert_op_before(op, self.op)

    def operator(self, inputs: Sequence[SSAValue], sizes: Sequence[int]) -> Sequence[SSAValue]:
        """An operator of the same type, whose results have these sizes along the axis."""
        shape, dtype = shape_of(self.op.outputs[0].type), dtype_of(self.op.outputs[0].type)
        before, after = shape[: self.axis], shape[self.axis + 1 :]
        results = [tensor_type(dtype, (*before, size, *after)) for size in sizes]
        attributes = {"axis": value_to_attribute(self.axis)}
        new = OperatorOp(self.op.type_name, inputs, results, attributes, self.op.node_name)
        self.insert(new)
        return new.outputs

    def size(self, value: SSAValue) -> int:
        return shape_of(value.type)[self.axis]

    def concat(self, values: Sequence[SSAValue]) -> SSAValue:
        """The concat of any number of tensors."""
        while len(values) > 1:
            values = [
                self.operator(part, [sum(map(self.size, part))])[0] if len(part) > 1 else part[0]
                for part in _cut(values, MOST_TENSORS)
            ]
        return values[0]

    def split_all(self) -> list[SSAValue]:
        """All results of the operator."""
        return self.split(self.op.inputs[0], list(map(self.size, self.op.outputs)))

    def split(self, value: SSAValue, sizes: Sequence[int]) -> list[SSAValue]:
        """Tensors of any number of sizes that a tensor is cut into."""
        if len(sizes) == 1:
            return [value]
        each = 1
        while each * MOST_TENSORS < len(sizes):
            each *= MOST_TENSORS
        parts = _cut(sizes, each)
        whole = list(map(sum, parts))
        lengths = ConstantOp(array_to_attribute(np.array(whole, dtype=np.int64)))
        self.insert(lengths)
        results = self.operator([value, lengths.output], whole)
        if each == 1:
            return list(results)
        return [r for v, p in zip(results, parts, strict=True) for r in self.split(v, p)]


def _cut(items: Sequence[T], length: int) -> list[Sequence[T]]:
    """Items in parts of a length, the last of which may be shorter."""
    return [items[i : i + length] for i in range(0, len(items), length)]
