"""Multiplication of matrices of bytes: the nest of `matmul` on words of four elements of a sum.

A is read as it is if its rows are whole words of unsigned bytes; otherwise a launch writes it so.
B is laid out in panels, beforehand if it is constant, else by a launch:

    for each panel of columns: the int32 sums of its columns, then lines of words
"""

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.core import core_of
from compiler.kernels.cpu.templates.anchors import AnchorTemplate, Loops, Ways, elementwise_context
from compiler.kernels.cpu.templates.matmul_nest import MatmulNest
from compiler.kernels.cpu.templates.panels import FILL_ELEMENTS
from compiler.kernels.cpu.templates.words import (
    ONES,
    WORD_BYTES,
    WordArithmetic,
    takes_bytes,
    unsigned,
    unsigned_zero_point,
    word_arithmetic,
    word_at,
    word_of,
    words_at,
    words_of,
)
from compiler.kernels.cpu.tiling import matmul_tiles
from compiler.kernels.group import Group, Node
from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import cast
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import (
    RegisterTile,
    buffer,
    loop_over,
    sequence,
    store_vector,
    vector_at,
    vector_loop,
)
from compiler.kernels.tir.matmul import Matmul
from compiler.kernels.tir.runs import IndexRun, block_runs
from compiler.target.target import CpuTarget
from compiler.tensors.row_major import unflatten_index


class ByteMatmul(AnchorTemplate[None]):
    """A group around a multiplication of matrices of bytes."""

    name = "byte_matmul"
    types = ("MatMulInteger",)

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[None] | None:
        """The likeliest tile."""
        left, right = (group.values[anchor.operand(i)].shape for i in range(2))
        if not takes_bytes(group, anchor) or min(len(left), len(right)) < 2:
            return None
        around = elementwise_context(group, anchor)
        if around is None:
            return None
        nest = byte_matmul_nest(Matmul(left, right, around.shape), around, group, anchor, target)
        packings = {anchor.operand(1): nest.packing} if nest.constant else {}
        flops, slots = 2 * nest.bytes.multiplications, prod(nest.problem.batch) * nest.slots
        return Ways(
            around=around,
            flops=flops,
            slots={None: slots},
            loops=lambda _: Loops(nest.launches, packings),
        )


def byte_matmul_nest(
    bytes: Matmul, around: FusionContext, group: Group, anchor: Node[int], target: CpuTarget
) -> "ByteMatmulNest":
    """The nest of a multiplication, whose tile is that of as many floats as there are words."""
    depth = words_of(bytes.depth)
    words = replace(
        bytes, left=(*bytes.left[:-1], depth), right=(*bytes.right[:-2], depth, bytes.right[-1])
    )
    core = core_of(target)
    tile, slots = matmul_tiles(words.rows, words.columns, depth, core, packed=True)[0]
    return ByteMatmulNest(
        problem=words,
        around=around,
        tile=tile,
        lanes=core.lanes,
        packed=True,
        slots=slots,
        arithmetic=word_arithmetic(target, unsigned_rows=True),
        bytes=bytes,
        constant=group.is_packable(anchor.operand(1)) and bytes.shared,
    )


