"""Choosing register tiles and blocks: candidate lists and cost functions on plain numbers.

Costs count issue slots of one core: a multiply-add of a vector takes one, loads as given below.
They rank candidates; on the machine of the benchmarks 3.75 slots pass in a nanosecond. Where a
model is tuned, the first of a ranking are measured.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.machine import Registers

SCRATCH_BYTES = 12 << 10
"""Most bytes of the stack tile between the sums and the epilogue."""

BLOCK_SLOTS = 100_000
"""Issue slots that one block should have at least, 30 us or so."""

MAX_BLOCKS = 32
"""Most blocks of one launch of a convolution or matmul."""

SUM_SHARE = 0.82
"""The share of the registers that may hold sums: LLVM needs some for itself."""

FIRST_CACHE_BYTES = 24 << 10
"""The part of the first-level cache that a panel may fill."""

PAGES_BYTES = 256 << 10
"""The bytes that the first level of the address cache covers."""

FAR_SLOTS = 4
"""Slots lost on every row of a channel when the channels are spread over more than that."""

SHORT_RUN_SLOTS = 320
"""Slots lost then besides, over the positions read in a row: short runs defeat prefetching."""

LONG_RUN = 256
"""Positions from which that does not matter."""

CROSSING_SLOTS = 1.5
"""Slots of loading one vector at any alignment from a plane in the first-level cache."""

MOST_ROWS = 14
"""Most rows of A in a register tile: their lines may fall in one set of the first-level cache."""


SLOTS_PER_NANOSECOND = 3.75
"""Issue slots of a core of the benchmarks' machine in a nanosecond."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Slots that results cost after the reduction: each vector, each row of a register tile, and
    each lane where lanes are channels, whose results are apart."""

    vector: int
    row: int
    lane: int


FLOAT_STORES = Stores(vector=4, row=0, lane=1)

BYTE_STORES = Stores(vector=8, row=6, lane=2)
"""The stores of sums that are scaled, rounded and clipped."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile of `rows` x `vectors`; `steps` tiles make a chunk of `span` rows.

    A chunk of one row may be a part of it.
    """

    rows: int
    vectors: int
    steps: int = 1
    span: int = 1


@cache
def register_tiles(registers: Registers, kept_rows: bool = False) -> tuple[tuple[int, int], ...]:
    """The (rows, vectors) whose sums and operands fit the registers.

    `kept_rows` leaves a register for every row, as LLVM keeps the scalars that neighbouring
    kernel taps have in common.
    """
    tiles: list[tuple[int, int]] = []
    for rows in range(1, registers.count):
        for vectors in range(1, registers.count):
            held = min(rows, vectors) + 1
            if kept_rows:
                held = max(held, rows + (vectors if vectors <= rows else 1))
            sums = rows * vectors
            if sums + held < registers.count and sums <= registers.count * SUM_SHARE:
                tiles.append((rows, vectors))
    return tuple(tiles)


def step_slots(rows: int, vectors: int, vector_slots: float) -> float:
    """Slots of one reduction step of a register tile: arithmetic or loads, whichever is more."""
    return max(rows * vectors, 0.5 * rows + vector_slots * vectors, 4.0) + 0.5


def streamed_slots(bytes: int) -> float:
    """Slots of loading one aligned vector of a panel of that size, read again and again."""
    return 1.0 if bytes <= FIRST_CACHE_BYTES else 2.7


def reduction_slots(
    conv: Convolution, rows: int, vectors: int, vector_slots: float, run: int
) -> float:
    """Slots of all steps of one register tile, which reads `run` positions of a row at a time."""
    far = conv.channels * conv.slices * conv.planes.plane * conv.planes.phases * 4 > PAGES_BYTES
    jumps = (FAR_SLOTS + SHORT_RUN_SLOTS / run) * conv.kernel[0] if far else 0
    taps = conv.kernel[0] * conv.kernel[1]
    return conv.summands * (taps * step_slots(rows, vectors, vector_slots) + jumps)


PricedTile = tuple[Tile, float]
"""A tile, and its slots a group or a batch."""


def ranked(candidates: Iterable[Tile], cost: Callable[[Tile], float]) -> list[PricedTile]:
    """Tiles of different registers, each as it costs least, the least first and of equals as given.

    Of tiles of the same registers the first of the least cost is taken.
    """
    best: dict[tuple[int, int], PricedTile] = {}
    for tile in candidates:
        slots, registers = cost(tile), (tile.rows, tile.vectors)
        if registers not in best or slots < best[registers][1]:
            best[registers] = tile, slots
    return sorted(best.values(), key=lambda priced: priced[1])


def flat_tiles(
    conv: Convolution, registers: Registers, stores: Stores = FLOAT_STORES, panels: bool = False
) -> list[PricedTile]:
    """The tiles of a pointwise convolution over positions of the image, and their slots a group.

    With `panels` a tile's positions of all channels are together in memory.
    """
    positions = conv.output[0] * conv.output[1]

    def tile_cost(rows: int, vectors: int) -> float:
        run = vectors * registers.lanes
        load = streamed_slots(conv.summands * run * 4)
        if panels:
            steps = conv.summands * step_slots(rows, vectors, load)
        else:
            steps = reduction_slots(conv, rows, vectors, max(CROSSING_SLOTS, load), run)
        return steps + rows * (vectors * stores.vector + stores.row)

    def cost(tile: Tile) -> float:
        whole, rest = divmod(positions, tile.vectors * registers.lanes)
        total = whole * tile_cost(tile.rows, tile.vectors) if whole else 0
        if rest:
            total += tile_cost(tile.rows, ceil_div(rest, registers.lanes))
        return total * ceil_div(conv.filters, tile.rows)

    return ranked((Tile(*t) for t in register_tiles(registers)), cost)


def image_tiles(
    conv: Convolution, registers: Registers, stores: Stores = FLOAT_STORES
) -> list[PricedTile]:
    """The tiles with lanes along the rows of a convolution's planes, and their slots a group."""

    def cost(tile: Tile) -> float:
        run = tile.vectors * registers.lanes
        step = reduction_slots(conv, tile.rows, tile.vectors, CROSSING_SLOTS, run)
        store = tile.rows * (tile.vectors * stores.vector + stores.row)
        parts = ceil_div(conv.output[1], tile.steps * run) if tile.span == 1 else 1
        chunks = ceil_div(conv.output[0], tile.span) * parts
        tiles = chunks * tile.steps * ceil_div(conv.filters, tile.rows)
        return tiles * (step + store)

    return ranked(_image_candidates(conv, registers), cost)


