"""The attention of a group, and how its operands can be read."""

from dataclasses import dataclass
from math import prod

from compiler.errors import KernelError
from compiler.graph.attention import Attention, find_attentions
from compiler.graph.strides import StridedWindow
from compiler.graph.windows import MATRIX, StridedOperand
from compiler.kernels.group import Group
from compiler.target.target import GpuTarget

FOUR, EIGHT = 4, 8
"""Elements that are loaded, or copied, as a vector."""


@dataclass(frozen=True)
class Problem:
    """An attention whose operands are strided reads.

    With `pairs` Q, K and V have the two-byte type of the MMAs; with `chunks` they can also be
    copied to shared memory 16 bytes at a time.
    """

    attention: Attention
    pairs: bool
    chunks: bool

    @property
    def rows(self) -> int:
        """Rows of Q."""
        return self.attention.query.window.shape[-2]

    @property
    def columns(self) -> int:
        """Keys."""
        return self.attention.value.window.shape[-2]

    @property
    def depth(self) -> int:
        """Columns of Q and K."""
        return self.attention.query.window.shape[-1]

    @property
    def width(self) -> int:
        """Columns of V."""
        return self.attention.value.window.shape[-1]

    @property
    def batch(self) -> int:
        """Attentions of one shape."""
        return prod(self.attention.batch)

    @property
    def rounded(self) -> bool:
        """Whether weights are rounded, for which the sum of a row is needed first."""
        return bool(self.attention.weights)


def read_attention(group: Group, target: GpuTarget) -> Problem | None:
    """The attention that a group consists of; None for another group.

    Raises KernelError for an attention of other operands, for which there is no kernel.
    """
    attention = attention_of(group)
    if attention is not None:
        pairs = _in_pairs(group, attention, target)
        chunks = pairs and _in_chunks(attention) and target.has_async_copy
        return Problem(attention, pairs, chunks)
    if find_attentions(group):
        raise KernelError(
            f"{group.describe()} holds an attention whose operands need a copy: leave"
            " fuse-attention out of the pipeline"
        )
    return None


def attention_of(group: Group) -> Attention | None:
    """The attention that a group consists of, if its operands are strided reads."""
    found = find_attentions(group)
    if len(found) != 1 or len(found[0].operators) != len(group.operators):
        return None
    attention = found[0]
    sources = (attention.query, attention.key, attention.value)
    values = [*(operand.source for operand in sources), attention.result.source]
    keep = -1 if attention.value.keep is None else attention.value.keep
    inside = group.outputs != (values[-1],) or max(*values[:-1], keep) >= group.inputs
    if inside or any(group.values[value].block for value in values):
        return None
    return attention


def _in_chunks(attention: Attention) -> bool:
    """Whether Q, K and V can be copied 16 bytes at a time."""
    windows = [operand.window for operand in (attention.query, attention.key, attention.value)]
    return all(in_chunks(x, i, EIGHT) for x, i in zip(windows, (-1, -2, -1), strict=True))


def _in_pairs(group: Group, attention: Attention, target: GpuTarget) -> bool:
    """Whether Q, K and V have the two-byte type of the MMAs."""
    multiplied = {"fp16": "float16", "bf16": "bfloat16"}.get(target.precision)
    operands = (attention.query, attention.key, attention.value)
    return {group.values[operand.source].dtype for operand in operands} == {multiplied}


def matrix_strides(operand: StridedOperand) -> tuple[int, int]:
    """The elements from row to row and from column to column of an operand's matrices."""
    row, column = map(operand.window.stride, MATRIX)
    assert row is not None, "rows have one stride"
    assert column is not None, "columns have one stride"
    return row, column


def in_chunks(window: StridedWindow, inner: int, size: int) -> bool:
    """Whether an axis can be read as vectors of `size` elements if the buffer is aligned."""
    others = [axis for axis in range(-len(window.axes), 0) if axis != inner]
    steps = [stride for axis in others for _, stride in window.axes[axis]]
    whole = all(step % size == 0 for step in (*steps, window.offset, window.shape[inner]))
    return window.stride(inner) == 1 and whole
