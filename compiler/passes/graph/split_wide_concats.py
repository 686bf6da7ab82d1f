"""Rewrite Concats and Splits of many tensors as trees of narrow ones.

The code of such a kernel has a branch for each tensor, and a kernel has few pointer arguments.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from xdsl.ir import SSAValue

from compiler.graph.fusion.state import MOST_TENSORS
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.edit import insert_before, replace
from compiler.ir.layouts import stored_block
from compiler.ir.types import dtype_of, shape_of, tensor_type
from compiler.ir.values import Value, value_to_attribute
from compiler.net.operators import facts_of

T = TypeVar("T")


def split_wide_concats(graph: GraphOp, views: Set[OperatorOp]) -> bool:
    """Replace Concats and Splits of too many tensors that are not views; whether there were any.

    Each level of the tree copies every tensor once.
    """
    wide = [op for op in graph.body.block.ops if isinstance(op, OperatorOp) and _is_wide(op)]
    kernels = [op for op in wide if op not in views]
    for op in kernels:
        write = _Writer(op)
        results = (
            [write.concat(op.inputs)]
            if facts_of(op.type_name).concatenates
            else write.split(write.op.inputs[0], list(map(write.size, write.op.outputs)))
        )
        replace(op, results)
    return len(kernels) > 0


def _is_wide(op: OperatorOp) -> bool:
    """Whether an operator is a Concat or a Split of too many tensors, all of them row-major."""
    tensors = {"Concat": op.inputs, "Split": op.outputs}.get(op.type_name, ())
    return len(tensors) > MOST_TENSORS and not any(stored_block(tensor.type) for tensor in tensors)


@dataclass(frozen=True)
class _Writer:
    """Writes a tree before the operator that it replaces, under its name."""

    op: OperatorOp

    @property
    def axis(self) -> int:
        """The axis of all operators of the tree."""
        return self.op["axis"]

    def operator(
        self, inputs: Sequence[SSAValue], sizes: Sequence[int], /, **attributes: Value
    ) -> Sequence[SSAValue]:
        """An operator of the same type, whose results have these sizes along the axis."""
        shape = shape_of(self.op.outputs[0].type)
        dtype = dtype_of(self.op.outputs[0].type)
        outer, inner = shape[: self.axis], shape[self.axis + 1 :]
        results = [tensor_type(dtype, (*outer, size, *inner)) for size in sizes]
        named = {"axis": self.axis, **attributes}
        values = {name: value_to_attribute(value) for name, value in named.items()}
        new = OperatorOp(self.op.type_name, inputs, results, values, self.op.node_name)
        insert_before(self.op, new)
        return new.outputs

    def size(self, value: SSAValue) -> int:
        return shape_of(value.type)[self.axis]

    def concat(self, values: Sequence[SSAValue]) -> SSAValue:
        """The concat of any number of tensors."""
        while len(values) > 1:
            values = [
                self.operator(chunk, [sum(map(self.size, chunk))])[0]
                if len(chunk) > 1
                else chunk[0]
                for chunk in _chunks(values, MOST_TENSORS)
            ]
        return values[0]

    def split(self, value: SSAValue, sizes: Sequence[int]) -> list[SSAValue]:
        """The parts of a tensor, however many sizes there are."""
        if len(sizes) == 1:
            return [value]
        leaves = 1
        while leaves * MOST_TENSORS < len(sizes):
            leaves *= MOST_TENSORS
        chunks = _chunks(sizes, leaves)
        totals = list(map(sum, chunks))
        results = self.operator([value], totals, sizes=totals)
        if leaves == 1:
            return list(results)
        return [r for v, chunk in zip(results, chunks, strict=True) for r in self.split(v, chunk)]


def _chunks(items: Sequence[T], length: int) -> list[Sequence[T]]:
    """Items in chunks of a length, the last of which may be shorter."""
    return [items[i : i + length] for i in range(0, len(items), length)]