@dataclass(frozen=True, kw_only=True)
class ByteMatmulNest(MatmulNest):
    """A multiplication of words; `bytes` has the shapes of the operands.

    B is laid out beforehand if `constant`.
    """

    arithmetic: WordArithmetic = field(default=WordArithmetic("", unsigned_rows=True))
    bytes: Matmul
    constant: bool

    @property
    def lines(self) -> int:
        """Rows of a panel: its sums, and its lines."""
        return self.problem.depth + 1

    @property
    def packing(self) -> str:
        """The packing of a constant B."""
        depth, columns = self.bytes.right[-2:]
        missing = self.panels * self.width - columns
        unfilled = self.problem.depth * WORD_BYTES - depth
        steps = f"reshape:{depth},{columns}|pad:{unfilled},{missing}"
        panels = f"reshape:{self.problem.depth},{WORD_BYTES},{self.panels},{self.width}"
        return f"{steps}|{panels}|transpose:2,0,3,1|sums"

    def launches(self) -> Stmt:
        """All launches: write the operands that are not there yet, then multiply."""
        left, first = self._left()
        right, second = self._right()
        return sequence([*first, *second, self._multiply(left, right)])

    def _left(self) -> tuple[Var, list[Stmt]]:
        """Where A is as rows of whole words of unsigned bytes, and the launch that fills them."""
        number = self.around.read_number(0)
        depth = self.bytes.depth
        whole = depth % WORD_BYTES == 0
        if number is not None and whole and self.around.reads[number].ty.dtype == "uint8":
            return self.around.reads[number], []
        lead = self.bytes.left[:-1]
        rows = prod(lead)
        pitch = self.problem.depth * WORD_BYTES
        target = buffer("operand0", rows * pitch, "uint8")

        def row(number: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                value = self.around.operand(0, [*unflatten_index(number, lead), x])
                byte = cast(unsigned(value), "uint8")
                return tirx.BufferStore(target, byte, [number * pitch + x])

            return vector_loop(depth, self.lanes, one)

        blocks = ceil_div(rows, max(1, FILL_ELEMENTS // depth))
        fill = block_runs((blocks,), (rows,), lambda runs, _: runs[0].loop("row", row))
        return target, [tirx.AllocBuffer(target), fill]

    def _right(self) -> tuple[Var, list[Stmt]]:
        """Where the panels of B are, and the launch that puts them there."""
        if self.constant:
            number = self.around.read_number(1)
            assert number is not None
            return self.around.reads[number], []
        matrices = prod(self.bytes.right[:-2])
        target = buffer("operand1", matrices * self._size(1), "int32")
        extents = (matrices, self.panels)
        blocks = (matrices, 1) if matrices > 1 else (1, self.panels)

        def body(runs: list[IndexRun], _: Any) -> Stmt:
            return runs[1].loop("panel", lambda n: self._fill_words(target, runs[0].first, n))

        return target, [tirx.AllocBuffer(target), block_runs(blocks, extents, body)]

    def _fill_words(self, target: Var, matrix: Any, panel: Any) -> Stmt:
        """Write the lines of a panel of a computed B, then the sums of its columns."""
        whole, rest = divmod(self.bytes.depth, WORD_BYTES)
        lead = unflatten_index(matrix, self.bytes.right[:-2])
        columns = self.bytes.right[-1]
        start = matrix * self._size(1)

        def line(k: Any, count: int) -> Stmt:
            place = self._line(start, panel, k)

            def one(x: Any) -> Stmt:
                column = tirx.min(panel * self.width + x, tirx.const(columns - 1, "int32"))
                rows = [k * WORD_BYTES + number for number in range(count)]
                bytes = [self.around.operand(1, [*lead, row, column]) for row in rows]
                word = word_of([cast(byte, "int32") & 255 for byte in bytes])
                return tirx.BufferStore(target, word, [place + x])

            return vector_loop(self.width, self.lanes, one)

        lines = [loop_over("line", whole, lambda k: line(k, WORD_BYTES))] if whole else []
        last = [line(whole, rest)] if rest else []
        return sequence([*lines, *last, self._sum_columns(target, start, panel)])

    def _sum_columns(self, target: Var, start: Any, panel: Any) -> Stmt:
        """The first row of a panel: a row of ones times its lines."""
        sums = RegisterTile(1, self.tile.vectors, self.lanes, self.arithmetic.exact)

        def step(k: Any) -> Stmt:
            line = self._line(start, panel, k)
            return sums.step(
                lambda _: tirx.const(ONES, "int32"),
                lambda j: vector_at(target, line + j * self.lanes, self.lanes),
            )

        head = self._head(start, panel)
        (row,) = sums.accumulators
        stores = [
            store_vector(target, head + j * self.lanes, tirx.BufferLoad(total, [0]), self.lanes)
            for j, total in enumerate(row)
        ]
        return sequence([*sums.start(), loop_over("k", self.problem.depth, step), *stores])

    def _scalar(self, left: Var, position: Any) -> Any:
        return word_at(left, position)

    def _vector(self, right: Var, position: Any) -> Any:
        if self.constant:
            return words_at(right, position, self.lanes)
        return vector_at(right, position, self.lanes)

    def _shift(self, registers: RegisterTile, right: Var, head: Any) -> list[Stmt]:
        zero = unsigned_zero_point(self.around, self.arithmetic.less)
        if isinstance(zero, tirx.IntImm) and zero.value == 0:
            return []
        factor = tirx.Broadcast(zero, self.lanes) if self.lanes > 1 else zero
        return registers.subtract(
            lambda j: wrapping.multiply(factor, self._vector(right, head + j * self.lanes))
        )

    def _line(self, matrix: Any, panel: Any, k: Any) -> Any:
        return self._head(matrix, panel) + (k + 1) * self.width

    def _head(self, matrix: Any, panel: Any) -> Any:
        return matrix + panel * (self.lines * self.width)

    def _size(self, position: int) -> int:
        if position:
            return self.panels * self.lines * self.width
        return self.bytes.left[-2] * self.problem.depth
