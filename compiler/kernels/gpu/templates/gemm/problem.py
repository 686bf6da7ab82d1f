"""GEMMs and implicit GEMMs as one problem: C[m][n] = sum of A[m][k] B[k][n] over k."""

from dataclasses import dataclass
from enum import IntEnum

from compiler.kernels.gpu.operands import ELEMENT_BYTES
from compiler.tensors.extents import Extent

Triple = tuple[int, int, int]


STEP_BYTES = 128
"""Bytes of a row of A in one k-step."""


class Form(IntEnum):
    """The layout of B: contiguous in n, contiguous in k, or an NCHWc image."""

    LINES = 0
    ROWS = 1
    BLOCKS = 2


@dataclass(frozen=True)
class Gather:
    """The im2col mapping of B; a matrix is an image with one tap whose pixels are its columns.

    `row` is the number of k of one tap, where taps are outermost in k.
    """

    channels: int
    pixels: int
    image: int
    plane: int
    taps: int = 1
    row: int = 0
    tap_major: bool = True
    source: Triple = (1, 1, 1)
    result: Triple = (1, 1, 1)
    window: Triple = (1, 1, 1)
    strides: Triple = (1, 1, 1)
    pads: Triple = (0, 0, 0)
    dilations: Triple = (1, 1, 1)
    transposed: bool = False

    def contiguous(self, chunk: int) -> bool:
        """Whether the columns of every aligned chunk are contiguous and aligned in memory."""
        plain = self.taps == 1 and not self.transposed and self.strides == (1, 1, 1)
        whole = self.pixels % chunk == 0 and self.plane % chunk == 0 and self.image % chunk == 0
        return plain and self.pads == (0, 0, 0) and whole


@dataclass(frozen=True)
class Problem:
    """`count` GEMMs of one shape; `left` and `right` are the reads that hold A and B.

    A's rows begin `a_row` elements apart, B's `b_row` where it has the form ROWS. The offsets are C
    expressions of the batch index z; `result_index` is the (outer, row, column) of an element, C
    expressions of z, m and n. `block` is the channel block of an NCHWc result, `vector` the columns
    that a thread stores at once of a row-major one. `prefetched` counts the elementwise and the
    broadcast operands of the epilogue that are prefetched; if `late`, after the main loop. `merged`
    is the number of groups of a convolution that are computed as one, with zeros in A outside its
    diagonal blocks. With `rows` a run decides the number of rows, an extent, of the only GEMM, and
    `m` is that of the example.
    """

    m: int
    n: int
    k: int
    count: int
    dtype: str
    form: Form
    a_row: int
    b_row: int
    left: int
    right: int
    gather: Gather
    a_offset: str
    b_offset: str
    result_index: tuple[str, str, str]
    packings: tuple[tuple[int, str], ...] = ()
    block: int = 0
    prefetched: tuple[int, int] = (0, 0)
    vector: int = 0
    late: bool = False
    merged: int = 1
    rows: Extent | None = None

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of A and B."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def chunk(self) -> int:
        """Elements in 16 bytes."""
        return 16 // self.element_bytes

    @property
    def step(self) -> int:
        """The k of a k-step."""
        return STEP_BYTES // self.element_bytes

    @property
    def width(self) -> int:
        """How many results a thread stores as one vector; 0 where it stores single ones."""
        return self.block or self.vector

    def total(self, value: str) -> str:
        """A sum as the epilogue takes it, a C expression: sums of integers are bits of an int32."""
        return f"__float_as_int({value})" if self.dtype == "int8" else value

    @property
    def contiguous(self) -> bool:
        """Whether a row of B along n is copied 16 bytes at a time."""
        return self.gather.contiguous(self.chunk)

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the operator, padding not counted."""
        return self.count * self.m * self.n * self.k // self.merged
