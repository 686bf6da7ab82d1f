"""Convolutions and matmuls of bytes as tiled GEMMs on tensor cores."""

from collections.abc import Sequence

from compiler.kernels.gpu.epilogue import is_fusible
from compiler.kernels.gpu.templates.byte_gemm.problem import BYTE_KINDS, ByteProblem
from compiler.kernels.gpu.templates.byte_gemm.read import byte_contraction_of, read_byte_problem
from compiler.kernels.gpu.templates.gemm.config import Tile, check_tile
from compiler.kernels.gpu.templates.gemm.emit import (
    TILE_HEADERS,
    WGMMA_HEADERS,
    Mainloop,
    tiled_kernel,
)
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key
from compiler.target.target import GpuTarget

BYTE_HEADERS = ("bytes", *TILE_HEADERS, "byte_gemm")

BYTE_WGMMA_HEADERS = (
    *("bytes", *WGMMA_HEADERS),
    *("byte_gemm", "byte_warpgroups", "wgmma_byte_gemm"),
)
"""Headers of tiles of integers by WGMMA."""


class ByteGemm(Gemm):
    """A group around one contraction of bytes by constant weights; sums of integers are exact."""

    name = "byte_gemm"
    sources = (
        *(
            "bytes.cuh",
            "instructions.cuh",
            "operands.cuh",
            "results.cuh",
            "gemm.cuh",
            "byte_gemm.cuh",
        ),
        *("warpgroups.cuh", "byte_warpgroups.cuh", "wgmma_gemm.cuh", "wgmma_byte_gemm.cuh"),
    )

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The problem of the only contraction of bytes."""
        anchor = byte_contraction_of(group)
        problem = read_byte_problem(group, anchor) if anchor and target.has_mma else None
        if anchor is None or problem is None or not is_fusible(group, anchor):
            return []
        return [problem] if target.has_float8_mma or not problem.has_floats else []

    def related_key(self, problem: Problem, target: GpuTarget) -> Key:
        """None: other types are not copied alike."""
        return {}

    def emit(self, group: Group, problem: Problem, config: Tile, target: GpuTarget) -> KernelSource:
        """The kernel of a group."""
        check_tile(problem, config, target)
        anchor = byte_contraction_of(group)
        assert anchor is not None
        assert isinstance(problem, ByteProblem)
        return tiled_kernel(group, anchor, problem, config, target, byte_mainloop(problem, config))


def byte_mainloop(problem: ByteProblem, tile: Tile) -> Mainloop:
    """The device function of a tile of bytes."""
    pointers = (f"const uint8_t* __restrict__ {name}" for name in ("a", "b"))
    return Mainloop(
        headers=BYTE_WGMMA_HEADERS if tile.wgmma else BYTE_HEADERS,
        function=f"{'wgmma_' if tile.wgmma else ''}byte_gemm<Problem>",
        reads=(problem.left, problem.right),
        parameters=", ".join(pointers),
        text=_traits(problem),
        resident=2 * int(tile.co_resident),
    )


def _traits(problem: ByteProblem) -> str:
    """The specialisation with the kinds and the zero point of a problem."""
    constants = {
        "A_KIND": BYTE_KINDS[problem.kinds[0]],
        "B_KIND": BYTE_KINDS[problem.kinds[1]],
        "WEIGHTS": problem.weights,
        "ZERO_POINT": problem.zero_point,
        "SUMS": problem.weight_bytes,
    }
    lines = [f"  static constexpr int {name} = {value};" for name, value in constants.items()]
    lines += [f"  using Sum = {'float' if problem.has_floats else 'int'};"]
    return "\n".join(["template <>", "struct Bytes<Problem> {", *lines, "};", ""])
