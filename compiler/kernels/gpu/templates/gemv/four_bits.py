"""GEMV and GEMMs of a few rows by packed weights of four bits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import Parameter, c_type, is_fusible, store_function
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.emit import Emitter
from compiler.kernels.gpu.templates.gemm.four_bits import four_bit_anchor, read_four_bits
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, OneWay
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

MOST_GEMV_ROWS = 16
"""Rows whose sums fit the registers of a thread."""

CHUNK = 256
"""Weights of a column that eight lanes load together."""

CHUNK_BYTES = CHUNK // 2

MOST_WARPS, WARP_CHUNKS = 8, 2
"""Warps of a block, and the chunks along k that each of them should have."""

GROUP_COLUMNS = 4
"""Columns that a warp loads at once."""

START_US, FIRST_ROW, OTHER_ROWS = 2.2, 20e3, 38e3
"""Microseconds to launch, and weights per microsecond and SM: those of 6, 12 and 47 us for 1, 4
and 16 rows of 2048 x 5632 on an H100."""


@dataclass(frozen=True)
class FourBitProblem:
    """A matmul as a GEMM, with the size of blocks; `reads` are A, weights, scales, zero points."""

    gemm: Problem
    block: int
    reads: tuple[int, ...]
    zero_type: str

    @property
    def chunks(self) -> int:
        """Chunks of a column."""
        return ceil_div(self.gemm.k, CHUNK)

    @property
    def warps(self) -> int:
        """Warps of a block, which share its columns' chunks."""
        return max(1, min(MOST_WARPS, self.chunks // WARP_CHUNKS))

    @property
    def columns(self) -> int:
        """Columns of a lane: more reuse what several rows read of A."""
        return 1 if self.gemm.m <= 2 else 2

    @property
    def zero_row(self) -> int:
        """Zero points of a column after packing."""
        return max(self._scale_row, 2 * ceil_div(self._blocks, 2)) if self.zero_type else 0

    @property
    def _blocks(self) -> int:
        return ceil_div(self.gemm.k, self.block)

    @property
    def _scale_row(self) -> int:
        return self.chunks * CHUNK // self.block

    @property
    def packings(self) -> list[str]:
        """The packings of weights, scales and zero points."""
        columns = self.gemm.n
        row = self._blocks * self.block // 2
        missing = self.chunks * CHUNK_BYTES - row
        runs = f"reshape:{columns},{self.chunks},8,8,2|transpose:0,1,3,2,4"
        weights = f"reshape:{columns},{row}|pad:0,{missing}|{runs}"
        given = 2 * ceil_div(self._blocks, 2) if self.zero_type == "uint8" else self._blocks
        zeros = f"pad:0,{self.zero_row - given}" if self.zero_type else ""
        zeros = f"nibbles|{zeros}" if self.zero_type == "uint8" else zeros
        return [weights, f"pad:0,{self._scale_row - self._blocks}", zeros]

    @property
    def constants(self) -> str:
        """The constants of the weights, as a struct."""
        values = {
            "BLOCK": self.block,
            "CHUNKS": self.chunks,
            "WARPS": self.warps,
            "COLUMNS": self.columns,
            "SCALE_ROW": self._scale_row,
            "ZERO_ROW": self.zero_row,
            "ZEROS": int(bool(self.zero_type)),
            "EXACT": int(self.zero_type != "float32"),
        }
        return struct("FourBits", constants(values), specialised=True)


class FourBitGemv(OneWay[FourBitProblem, GpuTarget]):
    """A group around one matmul of a few rows by constant weights of four bits."""

    name = "four_bit_gemv"

    def match(self, group: Group, target: GpuTarget) -> Sequence[FourBitProblem]:
        """The only matmul, if its left matrix is read from memory."""
        anchor = four_bit_anchor(group)
        problem = _problem(group, anchor) if anchor is not None else None
        return [problem] if problem and anchor and is_fusible(group, anchor) else []

    def estimate_ns(self, problem: FourBitProblem, config: None, target: GpuTarget) -> float:
        """The estimated nanoseconds: arithmetic decides, most of it for the first row."""
        weights = problem.gemm.n * problem.gemm.k / target.device.sms
        return 1e3 * (START_US + weights * (1 / FIRST_ROW + (problem.gemm.m - 1) / OTHER_ROWS))

    def emit(
        self, group: Group, problem: FourBitProblem, config: None, target: GpuTarget
    ) -> KernelSource:
        anchor = four_bit_anchor(group)
        assert anchor is not None
        store = store_function(group, anchor, target)
        return _Emitter(group, anchor, problem.gemm, store, target).four_bits(problem)


class _Emitter(Emitter):
    """Writes the CUDA text around four_bit_gemv.cuh."""

    def four_bits(self, problem: FourBitProblem) -> KernelSource:
        """The kernel of a problem."""
        zero = c_type(problem.zero_type or "uint8")
        kinds = c_type(problem.gemm.dtype), "uint8_t", "float", zero
        operands = zip(kinds, ("a", "b", "scales", "zeros"), problem.reads, strict=False)
        parameters = [
            Parameter(f"const {kind}* __restrict__", name, read) for kind, name, read in operands
        ]
        zeros = "zeros" if problem.zero_type else f"(const {zero}*)nullptr"
        call = f"four_bit_gemv<Problem>(a, b, scales, {zeros}, {self._store_object()})"
        grid = (ceil_div(problem.gemm.n, GROUP_COLUMNS * problem.columns), 1, 1)
        launch = Launch(f"{self.group.name}_0", (), grid, (32 * problem.warps, 1, 1))
        kernel, launch = self._kernel(launch, parameters, call)
        text = self._text(("four_bit_gemv",), Tile(16, 32, 16, 32, 1), problem.constants + kernel)
        return self._result(text, (launch,), (), exact=True)


def _problem(group: Group, anchor: Node[int]) -> FourBitProblem | None:
    """The problem of a matmul; None where operands are not in memory as the kernel reads them."""
    matmul = read_four_bits(group, anchor, MOST_GEMV_ROWS)
    if matmul is None:
        return None
    problem = FourBitProblem(matmul.gemm, matmul.block, matmul.reads, matmul.zero_type)
    packings = tuple(zip(matmul.reads[1:], problem.packings, strict=False))
    return replace(problem, gemm=replace(matmul.gemm, packings=packings))
