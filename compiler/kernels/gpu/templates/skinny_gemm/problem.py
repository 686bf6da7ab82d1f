"""GEMMs of a few rows by constant weights, and how these are packed."""

from dataclasses import dataclass, replace

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.operands import find_operand
from compiler.kernels.gpu.templates.gemm.matmul import is_stored_by_column
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import Group, Node
from compiler.kernels.tir.matmul import read_matmul
from compiler.target.target import GpuTarget

MOST_ROWS = 32
"""Rows whose sums fit the registers of a thread; with more, tiles reuse weights."""

TILE_COLUMNS = 16
"""Columns of the result that an MMA takes."""

RUN_BYTES = 64
"""Bytes along k of a column of a chunk of dense weights."""

LANE_BYTES = 16
"""Bytes of weights that a lane loads at once."""


@dataclass(frozen=True)
class SkinnyProblem:
    """A GEMM of few rows by dense weights; `reads` are A and the weights."""

    gemm: Problem
    reads: tuple[int, ...]

    @property
    def runs(self) -> tuple[int, int]:
        """Runs of k in a chunk, of which a lane reads a quarter, and the elements of one."""
        return 1, RUN_BYTES // self.gemm.element_bytes

    @property
    def chunks(self) -> int:
        """Chunks of a column."""
        count, run = self.runs
        return ceil_div(self.gemm.k, count * run)

    @property
    def tiles(self) -> int:
        """Tiles of columns."""
        return ceil_div(self.gemm.n, TILE_COLUMNS)

    @property
    def row_tiles(self) -> int:
        """Tiles of eight rows."""
        return ceil_div(self.gemm.m, 8)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of weights of a chunk of one tile."""
        return 2 * LANE_BYTES * 32

    @property
    def chunk_registers(self) -> int:
        """Registers of a lane for a chunk of one tile."""
        return 2 * LANE_BYTES // 4

    @property
    def held(self) -> float:
        """Registers of staged weights and rows over those that they fill."""
        return 1.0

    @property
    def sums(self) -> int:
        """Registers for each sum."""
        return 1

    @property
    def unpacking(self) -> float:
        """The time of loading weights and unpacking them over that of loading them."""
        return 1.0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a chunk."""
        count, run = self.runs
        return count * run * self.gemm.element_bytes


def read_skinny_problem(group: Group, anchor: Node[int], target: GpuTarget) -> SkinnyProblem | None:
    """The problem of a matmul of few rows whose weights tensor cores multiply as they are stored.

    None for any other: floats have to be rounded beforehand, to tf32.
    """
    problem = read_problem(group, anchor)
    if problem is None or not problem.packings or problem.count != 1:
        return None
    as_stored = problem.element_bytes == 2 or target.precision == "tf32"
    if not as_stored or not 0 < problem.m <= MOST_ROWS or not target.has_mma:
        return None
    right = find_operand(group, anchor.inputs[1])
    matmul = read_matmul(group, anchor)
    assert right is not None
    assert matmul is not None
    skinny = SkinnyProblem(replace(problem, vector=0), (problem.left, problem.right))
    packing = _packing(skinny, is_stored_by_column(matmul, right))
    packed = replace(skinny.gemm, packings=((problem.right, packing),))
    return replace(skinny, gemm=packed)


def _packing(problem: SkinnyProblem, by_column: bool) -> str:
    """Weights in the order of fragments: a lane has four consecutive k of each in four registers.

    Registers with two elements have two consecutive k; the second and the last have columns that
    are eight further.
    """
    gemm = problem.gemm
    pair = 4 // problem.gemm.element_bytes
    depth, columns = problem.chunks * problem.runs[1] - gemm.k, -gemm.n % TILE_COLUMNS
    along, across = (problem.chunks, 4, 2, 2, pair), (problem.tiles, 2, 8)
    if by_column:
        steps = [f"reshape:{gemm.n},{gemm.k}", f"pad:{columns},{depth}"]
        shape, order = (*across, *along), (0, 3, 5, 2, 4, 6, 1, 7)
    else:
        steps = [f"reshape:{gemm.k},{gemm.n}", f"pad:{depth},{columns}"]
        shape, order = (*along, *across), (5, 0, 2, 7, 1, 3, 6, 4)
    return "|".join([*steps, f"reshape:{listed(shape)}", f"transpose:{listed(order)}"])


def listed(numbers: tuple[int, ...]) -> str:
    """Numbers as a packing's step has them."""
    return ",".join(map(str, numbers))
