"""The operands of a contraction: reads of memory, seen through views and boundary casts."""

from dataclasses import dataclass

import numpy

from compiler.graph.fusion.channels_last import order_after
from compiler.kernels.gpu.epilogue import Parameter, c_type
from compiler.kernels.group import Group, Node
from compiler.net.operators import KINDS, Kind, facts_of

BYTE_TYPES = ("int8", "uint8")
"""The element types of integer contractions."""

ELEMENT_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8": 1,
    **dict.fromkeys(BYTE_TYPES, 1),
}
"""Bytes of the element types that contractions read; those of float8s are seen as uint8."""

CHUNK_BYTES = 16
"""Bytes of an asynchronous copy to shared memory, and of a block of channels."""

RESHAPES = tuple(name for name, kind in KINDS.items() if kind is Kind.VIEW)
"""Operators that give the same elements another shape."""


@dataclass(frozen=True)
class Operand:
    """A read and how an operand's logical indices step through it.

    `view` has the operand's logical shape and one byte an element, so that its strides count
    elements; its content means nothing.
    """

    read: int
    dtype: str
    block: int
    constant: bool
    view: numpy.ndarray

    def parameter(self, name: str) -> Parameter:
        """The read as a parameter of a kernel."""
        return Parameter(f"const {c_type(self.dtype)}* __restrict__", name, self.read)

    @property
    def chunk(self) -> int:
        """Elements in 16 bytes."""
        return CHUNK_BYTES // ELEMENT_BYTES[self.dtype]


def find_operand(group: Group, value: int | None) -> Operand | None:
    """The read that a value is a view of; None when the group computes it."""
    if value is None:
        return None
    if value < group.inputs:
        info = group.values[value]
        if info.dtype not in ELEMENT_BYTES or not info.elements:
            return None
        view = numpy.empty(info.shape, numpy.int8)
        return Operand(value, info.dtype, info.block, group.is_packable(value), view)
    maker = next((op for op in group.operators if value in op.outputs), None)
    if maker is None:
        return None
    facts = facts_of(maker.type)
    if maker.type not in RESHAPES and not facts.permutes and not facts.converts:
        return None
    source = find_operand(group, maker.inputs[0])
    return None if source is None else _viewed(group, maker, source)


def _viewed(group: Group, maker: Node[int], source: Operand) -> Operand | None:
    """An operand seen through one more view operator; None where elements would have to move."""
    result, argument = group.values[maker.output], group.values[maker.inputs[0] or 0]
    if facts_of(maker.type).converts:
        floats = argument.dtype in ELEMENT_BYTES and argument.dtype not in BYTE_TYPES
        return source if floats and result.dtype == "float32" else None
    view = order_after(maker.type, maker.attributes, [source.view], result.shape)
    if view is None or source.block:
        return None
    once = group.is_read_once(maker.output)
    constant = source.constant and maker.type in RESHAPES and once
    return Operand(source.read, source.dtype, 0, constant, view)
