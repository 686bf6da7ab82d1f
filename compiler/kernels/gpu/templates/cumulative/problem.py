"""Reading running sums from groups, and how blocks share their rows."""

from dataclasses import dataclass
from math import isqrt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.rows import AxisRows, rows_along
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

WARP = 32
"""Rows side by side that a block has: their elements at a step make a load of a warp."""

WAVES = 2
"""Blocks for each SM, where rows are divided into chunks."""


@dataclass(frozen=True)
class Config:
    """Threads of a block, and elements of each at a time."""

    threads: int
    items: int

    @property
    def tile(self) -> int:
        """Elements of a block at a time."""
        return self.threads * self.items


@dataclass(frozen=True)
class Problem(AxisRows):
    """Running sums of each row."""

    operator: Node
    dtype: str

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.rows * self.length * ELEMENT_BYTES[self.dtype]

    def division(self, config: Config, target: GpuTarget) -> "Division":
        """How blocks share the rows: several short ones, or rows side by side.

        A block reads the sums of the chunks before its own: there are not more of them than the
        root of the length, so that all read no more sums than elements.
        """
        short = config.tile // (1 << (self.length - 1).bit_length())
        beside = min(WARP, 1 << (self.inner - 1).bit_length())
        lanes = min(config.threads, max(beside, short))
        steps = config.tile // lanes
        blocks = ceil_div(self.rows, lanes)
        wanted = ceil_div(WAVES * target.device.sms, blocks)
        chunks = min(wanted, ceil_div(self.length, steps), isqrt(self.length))
        chunk = ceil_div(ceil_div(self.length, chunks), steps) * steps
        return Division(lanes, steps, chunk, ceil_div(self.length, chunk), blocks)


@dataclass(frozen=True)
class Division:
    """`blocks` have `lanes` rows each, of which they read `steps` elements at a time.

    Rows are divided into `chunks` of `chunk` elements: there is a block for each of them.
    """

    lanes: int
    steps: int
    chunk: int
    chunks: int
    blocks: int

    def work(self) -> int:
        """Elements that all blocks add, and sums of chunks that they read."""
        tiles = self.blocks * self.chunks * self.chunk * self.lanes
        return tiles * (2 if self.chunks > 1 else 1) + self.blocks * self.chunks**2 * self.lanes


def read_cumulative(group: Group) -> Problem | None:
    """The running sum that a group is, of a row-major tensor; None for any other group."""
    (anchor, *others) = group.operators
    if anchor.type != "CumSum" or others or anchor.operand(0) >= group.inputs:
        return None
    info = group.values[anchor.operand(0)]
    if not info.elements or info.block or group.writes[0].block:
        return None
    outer, length, inner = rows_along(info.shape, anchor.attributes["axis"])
    return Problem(outer=outer, length=length, inner=inner, operator=anchor, dtype=info.dtype)
