"""The GEMM that a matmul by packed weights of four bits is, and its operands."""

from dataclasses import dataclass
from math import prod

from compiler.graph.fusion.channels_last import reshaped
from compiler.kernels.gpu.operands import Operand, find_operand
from compiler.kernels.gpu.templates.gemm.problem import Form, Gather, Problem
from compiler.kernels.group import Group, Node


@dataclass(frozen=True)
class FourBitOperands:
    """A matmul as a GEMM, the size of blocks, and the type of zero points, if it has any.

    `reads` are A, weights, scales and zero points; `packings` are not chosen yet.
    """

    gemm: Problem
    block: int
    reads: tuple[int, ...]
    zero_type: str


def four_bit_anchor(group: Group) -> Node[int] | None:
    """The only matmul by weights of four bits of a group."""
    return group.only("MatMulNBits")


def read_four_bits(group: Group, anchor: Node[int], most_rows: int) -> FourBitOperands | None:
    """The operands of a matmul; None with more rows or where weights are not constant."""
    left = find_operand(group, anchor.inputs[0])
    reads = [i for i in anchor.inputs[1:] if i is not None]
    if left is None or left.block or not all(group.is_packable(i) for i in reads):
        return None
    depth, columns = anchor.attributes["K"], anchor.attributes["N"]
    rows = prod(group.values[anchor.output].shape[:-1])
    matrix = reshaped(left.view, (rows, depth))
    floats = all(group.values[i].dtype == "float32" for i in (anchor.operand(0), reads[1]))
    if not floats or matrix is None or not 0 < rows <= most_rows:
        return None
    if matrix.strides[1] != 1 and depth > 1:
        return None
    gemm = _gemm(left, (rows, columns, depth), matrix.strides[0], reads[0])
    zero_type = group.values[reads[2]].dtype if len(reads) > 2 else ""
    return FourBitOperands(gemm, anchor.attributes["block_size"], (left.read, *reads), zero_type)


def _gemm(left: Operand, sizes: tuple[int, int, int], row: int, right: int) -> Problem:
    m, n, k = sizes
    return Problem(
        m=m,
        n=n,
        k=k,
        count=1,
        dtype=left.dtype,
        form=Form.ROWS,
        a_row=row,
        b_row=k,
        left=left.read,
        right=right,
        gather=Gather(k, n, 0, n, row=k, source=(1, 1, n), result=(1, 1, n)),
        a_offset="0",
        b_offset="0",
        result_index=("z", "m", "n"),
    )