def _image_candidates(conv: Convolution, registers: Registers) -> Iterator[Tile]:
    height, width = conv.output
    pitch = conv.planes.pitch
    for rows, vectors in register_tiles(registers):
        if rows > conv.filters and rows > 1:
            continue
        for span in range(1, height + 1):
            covered = (span - 1) * pitch + width
            steps = ceil_div(covered, vectors * registers.lanes)
            most = SCRATCH_BYTES // (rows * vectors * registers.lanes * 4)
            if steps > most and span > 1:
                break
            parts = ceil_div(steps, most)
            yield Tile(rows, vectors, ceil_div(steps, parts), span)


def channel_tiles(
    conv: Convolution, registers: Registers, positions: int, stores: Stores = FLOAT_STORES
) -> list[PricedTile]:
    """The tiles with lanes along output channels, and their slots a group.

    Lines have `positions`.
    """
    depth = conv.summands * conv.kernel[0] * conv.kernel[1]
    lines = conv.output[0] * conv.output[1] // positions
    lanes = registers.lanes

    def cost(tile: Tile) -> float:
        rows, vectors = tile.rows, tile.vectors
        whole, rest = divmod(positions, rows)
        load = streamed_slots(depth * vectors * lanes * 4)
        slots = whole * reduction_slots(conv, rows, vectors, load, LONG_RUN)
        if rest:
            slots += reduction_slots(conv, rest, vectors, load, LONG_RUN)
        store = positions * vectors * (stores.vector + stores.lane * lanes)
        return lines * ceil_div(conv.filters, vectors * lanes) * (slots + store)

    tiles = register_tiles(registers, kept_rows=conv.kernel[1] > 1)
    return ranked((Tile(*t) for t in tiles if t[0] <= positions), cost)


def matmul_tiles(
    rows: int, columns: int, depth: int, registers: Registers, packed: bool
) -> list[PricedTile]:
    """The tiles of a matmul, and their slots a batch."""
    lanes = registers.lanes

    def cost(tile: Tile) -> float:
        height, vectors = tile.rows, tile.vectors
        whole, rest = divmod(rows, height)
        panels = ceil_div(columns, vectors * lanes)
        load = streamed_slots(depth * vectors * lanes * 4) if packed else CROSSING_SLOTS
        slots = whole * depth * step_slots(height, vectors, load)
        if rest:
            slots += depth * step_slots(rest, vectors, load)
        return panels * (slots + rows * vectors * FLOAT_STORES.vector)

    tiles = register_tiles(registers)
    return ranked((Tile(*t) for t in tiles if t[0] <= min(rows, MOST_ROWS)), cost)


def split_blocks(slots: float, *extents: int) -> tuple[int, ...]:
    """How many blocks to make along each extent, outermost first."""
    wanted = max(1, min(MAX_BLOCKS, round(slots / BLOCK_SLOTS)))
    result: list[int] = []
    for extent in extents:
        runs = ceil_div(extent, ceil_div(extent, min(extent, wanted)))
        result.append(runs)
        wanted = ceil_div(wanted, runs)
    return tuple(result)
