"""Reading TopK from groups, and the launches that sort tiles of its rows and merge them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div, round_up
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.rows import AxisRows, rows_along
from compiler.tensors.dtypes import ELEMENT_BYTES

ITEMS = 8
"""Entries of a thread."""

POSITION_BYTES = 4


@dataclass(frozen=True)
class Config:
    """Threads of a block, which sorts or writes `ITEMS` times as many entries: its tile."""

    threads: int

    @property
    def tile(self) -> int:
        """The entries of a block."""
        return self.threads * ITEMS


@dataclass(frozen=True)
class Sorting:
    """A launch that sorts the segments of rows of `length` places, and keeps the first of each.

    The first one reads the tensor, later ones read lists. The `segment` is a power of two.
    """

    length: int
    segment: int
    kept: int
    blocks: int

    @property
    def lists(self) -> int:
        """The segments of a row."""
        return ceil_div(self.length, self.segment)

    @property
    def stored(self) -> int:
        """The places of a row of the lists that it writes."""
        return self.lists * self.kept

    def steps(self, tile: int) -> int:
        """Entries that all blocks move: `ITEMS` times in registers, then once a merge."""
        return self.blocks * tile * (ITEMS + (self.segment // ITEMS).bit_length() - 1)


@dataclass(frozen=True)
class Merging:
    """A launch that merges pairs of lists of `width` places in rows of `length` places.

    Of each list the first `kept` are wanted at most.
    """

    length: int
    width: int
    kept: int
    blocks: int

    @property
    def stored(self) -> int:
        """The places of a row that it writes, some of which stay empty."""
        return self.length

    def steps(self, tile: int) -> int:
        """Entries moved by all blocks, and the comparisons of bisections."""
        own = 2 * tile + tile // ITEMS * tile.bit_length()
        return self.blocks * (own + 2 * self.width.bit_length())


@dataclass(frozen=True)
class Problem(AxisRows):
    """The first `count` elements of each row."""

    operator: Node
    dtype: str
    count: int
    largest: bool

    @property
    def entry_bytes(self) -> int:
        """The bytes of a key and a position: keys of fewer than 32 bits are widened."""
        return 16 if ELEMENT_BYTES[self.dtype] == 8 else 4 + POSITION_BYTES

    def launches(self, config: Config) -> Sequence[Sorting | Merging]:
        """The launches with a config.

        If at most half of a tile is wanted, the first of each tile become rows that are sorted
        again; else tiles are merged in pairs. Either takes O(n log n) steps for a row of n.
        """
        if self.length <= config.tile or 2 * self.count <= config.tile:
            return [*self._selections(config)]
        return [*self._merges(config)]

    def _selections(self, config: Config) -> Iterator[Sorting]:
        length = self.length
        while True:
            segment = min(config.tile, max(ITEMS, 1 << (length - 1).bit_length()))
            segments = self.rows * ceil_div(length, segment)
            blocks = ceil_div(segments * segment, config.tile)
            sorting = Sorting(length, segment, self.count, blocks)
            yield sorting
            if sorting.lists == 1:
                return
            length = sorting.stored

    def _merges(self, config: Config) -> Iterator[Sorting | Merging]:
        tile = config.tile
        length, kept = round_up(self.length, tile), round_up(self.count, tile)
        yield Sorting(self.length, tile, tile, self.rows * length // tile)
        width = tile
        while width < length:
            pairs = ceil_div(length, 2 * width)
            tiles = min(2 * min(width, kept), kept) // tile
            yield Merging(length, width, kept, self.rows * pairs * tiles)
            width *= 2

    def workspaces(self, config: Config) -> tuple[int, ...]:
        """The bytes of the lists that launches write in turns; the last one writes the results."""
        stored = [launch.stored for launch in self.launches(config)[:-1]]
        sizes = [max(own, default=0) for own in (stored[::2], stored[1::2])]
        return tuple(self.rows * size * self.entry_bytes for size in sizes if size)

    def steps(self, config: Config) -> int:
        """Entries moved and compared by all launches."""
        return sum(launch.steps(config.tile) for launch in self.launches(config))


def read_top_k(group: Group) -> Problem | None:
    """The TopK that a group is, along any axis of a row-major tensor; None for any other group."""
    (anchor, *others) = group.operators
    if anchor.type != "TopK" or others or anchor.operand(0) >= group.inputs:
        return None
    info = group.values[anchor.operand(0)]
    if any(tensor.block for tensor in (info, *group.writes)) or not group.writes[0].elements:
        return None
    axis: int = anchor.attributes["axis"]
    outer, length, inner = rows_along(info.shape, axis)
    return Problem(
        outer=outer,
        length=length,
        inner=inner,
        operator=anchor,
        dtype=info.dtype,
        count=group.writes[0].shape[axis],
        largest=bool(anchor.attributes["largest"]),
    )
