"""The GEMM of bytes that a group's contraction of bytes can be computed as."""

from dataclasses import fields

import numpy

from compiler.kernels.gpu.operands import BYTE_TYPES, find_operand
from compiler.kernels.gpu.templates.byte_gemm.problem import FLOAT8_BYTES, ByteProblem
from compiler.kernels.gpu.templates.gemm.image import image_problem
from compiler.kernels.gpu.templates.gemm.matmul import matmul_problem
from compiler.kernels.gpu.templates.gemm.problem import Form, Problem
from compiler.kernels.gpu.templates.gemm.read import result_vector
from compiler.kernels.group import Group, Node
from compiler.net.operators import BYTE_CONTRACTIONS, FLOAT8_CONTRACTIONS


def byte_contraction_of(group: Group) -> Node | None:
    """The only contraction of bytes of a group."""
    return group.only(*BYTE_CONTRACTIONS)


def read_byte_problem(group: Group, anchor: Node) -> ByteProblem | None:
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
    if anchor.type in ("MatMulFloat8", "MatMulInteger"):
        problem, operands = matmul_problem(group, anchor, first, second, 0), (first, second)
    else:
        problem, operands = image_problem(group, anchor, second, first), (second, first)
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


def _zero_point(group: Group, anchor: Node, index: int) -> int | None:
    """The zero point that an operand is; 0 if it is left out, None unless it is one constant."""
    value = anchor.inputs[index] if index < len(anchor.inputs) else None
    if value is None:
        return 0
    constant = group.constants.get(value)
    if constant is None or constant.size == 0:
        return None
    distinct = numpy.unique(constant)
    return int(distinct[0]) if distinct.size == 1 else None
