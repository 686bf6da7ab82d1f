"""Sequences of tensors: their lengths, and their tensors one by one."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.frontend.builder import Builder
from compiler.frontend.unsupported import NeedsHost
from compiler.net.graph import TensorRows, Value, constant

Items = Sequence[Value | TensorRows]
"""The tensors of a sequence; equal ones that follow each other may be rows of one."""


MOST_TAKEN_APART = 1024
"""The most rows that become separate tensors: the host takes more of them apart in no time."""


@dataclass(eq=False, slots=True)
class Earlier(Value):
    """The tensors of a sequence that a Loop carries when an iteration begins; only appended to."""


def tensors_of(value: Value) -> Items:
    """The tensors of a sequence; raises NeedsHost if they are not known, or it is a tensor."""
    if value.items is None:
        raise NeedsHost("its input is not a sequence of known length", "export with tensors")
    if any(isinstance(item, Earlier) for item in value.items):
        raise NeedsHost("it reads a sequence that a Loop carries", "stack its tensors instead")
    return value.items


def sequence_length(items: Items) -> int:
    """The number of tensors, which may depend on symbols."""
    return sum(item.count if isinstance(item, TensorRows) else 1 for item in items)


def row_at(builder: Builder, rows: TensorRows, index: int) -> Value:
    """One of a number of tensors that are rows."""
    return builder.one("Gather", rows.stack, builder.constant(index, "int64"), axis=0)


def single_tensors(builder: Builder, items: Items) -> list[Value]:
    """Every tensor, each by itself; raises NeedsHost for many that are not constants."""
    tensors: list[Value] = []
    for item in items:
        if not isinstance(item, TensorRows):
            tensors.append(item)
        elif item.stack.array is not None:
            content = item.stack.content
            # an element of an array of strings is a str
            rows = (content[index, ...] for index in range(item.count))
            tensors += [constant(item.stack.name, row) for row in rows]
        elif item.count > MOST_TAKEN_APART:
            raise NeedsHost(f"it takes {item.count:,} tensors apart", "stack them instead")
        else:
            tensors += [row_at(builder, item, index) for index in range(item.count)]
    return tensors
