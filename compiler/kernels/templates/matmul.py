"""Matrix products: lanes along the columns of B, rows of A broadcast.

    launch 0, 1  (only for an operand that the group computes, or a B that must be transposed)
      write the operand into a workspace
    launch 2
      for each block (runs of batches, panels of columns, runs of rows):
        for each panel of columns, then each tile of rows:
          tile = 0                                              rows x vectors registers
          for k: tile += broadcast(A[rows, k]) x B[k, panel]
          scratch = tile                                        on the stack
          for each row, vector of columns: store(epilogue(scratch))

A constant two-dimensional B is packed beforehand into panels [N / width, K, width] that stream
through the cache; any other B is read as it is.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import PrimFunc, Stmt

from compiler.analysis.packing import packed_shape
from compiler.analysis.tiling import Tile, ceil_div, product_tile, registers_of, split_blocks
from compiler.kernels.elementwise import multiply
from compiler.kernels.group import Group, Operator
from compiler.kernels.lowering import flatten_index, unflatten_index
from compiler.kernels.scheduled import Scheduled
from compiler.kernels.target import CpuTarget
from compiler.kernels.templates import template
from compiler.kernels.templates.fusion import Surroundings
from compiler.kernels.templates.loops import (
    RegisterTile,
    block_loops,
    buffer,
    loop,
    scratch,
    sequence,
    vector_at,
    vector_loop,
)

FILL_ELEMENTS = 1 << 14
"""Elements of an operand that one block writes into a workspace."""


@dataclass(frozen=True)
class Product:
    """A batched matrix product: `left` and `right` are the operands' shapes as ONNX gives them."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    output: tuple[int, ...]
    transposed: tuple[bool, bool] = (False, False)
    factors: tuple[float, float] = (1.0, 1.0)

    @property
    def rows(self) -> int:
        """Rows of one matrix of the result; all of them if B is the same for every batch."""
        if len(self.left) == 1:
            return 1
        own = self.left[-1] if self.transposed[0] else self.left[-2]
        return own * (prod(self.left[:-2]) if self.shared else 1)

    @property
    def columns(self) -> int:
        """Columns of the result."""
        if len(self.right) == 1:
            return 1
        return self.right[-2] if self.transposed[1] else self.right[-1]

    @property
    def depth(self) -> int:
        """The length of the sums."""
        return self.left[-2] if self.transposed[0] else self.left[-1]

    @property
    def shared(self) -> bool:
        """Whether one matrix B serves all batches, whose rows are then one matrix A."""
        return len(self.right) <= 2

    @property
    def batch(self) -> tuple[int, ...]:
        """The extents over which separate products run."""
        matrix = (len(self.left) > 1) + (len(self.right) > 1)
        return () if self.shared else self.output[: len(self.output) - matrix]

    @property
    def multiplications(self) -> int:
        """Multiply-adds of all products."""
        return prod(self.batch) * self.rows * self.columns * self.depth


