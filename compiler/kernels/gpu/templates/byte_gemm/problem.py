"""GEMMs of bytes: what a problem of bytes has besides the fields of any GEMM."""

from dataclasses import dataclass

from compiler.kernels.gpu.templates.gemm.problem import Problem


@dataclass(frozen=True, kw_only=True)
class ByteProblem(Problem):
    """A GEMM of bytes with one constant operand, the weights; its results are int32.

    `signed` says for A and B whether their bytes are; `zero_point` is that of the other operand.
    """

    signed: tuple[bool, bool]
    zero_point: int = 0

    @property
    def weights(self) -> int:
        """Which operand the weights are: 1 for A, 2 for B."""
        return 1 if self.packings[0][0] == self.left else 2

    @property
    def weight_bytes(self) -> int:
        """The bytes of the packed weights, before the sums of their rows."""
        return self.count * self.m * self.a_row if self.weights == 1 else self.n * self.b_row
