"""Matmuls as GEMMs: how their operands are read and packed."""

from collections.abc import Sequence
from math import prod

import numpy

from compiler.graph.fusion.channels_last import reshaped
from compiler.kernels.gpu.operands import Operand
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.group import Group, Node
from compiler.kernels.tir.matmul import Matmul, read_matmul

FEW_ROWS = 4
"""Up to this many rows a matmul is bound by reading its matrix, which is then not packed."""


def matmul_problem(
    group: Group, anchor: Node[int], left: Operand, right: Operand, few_rows: int = FEW_ROWS
) -> Problem | None:
    """The problem of a matmul; None when A is not contiguous in k.

    A constant matrix is packed by columns where there are more than `few_rows`.
    """
    matmul = read_matmul(group, anchor)
    if matmul is None or left.block or right.block:
        return None
    a = _left_matrix(matmul, left.view)
    b = _right_view(matmul, right.view)
    if a is None or (a.strides[-1] != 1 and matmul.depth > 1):
        return None
    few = matmul.rows <= few_rows
    packing, form, stride = _right_matrix(b, right, few)
    if form is None:
        return None
    n, k = matmul.columns, matmul.depth
    packed = right.constant and matmul.shared
    return Problem(
        m=matmul.rows,
        n=n,
        k=k,
        count=prod(matmul.batch),
        dtype=left.dtype,
        form=form,
        a_row=a.strides[-2],
        b_row=stride,
        left=left.read,
        right=right.read,
        gather=Gather(k, n, 0, stride, row=k, source=(1, 1, n), result=(1, 1, n)),
        a_offset=_batch_offset(a, matmul.batch),
        b_offset=_batch_offset(b, matmul.batch),
        result_index=("z", "m", "n"),
        packings=((right.read, packing),) if packed else (),
    )


def _left_matrix(matmul: Matmul, left: numpy.ndarray) -> numpy.ndarray | None:
    """The left operand as [..., M, K]; None without strides for that."""
    a = left.reshape(1, -1) if left.ndim == 1 else left
    a = a.swapaxes(-1, -2) if matmul.transposed[0] else a
    return reshaped(a, (matmul.rows, matmul.depth)) if matmul.shared else a


def _right_view(matmul: Matmul, right: numpy.ndarray) -> numpy.ndarray:
    """The right operand as [..., K, N]."""
    b = right.reshape(-1, 1) if right.ndim == 1 else right
    return b.swapaxes(-1, -2) if matmul.transposed[1] else b


def is_stored_by_column(matmul: Matmul, right: Operand) -> bool:
    """Whether the right matrix is contiguous along k, and not along its columns."""
    down, along = _right_view(matmul, right.view).strides[-2:]
    return down == 1 and along != 1


def _right_matrix(matrix: numpy.ndarray, right: Operand, few: bool) -> tuple[str, Form | None, int]:
    """The packing of the right matrix if it is constant, its form, and its row stride."""
    down, along = matrix.strides[-2:]
    depth, columns = matrix.shape[-2:]
    flipped = down == 1 and along != 1
    if right.constant and matrix.ndim == 2 and right.view.ndim <= 2:
        if few:
            flip = f"reshape:{columns},{depth}|transpose:1,0"
            return (flip if flipped else ""), Form.LINES, columns
        shape = [f"reshape:{columns},{depth}"] if flipped else [f"reshape:{depth},{columns}"]
        steps = shape if flipped else [*shape, "transpose:1,0"]
        extra = -depth % right.chunk
        steps += [f"pad:0,{extra}"] if extra else []
        return "|".join(steps), Form.ROWS, depth + extra
    if along == 1 or (columns == 1 and not flipped):
        return "", Form.LINES, down
    return ("", Form.ROWS, along) if down == 1 else ("", None, 0)


def _batch_offset(matrix: numpy.ndarray, batch: Sequence[int]) -> str:
    """The offset of an operand's matrix in problem z; axes of one element broadcast."""
    terms: list[str] = []
    lead = matrix.ndim - 2 if batch else 0
    for axis in range(lead):
        if matrix.shape[axis] > 1:
            place = len(batch) - lead + axis
            index = f"z / {prod(batch[place + 1 :])} % {batch[place]}"
            terms.append(f"(int64_t)({index}) * {matrix.strides[axis]}")
    return " + ".join(terms) or "0"
