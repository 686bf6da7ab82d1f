"""The attention of a group, and how its operands can be read."""

from dataclasses import dataclass, replace
from math import prod

from compiler.errors import KernelError
from compiler.graph.attention import Attention, find_attentions, width_slices
from compiler.graph.windows import MATRIX, StridedOperand
from compiler.kernels.group import Group
from compiler.kernels.sizes import hinted, is_number
from compiler.kernels.tir.attention import attention_of
from compiler.target.target import GpuTarget
from compiler.tensors.strides import StridedWindow

FOUR, EIGHT = 4, 8
"""Elements that are loaded, or copied, as a vector."""

SHORT = {"float16": "fp16", "bfloat16": "bf16"}
"""The precisions of MMAs whose operands have these types."""


Operands = tuple[StridedOperand, StridedOperand, StridedOperand, StridedOperand]
"""Q, K, V and the result."""


@dataclass(frozen=True)
class Problem:
    """An attention whose operands are strided reads.

    The columns of V and of the result may be slices, the last axis of the batch; `precision` is
    that of the MMAs. With `pairs` Q, K and V have its two-byte type; with `chunks` they can also be
    copied to shared memory 16 bytes at a time. Of one whose lengths a run decides this is the
    problem for the example sizes, and `sized` that over symbols.
    """

    attention: Attention
    operands: Operands
    slices: int
    precision: str
    pairs: bool
    chunks: bool
    sized: "Problem | None" = None

    @property
    def exact(self) -> "Problem":
        """The problem with all sizes that its kernel is for."""
        return self.sized or self

    @property
    def rows(self) -> int:
        """Rows of Q."""
        return self.operands[0].window.shape[-2]

    @property
    def columns(self) -> int:
        """Keys."""
        return self.operands[2].window.shape[-2]

    @property
    def depth(self) -> int:
        """Columns of Q and K."""
        return self.operands[0].window.shape[-1]

    @property
    def width(self) -> int:
        """Columns of V."""
        return self.operands[2].window.shape[-1]

    @property
    def batch(self) -> int:
        """Attentions of one shape, each slice of V one."""
        return prod(self.attention.batch) * self.slices

    @property
    def rounded(self) -> bool:
        """Whether weights are rounded, for which the sum of a row is needed first."""
        return bool(self.attention.weights)

    @property
    def normalised(self) -> bool:
        """Whether vectors of Q or K are divided by their norms."""
        return any(operand.norm_floor is not None for operand in self.operands)


def read_attention(group: Group, target: GpuTarget) -> Problem | None:
    """The attention that a group consists of; None for another group.

    Raises KernelError for an attention of other operands, for which there is no kernel.
    """
    attention = attention_of(group)
    if attention is not None:
        slices = width_slices(attention.value.window.shape[-1])
        operands = _sliced(attention, slices)
        # a model whose operands and weights have two bytes is computed in their precision
        weights = group.operators[attention.second].operand(0)
        own = _operand_type(group, attention)
        precision = SHORT.get(own if group.values[weights].dtype == own else "", target.precision)
        pairs = SHORT.get(_operand_type(group, attention)) == precision
        chunks = pairs and _in_chunks(operands) and target.has_async_copy
        return Problem(
            attention,
            operands,
            slices=slices,
            precision=precision,
            pairs=pairs,
            chunks=chunks,
        )
    if find_attentions(group, reads=True):
        raise KernelError(
            f"{group.describe()} holds an attention whose operands need a copy: leave"
            " fuse-attention out of the pipeline"
        )
    return None


def read_runtime_attention(group: Group, target: GpuTarget) -> Problem | None:
    """The attention that a group with symbols consists of, if they are lengths and the batch alone.

    None for one of other sizes, of weights that are rounded or of vectors that are divided by their
    norms.
    """
    own, example = read_attention(group, target), read_attention(hinted(group), target)
    if own is None or example is None:
        return None
    fixed = [own.depth, own.width, *(n for x in own.operands for n in matrix_strides(x))]
    fixed += [operand.window.offset for operand in own.operands]
    plain = not own.rounded and not own.normalised and own.attention.value.keep is None
    return replace(example, sized=own) if plain and all(map(is_number, fixed)) else None


def read_chunks(attention: Attention) -> bool:
    """Whether Q, K and V can be copied 16 bytes at a time if they have two-byte elements.

    Estimates depend on nothing else of their layout, but for the `read_strides`.
    """
    return _in_chunks(_sliced(attention, width_slices(attention.value.window.shape[-1])))


def read_strides(attention: Attention) -> tuple[int, ...]:
    """The strides of rows and columns of Q, K and V, by which the database knows an attention."""
    operands = (attention.query, attention.key, attention.value)
    return tuple(stride for operand in operands for stride in matrix_strides(operand))


def _sliced(attention: Attention, slices: int) -> Operands:
    """The operands with an axis of slices after the batch, which Q and K have in common."""
    query, key = (_repeated(x, slices) for x in (attention.query, attention.key))
    return query, key, _divided(attention.value, slices), _divided(attention.result, slices)


def _repeated(operand: StridedOperand, slices: int) -> StridedOperand:
    *batch, rows, columns = operand.window.axes
    slicing = ((slices, 0),) if slices > 1 else ()
    return replace(operand, window=replace(operand.window, axes=(*batch, slicing, rows, columns)))


def _divided(operand: StridedOperand, slices: int) -> StridedOperand:
    *batch, rows, columns = operand.window.axes
    runs = [(extent // slices, stride) for extent, stride in columns]
    slicing = tuple((slices, extent * stride) for extent, stride in runs) if slices > 1 else ()
    axes = (*batch, slicing, rows, tuple(run for run in runs if run[0] > 1))
    return replace(operand, window=replace(operand.window, axes=axes))


def _in_chunks(operands: Operands) -> bool:
    """Whether Q, K and V can be copied 16 bytes at a time."""
    windows = [operand.window for operand in operands[:3]]
    return all(in_chunks(x, i, EIGHT) for x, i in zip(windows, (-1, -2, -1), strict=True))


def _operand_type(group: Group, attention: Attention) -> str:
    """The type of which Q, K and V are; empty where they differ."""
    operands = (attention.query, attention.key, attention.value)
    types = {group.values[operand.source].dtype for operand in operands}
    return types.pop() if len(types) == 1 else ""


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
