"""Convolutions and matmuls of bytes as tiled GEMMs on tensor cores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy

from compiler.kernels.gpu.epilogue import is_fusible
from compiler.kernels.gpu.operands import BYTE_TYPES, find_operand
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.gpu.templates.gemm.config import Tile, check_tile
from compiler.kernels.gpu.templates.gemm.emit import (
    TILE_HEADERS,
    WGMMA_HEADERS,
    Mainloop,
    operand_parameters,
    tiled_kernel,
)
from compiler.kernels.gpu.templates.gemm.image import image_problem
from compiler.kernels.gpu.templates.gemm.matmul import matmul_problem
from compiler.kernels.gpu.templates.gemm.problem import Form, Problem
from compiler.kernels.gpu.templates.gemm.read import result_vector
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Key
from compiler.net.operators import BYTE_CONTRACTIONS, FLOAT8_CONTRACTIONS
from compiler.net.operators.contractions import MATMULS
from compiler.target.target import GpuTarget

FLOAT8_BYTES = "float8"
"""The dtype of problems of float8s, of either format."""

BYTE_KINDS = {
    "int8": "S8",
    "uint8": "U8",
    "float8_e4m3fn": "E4M3",
    "float8_e5m2": "E5M2",
}
"""The headers' name of each type of bytes."""


@dataclass(frozen=True, kw_only=True)
class ByteProblem(Problem):
    """A GEMM of bytes with one constant operand, the weights.

    `kinds` are those of A's and B's bytes, of `BYTE_KINDS`. Sums of integers are int32, those of
    float8s float32; `zero_point` is that of the integers besides the weights.
    """

    kinds: tuple[str, str]
    zero_point: int = 0

    @property
    def has_floats(self) -> bool:
        """Whether it multiplies float8s."""
        return self.dtype == FLOAT8_BYTES

    @property
    def weights(self) -> int:
        """Which operand the weights are: 1 for A, 2 for B."""
        return 1 if self.packings[0][0] == self.left else 2

    @property
    def weight_bytes(self) -> int:
        """The bytes of the packed weights, before the sums of their rows."""
        return self.count * self.m * self.a_row if self.weights == 1 else self.n * self.b_row


BYTE_HEADERS = ("bytes", *TILE_HEADERS, "byte_gemm")

BYTE_WGMMA_HEADERS = (
    *("bytes", *WGMMA_HEADERS),
    *("byte_gemm", "byte_warpgroups", "wgmma_byte_gemm"),
)
"""Headers of tiles of integers by WGMMA."""


def read_byte_problem(group: Group, anchor: Node[int]) -> ByteProblem | None:
    """The problem of a contraction by constant weights without a zero point; None for any other.

    The other operand is contiguous in k: a matrix, or an image in channel blocks. Its zero point is
    a constant, and 0 where an image is padded.
    """
    first, second = (find_operand(group, value) for value in anchor.inputs[:2])
    if first is None or second is None or not {first.dtype, second.dtype} <= {*BYTE_TYPES}:
        return None
    zero, other = (_zero_point(group, anchor, index) for index in (2, 3))
    if zero is None or other != 0 or not second.constant:
        return None
    if anchor.type in MATMULS:
        problem = matmul_problem(group, anchor, first, second, 0)
        operands = (first, second)
    else:
        problem = image_problem(group, anchor, second, first)
        operands = (second, first)
    if problem is None or not _is_tiled(problem, zero):
        return None
    own = {field.name: getattr(problem, field.name) for field in fields(problem)}
    floats = anchor.type in FLOAT8_CONTRACTIONS
    dtype = FLOAT8_BYTES if floats else "int8"
    own |= {"dtype": dtype, "vector": result_vector(group, problem)}
    if zero:
        own["packings"] = tuple((n, f"{p}|row-sums".lstrip("|")) for n, p in problem.packings)
    kinds = group.values[operands[0].read].element, group.values[operands[1].read].element
    return ByteProblem(**own, kinds=kinds, zero_point=zero)


def _is_tiled(problem: Problem, zero: int) -> bool:
    """Whether the tiles of bytes take a problem: padding would have to be the zero point."""
    padded = problem.gather.pads != (0, 0, 0) or _reaches_past(problem)
    packed = len(problem.packings) == 1 and problem.form is not Form.LINES
    return packed and not (padded and zero)


def _reaches_past(problem: Problem) -> bool:
    """Whether the last window of an image reaches past its end."""
    gather = problem.gather
    axes = zip(
        gather.source, gather.result, gather.window, gather.strides, gather.dilations, strict=True
    )
    return any((n - 1) * s + (w - 1) * d >= size for size, n, w, s, d in axes)


def _zero_point(group: Group, anchor: Node[int], index: int) -> int | None:
    """The zero point that an operand is; 0 if it is left out, None unless it is one constant."""
    value = anchor.inputs[index] if index < len(anchor.inputs) else None
    if value is None:
        return 0
    constant = group.constants.get(value)
    if constant is None or constant.size == 0:
        return None
    distinct = numpy.unique(constant)
    return int(distinct[0]) if distinct.size == 1 else None


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
        anchor = group.only(*BYTE_CONTRACTIONS)
        problem = read_byte_problem(group, anchor) if anchor and target.has_mma else None
        if anchor is None or problem is None or not is_fusible(group, anchor):
            return []
        return [problem] if target.has_float8_mma or not problem.has_floats else []

    def related_key(self, problem: Problem, target: GpuTarget) -> Key:
        """None: other types are not copied alike."""
        return {}

    def emit(self, group: Group, problem: Problem, config: Tile, target: GpuTarget) -> KernelSource:
        check_tile(problem, config, target)
        anchor = group.only(*BYTE_CONTRACTIONS)
        assert anchor is not None
        assert isinstance(problem, ByteProblem)
        # The specialisation with the kinds and the zero point of a problem.
        kinds: Mapping[str, int | str] = {
            "A_KIND": BYTE_KINDS[problem.kinds[0]],
            "B_KIND": BYTE_KINDS[problem.kinds[1]],
            "WEIGHTS": problem.weights,
            "ZERO_POINT": problem.zero_point,
            "SUMS": problem.weight_bytes,
        }
        lines = constants(kinds)
        lines += [f"  using Sum = {'float' if problem.has_floats else 'int'};"]
        return tiled_kernel(
            group,
            anchor,
            problem,
            config,
            target,
            mainloop=Mainloop(
                headers=BYTE_WGMMA_HEADERS if config.wgmma else BYTE_HEADERS,
                function=f"{'wgmma_' if config.wgmma else ''}byte_gemm<Problem>",
                parameters=operand_parameters(problem, "uint8_t"),
                text=struct("Bytes", lines, specialised=True),
                resident=2 * int(config.co_resident),
            ),
        )