@template("MatMul", "Gemm")
def matrix_product(group: Group, anchor: Operator, target: CpuTarget) -> Scheduled | None:
    """Schedule a float32 matrix product."""
    product = read_product(group, anchor)
    if product is None:
        return None
    around = Surroundings(group, anchor)
    if not around.elementwise:
        return None
    right = anchor.inputs[1]
    registers = registers_of(target.vector_bytes)
    packed = group.is_packable(right) and product.shared
    while not packed and registers.lanes > product.columns:
        registers = replace(registers, lanes=registers.lanes // 2)
    tile, slots = product_tile(product.rows, product.columns, product.depth, registers, packed)
    nest = ProductNest(product, around, tile, registers.lanes, packed, slots)
    packings = [""] * group.inputs
    if packed:
        packings[right] = nest.packing
        around.resize_read(right, prod(packed_shape(group.values[right].shape, nest.packing)))
    function = PrimFunc(around.buffers, nest.launches())
    return Scheduled(function, tuple(packings), flops=2 * product.multiplications)


def read_product(group: Group, anchor: Operator) -> Product | None:
    """The matrix product of an operator, if the template can take it."""
    values = [group.values[i] for i in (*anchor.inputs, *anchor.outputs) if i is not None]
    if {v.dtype for v in values} != {"float32"} or any(v.elements == 0 for v in values):
        return None
    left, right = (group.values[i].shape for i in anchor.inputs[:2])
    output = group.values[anchor.outputs[0]].shape
    if anchor.type == "MatMul":
        return Product(left, right, output)
    get = anchor.attributes.get
    transposed = (bool(get("transA", 0)), bool(get("transB", 0)))
    return Product(left, right, output, transposed, (get("alpha", 1.0), get("beta", 1.0)))


@dataclass(frozen=True)
class ProductNest:
    """A matrix product with its tile; `packed` when B is laid out in panels beforehand."""

    product: Product
    around: Surroundings
    tile: Tile
    lanes: int
    packed: bool
    slots: float

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.tile.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of columns."""
        return ceil_div(self.product.columns, self.width)

    @property
    def packing(self) -> str:
        """The packing of a constant B."""
        product, width = self.product, self.width
        missing = self.panels * width - product.columns
        if product.transposed[1]:
            return f"pad:{missing},0|reshape:{self.panels},{width},{product.depth}|transpose:0,2,1"
        steps = f"reshape:{product.depth},{product.columns}|pad:0,{missing}"
        return f"{steps}|reshape:{product.depth},{self.panels},{width}|transpose:1,0,2"

    def launches(self) -> Stmt:
        """All launches: write the operands that are not there yet, then multiply."""
        flip = self.product.transposed[1] and not self.packed
        left, first = self._source(0, self.product.left, False)
        right, second = self._source(1, self.product.right, flip)
        return sequence([*first, *second, self._multiply(left, right)])

    def _source(self, position: int, shape: tuple[int, ...], flip: bool) -> tuple[Var, list[Stmt]]:
        """Where an operand is, and the launch that puts it there; `flip` transposes it."""
        number = self.around.read_number(position)
        if number is not None and not flip:
            return self.around.reads[number], []
        target = buffer(f"operand{position}", prod(shape))
        rows = prod(shape[:-2]) * shape[-1] if flip else prod(shape[:-1])
        columns = shape[-2] if flip else shape[-1]

        def row(number: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                lead = [x, number] if flip else [*unflatten_index(number, shape[:-1]), x]
                value = self.around.operand(position, lead)
                return tirx.BufferStore(target, value, [number * columns + x])

            return vector_loop(columns, self.lanes, one)

        blocks = ceil_div(rows, max(1, FILL_ELEMENTS // columns))
        fill = block_loops(
            (blocks,),
            (rows,),
            lambda firsts, lengths: loop("row", lengths[0], lambda r: row(firsts[0] + r)),
        )
        return target, [tirx.AllocBuffer(target), fill]

    def _multiply(self, left: Var, right: Var) -> Stmt:
        product = self.product
        extents = (prod(product.batch), self.panels, ceil_div(product.rows, self.tile.rows))
        blocks = split_blocks(self.slots * extents[0], *extents)

        def body(firsts: list[Any], lengths: list[Any]) -> Stmt:
            def panel(batch: Any, number: Any) -> Stmt:
                return loop(
                    "tile",
                    lengths[2],
                    lambda t: self._rows(left, right, batch, number, firsts[2] + t),
                )

            def one(unit: Any) -> Stmt:
                batch = firsts[0] + unit
                return loop("panel", lengths[1], lambda p: panel(batch, firsts[1] + p))

            return loop("batch", lengths[0], one)

        return block_loops(blocks, extents, body)

    def _rows(self, left: Var, right: Var, batch: Any, panel: Any, tile: Any) -> Stmt:
        """A tile, or the shorter one behind the last whole tile."""
        rows, rest = self.tile.rows, self.product.rows % self.tile.rows
        whole = self._columns(left, right, batch, panel, tile, rows)
        if not rest:
            return whole
        tail = self._columns(left, right, batch, panel, tile, rest)
        if self.product.rows < rows:
            return tail
        return tirx.IfThenElse(tile < self.product.rows // rows, whole, tail)

    def _columns(self, left: Var, right: Var, batch: Any, panel: Any, tile: Any, rows: int) -> Stmt:
        """A panel, or the narrower one behind the last whole panel."""
        rest = self.product.columns % self.width
        whole = self._tile(left, right, batch, panel, tile, rows, self.width)
        if not rest:
            return whole
        tail = self._tile(left, right, batch, panel, tile, rows, rest)
        if self.product.columns < self.width:
            return tail
        return tirx.IfThenElse(panel < self.product.columns // self.width, whole, tail)

    def _tile(
        self, left: Var, right: Var, batch: Any, panel: Any, tile: Any, rows: int, columns: int
    ) -> Stmt:
        vectors = ceil_div(columns, self.lanes)
        registers = RegisterTile(rows, vectors, self.lanes)
        starts = [j * self.lanes for j in range(vectors)]
        if not self.packed:
            starts[-1] = columns - self.lanes
        before = max(0, -starts[-1])
        pitch = self.width + before
        sums, allocate = scratch("sums", rows * pitch)
        indices = unflatten_index(batch, self.product.batch)
        a, b = self._matrix(self.product.left, indices), self._matrix(self.product.right, indices)
        first = tile * self.tile.rows

        def step(k: Any) -> Stmt:
            line = self._line(b, panel, k)
            return registers.step(
                lambda i: tirx.BufferLoad(left, [self._element(a, first + i, k)]),
                lambda j: vector_at(right, line + starts[j], self.lanes),
            )

        def row(i: Any) -> Stmt:
            def one(x: Any) -> Stmt:
                value = tirx.BufferLoad(sums, [i * pitch + before + x])
                return self._store(value, indices, first + i, panel * self.width + x)

            return vector_loop(columns, self.lanes, one)

        kept = registers.store(sums, lambda i, j: i * pitch + before + starts[j])
        reduce = loop("k", self.product.depth, step)
        return sequence([allocate, *registers.start(), reduce, kept, loop("row", rows, row)])

    def _matrix(self, shape: tuple[int, ...], batch: list[Any]) -> Any:
        """Where an operand's matrix of a batch begins."""
        if self.product.shared or len(shape) < 3:
            return 0
        lead = shape[:-2]
        own = batch[len(batch) - len(lead) :]
        pinned = [0 if extent == 1 else i for i, extent in zip(own, lead, strict=True)]
        return flatten_index(pinned, lead) * (shape[-1] * shape[-2])

    def _element(self, matrix: Any, row: Any, k: Any) -> Any:
        if self.product.transposed[0]:
            return matrix + k * self.product.rows + row
        return matrix + row * self.product.depth + k

    def _line(self, matrix: Any, panel: Any, k: Any) -> Any:
        """Where a panel's columns of a line of B begin."""
        if self.packed:
            return (panel * self.product.depth + k) * self.width
        return matrix + k * self.product.columns + panel * self.width

    def _store(self, value: Any, batch: list[Any], row: Any, column: Any) -> Stmt:
        product, around = self.product, self.around
        lead = around.shape[: len(around.shape) - (len(product.right) > 1)]
        at = unflatten_index(row, lead) if product.shared else [*batch, row][: len(lead)]
        at = [*at, column] if len(product.right) > 1 else at
        alpha, beta = product.factors
        value = value if alpha == 1 else multiply(value, tirx.const(alpha, "float32"))
        addend = self._addend(at)
        if addend is not None:
            value = value + (addend if beta == 1 else multiply(addend, tirx.const(beta, "float32")))
        return around.store(value, at)

    def _addend(self, at: list[Any]) -> Any:
        """Gemm's operand C, which broadcasts to the result."""
        operands = self.around.operands
        if len(operands) < 3 or operands[2] is None:
            return None
        shape = [int(extent) for extent in operands[2].shape]
        own = at[len(at) - len(shape) :]
        pinned = [0 if extent == 1 else i for i, extent in zip(own, shape, strict=True)]
        return self.around.operand(2, pinned)
