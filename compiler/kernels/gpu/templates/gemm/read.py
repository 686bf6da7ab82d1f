"""The GEMMs that a group's contraction can be computed as."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from compiler.graph.channel_groups import filling_merges
from compiler.kernels.gpu.operands import ELEMENT_BYTES, find_operand
from compiler.kernels.gpu.templates.gemm.image import image_problem
from compiler.kernels.gpu.templates.gemm.matmul import FEW_ROWS, matmul_problem
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Problem
from compiler.kernels.group import Group, Node
from compiler.kernels.sizes import at_hint, is_number
from compiler.kernels.tir.matmul import read_matmul
from compiler.net.operators.contractions import CONVOLUTIONS, FLOAT_CONTRACTIONS, GEMMS, MATMULS
from compiler.target.target import GpuTarget
from compiler.tensors.extents import value_at
from compiler.tensors.symbols import Symbol

TURNS = range(3)
"""How often a problem is read whose rows sizes decide."""

VECTORS = {1: (16, 8, 4), 2: (8, 4)}
"""How many results of one or two bytes a thread may store as a vector; of others four."""


def read_problem(group: Group, anchor: Node[int], merged: int = 1) -> Problem | None:
    """The problem of a contraction whose operands are reads of one type; None for any other.

    `merged` groups of a convolution are computed as one.
    """
    used = [group.values[i] for i in (*anchor.inputs, *anchor.outputs) if i is not None]
    if {v.dtype for v in used} != {"float32"} or any(v.elements == 0 for v in used):
        return None
    first, second = (find_operand(group, i) for i in anchor.inputs[:2])
    if first is None or second is None or first.dtype != second.dtype:
        return None
    problem = None
    if anchor.type in GEMMS:
        problem = matmul_problem(group, anchor, first, second)
    if anchor.type in CONVOLUTIONS and 3 <= len(used[0].shape) <= 5:
        problem = image_problem(group, anchor, second, first, merged)
    return problem and replace(problem, vector=result_vector(group, problem))


def read_runtime_rows(group: Group, anchor: Node[int]) -> Problem | None:
    """The problem of a MatMul or a Gemm of which sizes decide the rows, and nothing else.

    None for any other. It is read for several numbers of rows, which must give the same but for
    these: a stride that depends on sizes is a multiple of some, and would differ.
    """
    matmul = read_matmul(group, anchor) if anchor.type in MATMULS else None
    witnesses = _witnesses(group.symbols)
    if matmul is None or not matmul.shared or is_number(matmul.rows) or not witnesses:
        return None
    position = next(i for i, op in enumerate(group.operators) if op is anchor)
    alike = set[Problem]()
    for sizes in witnesses:
        own = group.at(sizes)
        problem = read_problem(own, own.operators[position])
        if problem is None or not FEW_ROWS < problem.m == value_at(matmul.rows, sizes):
            return None
        alike.add(replace(problem, m=0))
    if len(alike) > 1:
        return None
    return replace(alike.pop(), m=at_hint(matmul.rows), rows=matmul.rows)


def _witnesses(symbols: Sequence[Symbol]) -> list[dict[str, int]]:
    """Sizes by symbol, of which each is another number every time; none if bounds leave too few."""
    sizes = [
        [
            min(61 + 8 * i + 211 * turn, inf if own.high is None else own.high - turn)
            for turn in TURNS
        ]
        for i, own in enumerate(symbols)
    ]
    if any(own.low > number for own, row in zip(symbols, sizes, strict=True) for number in row):
        return []
    names = [own.name for own in symbols]
    return [dict(zip(names, map(int, row), strict=True)) for row in zip(*sizes, strict=True)]


def result_vector(group: Group, problem: Problem) -> int:
    """How many columns of the first result are stored as a vector; 0 if none."""
    result = group.writes[0]
    pixels = problem.gather.pixels
    in_order = problem.result_index[2] in ("n", f"n % {pixels}")
    widths = VECTORS.get(ELEMENT_BYTES.get(result.dtype, 4), (4,))
    fits = [width for width in widths if pixels % width == 0]
    return fits[0] if fits and in_order and not result.block else 0


def merges(group: Group, anchor: Node[int]) -> list[int]:
    """How many groups of a convolution to merge so that they fill tensor cores.

    The fewest that fill the rows of a tile, and the fewest with one tap per k-step, which are
    copied faster. None for groups of one channel, or with computed weights.
    """
    image, weight = (find_operand(group, value) for value in anchor.inputs[:2])
    if anchor.type != "Conv" or image is None or weight is None or not weight.constant:
        return []
    groups = anchor.attributes["group"]
    rows = weight.view.shape[0] // groups
    channels = weight.view.shape[1]
    step = STEP_BYTES // ELEMENT_BYTES[weight.dtype]
    fill = filling_merges(groups, rows, channels, weight.chunk)
    whole = [n for n in fill if n * channels % step == 0]
    counts = {n for n in (*fill[:1], *whole[:1]) if n > 1}
    return sorted(counts) if channels > 1 and image.block else []


def contraction_of(group: Group) -> Node[int] | None:
    """The only contraction of a group."""
    return group.only(*FLOAT_CONTRACTIONS)


def read_problems(group: Group, anchor: Node[int], target: GpuTarget) -> list[Problem]:
    """The GEMMs that can compute a contraction, merged groups of channels last."""
    problems = [read_problem(group, anchor)]
    problems += [read_problem(group, anchor, n) for n in merges(group, anchor)]
    return [p for p in problems if p and (p.merged == 1 or _has_tensor_cores(p, target))]


def _has_tensor_cores(problem: Problem, target: GpuTarget) -> bool:
    """Whether tensor cores compute a problem: then zeros cost little."""
    short = problem.element_bytes == 2 or target.precision != "fp32"
    return short and target.has_mma


def is_gemv(anchor: Node[int], problem: Problem) -> bool:
    """Whether a contraction is a GEMV, or of few rows: bound by reading its matrix."""
    few = problem.m <= FEW_ROWS and problem.form is Form.LINES
    return few and anchor.type in GEMMS
