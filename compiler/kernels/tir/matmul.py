"""The matmul that a Gemm or MatMul of a group computes, also one of bytes or of four bits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import tirx

from compiler.kernels.group import Group, Node
from compiler.kernels.ops.common import multiply
from compiler.kernels.sizes import at_hint
from compiler.kernels.tir.fusion import FusionContext
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS


@dataclass(frozen=True)
class Matmul:
    """A batched matmul: `left` and `right` are the operands' shapes as ONNX gives them.

    With `adds` the third operand is added, times the second factor.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    output: tuple[int, ...]
    transposed: tuple[bool, bool] = (False, False)
    factors: tuple[float, float] = (1.0, 1.0)
    adds: bool = False

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
        """The extents over which separate matmuls run."""
        matrix = (len(self.left) > 1) + (len(self.right) > 1)
        return () if self.shared else self.output[: len(self.output) - matrix]

    @property
    def multiplications(self) -> int:
        """Multiply-adds of all batches."""
        return prod(self.batch) * self.rows * self.columns * self.depth

    @property
    def example(self) -> "Matmul":
        """The matmul for the example sizes, for costs."""
        left, right, output = (
            tuple(map(at_hint, shape)) for shape in (self.left, self.right, self.output)
        )
        return replace(self, left=left, right=right, output=output)


def gemm_result(around: FusionContext, matmul: Matmul, total: Any, at: Sequence[Any]) -> Any:
    """An element of a Gemm's result: a sum times alpha, and operand C times beta."""
    alpha, beta = (tirx.const(factor, "float32") for factor in matmul.factors)
    value = total if matmul.factors[0] == 1 else multiply(total, alpha)
    addend = around.broadcast(2, at) if matmul.adds and around.dtype == "float32" else None
    if addend is None:
        return value
    return value + (addend if matmul.factors[1] == 1 else multiply(addend, beta))


def read_matmul(group: Group, anchor: Node[int]) -> Matmul | None:
    """The matmul of an operator on floats or bytes; None if there is nothing to multiply."""
    values = [group.values[i] for i in (*anchor.inputs, *anchor.outputs) if i is not None]
    floats = anchor.type in FLOAT_CONTRACTIONS
    if any(v.elements == 0 or (v.dtype != "float32" and floats) for v in values):
        return None
    left, right = (group.values[anchor.operand(i)].shape for i in range(2))
    output = group.values[anchor.output].shape
    if anchor.type == "MatMulNBits":
        return Matmul(left, (anchor.attributes["K"], anchor.attributes["N"]), output)
    if anchor.type != "Gemm":
        return Matmul(left, right, output)
    full = anchor.attributes
    transposed = (bool(full["transA"]), bool(full["transB"]))
    factors = (full["alpha"], full["beta"])
    return Matmul(left, right, output, transposed, factors, adds=True)
