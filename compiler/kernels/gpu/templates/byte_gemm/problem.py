"""GEMMs of bytes: what a problem of bytes has besides the fields of any GEMM."""

from dataclasses import dataclass

from compiler.kernels.gpu.templates.gemm.problem import Problem

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
