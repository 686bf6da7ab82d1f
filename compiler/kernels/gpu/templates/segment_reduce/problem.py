"""Reading reductions of segments from groups, and how threads share them."""

from dataclasses import dataclass, replace
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.operands import CHUNK_BYTES, ELEMENT_BYTES, RESHAPES
from compiler.kernels.group import Group, Node
from compiler.kernels.tir.fusion import FusionContext
from compiler.net.operators import SEGMENT_REDUCE, facts_of
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import squeezed_shape

STORED = ("float32", "float16", "bfloat16")
"""The types of rows that are loaded as vectors."""

MOST_WIDTH = 8
"""Columns that a thread has of a row."""

THREADS, MOST_THREADS = 128, 1024
"""Threads of a block, and the most that share a row."""

FLIGHT = 8
"""Updates that a thread loads at a time."""

RESIDENT = 1024
"""Threads of an SM below which more of them share a row."""


@dataclass(frozen=True)
class Rows:
    """Updates that are rows of a read: row `i` for update `i`, or the one that `indices` name.

    `indices` is the number of a read, of which update `i` has element `i`.
    """

    read: int
    dtype: str
    number: int
    indices: int | None = None

    @property
    def width(self) -> int:
        """Elements of a vector."""
        return CHUNK_BYTES // ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Problem:
    """A reduction of segments with its prologue and epilogue; without `rows`, updates are computed.

    A row of the results has `length` elements: from `offset` on those that follow from a row of
    the reduction, before and after these a Concat's other operands.
    """

    anchor: Node[int]
    context: FusionContext
    updates: int
    rows: Rows | None
    offset: int
    length: int

    @property
    def slots(self) -> int:
        """The rows of the result."""
        return self.context.shape[0]

    @property
    def reduction(self) -> str:
        """ONNX's name of the reduction."""
        return self.anchor.attributes["reduction"]

    @property
    def columns(self) -> int:
        """The elements of a row."""
        return prod(self.context.shape[1:])

    @property
    def width(self) -> int:
        """Columns of a thread: a vector, or such as others have in between."""
        return self.rows.width if self.rows else min(MOST_WIDTH, ceil_div(self.columns, 32))

    @property
    def lanes(self) -> int:
        """Threads that have different columns of a row: a power of two, at most a warp."""
        return min(32, 1 << (ceil_div(self.columns, self.width) - 1).bit_length())

    @property
    def spans(self) -> int:
        """The units of a row, each of the columns of all lanes."""
        return ceil_div(self.columns, self.lanes * self.width)

    def parts(self, target: GpuTarget) -> int:
        """Threads that share a column: more where rows are few and long."""
        parts = 1
        threads = self.slots * self.spans * self.lanes
        long = self.updates / self.slots / FLIGHT
        most = MOST_THREADS // self.lanes
        while parts < min(long, most) and threads * parts < RESIDENT * target.device.sms:
            parts *= 2
        return parts


def read_segment_reduce(group: Group) -> Problem | None:
    """The reduction of segments that a group is made around; None for any other group."""
    anchor = group.only(SEGMENT_REDUCE)
    if anchor is None or any(anchor.operand(i) >= group.inputs for i in (2, 3)):
        return None
    context = FusionContext(group, anchor)
    place = _place(group, anchor, context)
    if context.dtype != "float32" or place is None:
        return None
    updates = group.values[anchor.operand(0)].shape
    rows = _rows(group, anchor.operand(0))
    vectors = rows and prod(updates[1:]) % rows.width == 0
    return Problem(
        anchor=anchor,
        context=context,
        updates=updates[0],
        rows=rows if vectors else None,
        offset=place[0],
        length=place[1],
    )


def _place(group: Group, anchor: Node[int], context: FusionContext) -> tuple[int, int] | None:
    """Where in a row of the results the elements of a reduction are, and its length."""
    columns = prod(context.shape[1:])
    if context.elementwise:
        return 0, columns
    following = {anchor.output}
    concats = list[Node[int]]()
    for op in group.operators:
        if following.intersection(op.inputs):
            following.update(op.outputs)
            concats += [op] if facts_of(op.type).concatenates else []
    if len(concats) != 1 or context.reduces:
        return None
    whole = squeezed_shape(group.values[concats[0].output].shape)
    operands = [group.values[i or 0].shape for i in concats[0].inputs]
    own = [k for k, value in enumerate(concats[0].inputs) if value in following]
    joined = concats[0].attributes["axis"] == 1 and len(own) == 1
    alike = all(squeezed_shape(info.shape) == whole for info in group.writes)
    if not joined or not alike or operands[own[0]] != context.shape:
        return None
    rows = [prod(operand[1:]) for operand in operands]
    return sum(rows[: own[0]]), sum(rows)


def _rows(group: Group, value: int) -> Rows | None:
    """The rows of which a value consists, converted or not; None where they are computed."""
    if value < group.inputs:
        info = group.values[value]
        plain = info.dtype in STORED and not info.block
        return Rows(value, info.dtype, info.shape[0]) if plain else None
    maker = next((op for op in group.operators if value in op.outputs), None)
    if maker is None:
        return None
    if facts_of(maker.type).converts:
        return _rows(group, maker.operand(0)) if group.values[value].dtype in STORED else None
    if not _gathers_rows(group, maker):
        return None
    rows = _rows(group, maker.operand(0))
    indices = _read_of(group, maker.operand(1))
    if rows is None or rows.indices is not None or indices is None:
        return None
    return replace(rows, indices=indices)


def _gathers_rows(group: Group, op: Node[int]) -> bool:
    """Whether an operator gives the rows that a vector of indices names, one after another."""
    if op.type == "Gather":
        ranks = [len(group.values[op.operand(i)].shape) for i in range(2)]
        return op.attributes["axis"] == 0 and ranks[1] == 1
    places = group.values[op.operand(1)].shape if op.type == "GatherND" else ()
    return len(places) == 2 and places[1] == 1 and not op.attributes["batch_dims"]


def _read_of(group: Group, value: int) -> int | None:
    """The read whose elements a value has in the same order; None if they are computed."""
    while value >= group.inputs:
        maker = next((op for op in group.operators if value in op.outputs), None)
        if maker is None or maker.type not in RESHAPES:
            return None
        value = maker.operand(0)
    return value
