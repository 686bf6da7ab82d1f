"""Convolutions and matrix products as one problem: C[m][n] = sum of A[m][k] B[k][n] over k."""

from dataclasses import dataclass
from enum import IntEnum

from compiler.kernels.gpu.operands import ELEMENT_BYTES

Triple = tuple[int, int, int]


STEP_BYTES = 128
"""Bytes along k that one step of a tile copies of each row of A."""


class Form(IntEnum):
    """How B lies in memory: contiguous in n, contiguous in k, or an image in channel blocks."""

    LINES = 0
    ROWS = 1
    BLOCKS = 2


@dataclass(frozen=True)
class Gather:
    """How B is read: a matrix is an image of one tap whose pixels are its columns.

    `row` is the number of k that one tap takes, when taps come outermost.
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
        """Whether columns at a multiple of a chunk lie beside each other in aligned memory."""
        plain = self.taps == 1 and not self.transposed and self.strides == (1, 1, 1)
        whole = self.pixels % chunk == 0 and self.plane % chunk == 0 and self.image % chunk == 0
        return plain and self.pads == (0, 0, 0) and whole


@dataclass(frozen=True)
class Problem:
    """`count` problems of one shape; `left` and `right` are the reads that hold A and B.

    A's rows begin `a_row` elements apart, B's `b_row` where it has the form ROWS. The offsets are C
    expressions of the problem's number z, the place (outer, row, column) of an element C
    expressions of z, m and n. `block` is how many rows lie together in the result, `vector` how
    many columns a thread stores together of a row-major one. `fetches` counts what the results
    depend on and is copied beforehand: blocks of their place, and of their row or column; `late`,
    where the stages lay, when these are done. `merged` is how many groups of a convolution are one,
    whose A has zeros beside their weights.
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
    place: tuple[str, str, str]
    packings: tuple[tuple[int, str], ...] = ()
    block: int = 0
    prefetched: tuple[int, int] = (0, 0)
    vector: int = 0
    late: bool = False
    merged: int = 1

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
        """Products of each element in one step of a tile."""
        return STEP_BYTES // self.element_bytes

    @property
    def width(self) -> int:
        """How many results a thread stores at once; 0 where they are single."""
        return self.block or self.vector

    @property
    def contiguous(self) -> bool:
        """Whether a line of B is copied 16 bytes at a time."""
        return self.gather.contiguous(self.chunk)

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the operator, padding left out of account."""
        return self.count * self.m * self.n * self.k // self.merged
