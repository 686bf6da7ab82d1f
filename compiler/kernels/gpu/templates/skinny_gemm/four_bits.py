"""GEMMs of a few rows by packed weights of four bits, on tensor cores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import c_type, is_fusible, store_function
from compiler.kernels.gpu.templates.gemm.four_bits import four_bit_anchor, read_four_bits
from compiler.kernels.gpu.templates.skinny_gemm.config import SkinnyConfig
from compiler.kernels.gpu.templates.skinny_gemm.emit import SkinnyEmitter
from compiler.kernels.gpu.templates.skinny_gemm.problem import (
    TILE_COLUMNS,
    SkinnyProblem,
    listed,
)
from compiler.kernels.gpu.templates.skinny_gemm.template import SkinnyGemm
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Key
from compiler.target.target import GpuTarget

RUN, RUNS = 32, 2
"""Weights along k of a run, and the runs of a chunk."""

LEAST_BLOCK = 32
"""The fewest weights of a scale: a run's."""

MOST_ROWS = 16
"""Rows whose sums fit the registers of a thread, next to those of a block of weights."""

TERMS = {"fp16": 1, "bf16": 1, "tf32": 2}
"""The numbers of 16 bits that a float32 of A is multiplied as in each precision."""


@dataclass(frozen=True)
class FourBitProblem(SkinnyProblem):
    """A GEMM by weights of four bits in blocks; `reads` are A, weights, scales, zero points."""

    block: int
    zero_type: str

    @property
    def runs(self) -> tuple[int, int]:
        """Runs of k in a chunk, and the elements of one."""
        return RUNS, RUN

    @property
    def chunks(self) -> int:
        """Chunks of a column: of whole blocks."""
        return ceil_div(self.block * ceil_div(self.gemm.k, self.block), RUNS * RUN)

    @property
    def scales(self) -> int:
        """Scales of a column of a chunk."""
        return max(1, RUNS * RUN // self.block)

    @property
    def scale_row(self) -> int:
        """Scales of a column after packing: an even number, as zero points share bytes."""
        return 2 * ceil_div(ceil_div(self.chunks * RUNS * RUN, self.block), 2)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of weights, scales and zero points of a chunk of one tile."""
        zero = {"": 0, "uint8": 1}.get(self.zero_type, 4)
        weights = RUNS * RUN // 2 + (4 + zero) * RUNS * RUN // self.block
        return TILE_COLUMNS * weights

    @property
    def chunk_registers(self) -> int:
        """Registers of a lane for a chunk of one tile."""
        return 4 + 2 * self.scales * (2 if self.zero_type else 1)

    @property
    def held(self) -> float:
        """The compiler unpacks weights of several stages at a time."""
        return 1.5

    @property
    def sums(self) -> int:
        """The sum, that of the block, and unpacked weights."""
        return 3

    @property
    def unpacking(self) -> float:
        """Measured on an H100."""
        return 1.75

    @property
    def packings(self) -> list[str]:
        """The packings of weights, scales and zero points."""
        columns = self.gemm.n
        blocks = ceil_div(self.gemm.k, self.block)
        more, width = -columns % TILE_COLUMNS, blocks * self.block
        row = f"pad:{more},{self.scale_row - blocks}"
        shared = f"nibbles|pad:{more},{self.scale_row - 2 * ceil_div(blocks, 2)}"
        zeros = shared if self.zero_type == "uint8" else row
        integers = f"reshape:{columns},{width // 2}|nibbles"
        integers += f"|pad:{more},{self.chunks * RUNS * RUN - width}"
        fragments = listed((self.tiles, 2, 8, self.chunks, RUNS, 4, 2, 2, 2))
        packed = f"reshape:{fragments}|transpose:0,3,2,5,4,6,8,7,1|pack-nibbles"
        return [f"{integers}|{packed}", f"{row}|{self._by_tile}", f"{zeros}|{self._by_tile}"]

    @property
    def _by_tile(self) -> str:
        """Rows of scales of all columns, in the order of tiles."""
        shape = (self.tiles, 2, 8, self.scale_row // self.scales, self.scales)
        return f"reshape:{listed(shape)}|transpose:0,3,2,1,4"


class FourBitGemm(SkinnyGemm):
    """A group around one matmul of a few rows by constant weights of four bits."""

    name = "four_bit_gemm"
    sources = ("skinny_gemm.cuh", "four_bit_weights.cuh", "instructions.cuh")

    def match(self, group: Group, target: GpuTarget) -> Sequence[SkinnyProblem]:
        """The only matmul, if its left matrix is read from memory."""
        anchor = four_bit_anchor(group)
        problem = _problem(group, anchor, target) if anchor is not None else None
        return [problem] if problem and anchor and is_fusible(group, anchor) else []

    def key(self, problem: SkinnyProblem, target: GpuTarget) -> Key:
        """The fields that decide the speed of a problem's configs; the epilogue is left out."""
        own = cast(FourBitProblem, problem)
        more = {"block": own.block, "zeros": own.zero_type, "precision": target.precision}
        return {**super().key(problem, target), **more}

    def emit(
        self, group: Group, problem: SkinnyProblem, config: SkinnyConfig, target: GpuTarget
    ) -> KernelSource:
        anchor = four_bit_anchor(group)
        assert anchor is not None
        assert isinstance(problem, FourBitProblem)
        store = store_function(group, anchor, target)
        emitter = _Emitter(group, anchor, problem.gemm, store, target)
        return emitter.four_bits(problem, config)


class _Emitter(SkinnyEmitter):
    """Writes the CUDA text around four_bit_weights.cuh."""

    def four_bits(self, problem: FourBitProblem, config: SkinnyConfig) -> KernelSource:
        """The kernel of a problem."""
        zero = c_type(problem.zero_type or "uint8")
        buffers = {"b": "uint8_t", "scales": "float", "zeros": zero}
        short = self.problem.element_bytes == 2
        constants: dict[str, int | str] = {
            "BLOCK": problem.block,
            "SCALE_ROW": problem.scale_row,
            "ZEROS": int(bool(problem.zero_type)),
            "MULTIPLIED": "FP16" if self._precision == "fp16" else "BF16",
            "TERMS": 1 if short else TERMS[self.target.precision],
        }
        headers = ("skinny_gemm", "four_bit_weights")
        return self.kernel(
            problem, config, buffers, constants, "FourBitWeights", headers=headers, exact=True
        )


def _problem(group: Group, anchor: Node[int], target: GpuTarget) -> FourBitProblem | None:
    """The problem of a matmul; None where tensor cores do not multiply so exactly, or without."""
    matmul = read_four_bits(group, anchor, MOST_ROWS)
    able = target.has_mma and target.precision in TERMS
    if matmul is None or not able or matmul.block < LEAST_BLOCK:
        return None
    problem = FourBitProblem(matmul.gemm, matmul.reads, matmul.block, matmul.zero_type)
    packings = tuple(zip(matmul.reads[1:], problem.packings, strict=False))
    return replace(problem, gemm=replace(matmul.gemm, packings=packings))
