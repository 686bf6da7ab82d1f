"""Choosing register tiles and blocks: candidate lists and cost functions on plain numbers.

Costs count issue slots of one core: a multiply-add of a vector takes one, loads what the core's
`Loads` say. They rank candidates; where a model is tuned, the first of a ranking are measured.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.core import Core

SCRATCH_BYTES = 12 << 10
"""Most bytes of the stack tile between the sums and the epilogue."""

BLOCK_SLOTS = 100_000
"""Issue slots that one block should have at least, 12 us or so."""

MAX_BLOCKS = 32
"""Most blocks of one launch of a convolution or matmul."""

STREAM_ROWS = 16
"""The most rows of A whose time is that of reading a large B."""

STREAM_BYTES = 128 << 10
"""Bytes of B that a block of few rows should read at least, 1 us or so: cores that share a small
matmul which is repeated, as in a recurrence, have its B in their own caches."""

TEAMS, MOST_IDLE = (2, 4), 1.15
"""The numbers of cores that should be able to share panels evenly, and the most time that they may
take for that, as a part of what panels without an end would."""

SUM_SHARE = 0.82
"""The share of the registers that may hold sums: LLVM needs some for itself."""

EXPOSED_SHARE = 0.1
"""The share of loads that no arithmetic covers."""

FAR_SHARE = 0.5
"""The share of a line's way out of the second-level cache that no arithmetic covers where every
line is read at its own place, not one after another."""

MOST_ROWS = 14
"""Most rows of A in a register tile: their lines may fall in one set of the first-level cache."""

APART_SLOTS = 0.1
"""Slots of each row of A besides its load: rows are apart, in separate memory pages."""


SIZE_SHARES = (2, 3, 4, 6, 9)
"""The quarters of the example's positions for which a tile over symbols is judged."""

SLOTS_PER_NANOSECOND = 8
"""About the issue slots of a core in a nanosecond, at two in a cycle."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Slots that results cost after the reduction: each vector, each row of a register tile, and
    each lane where lanes are channels, whose results are apart."""

    vector: float
    row: float
    lane: float


FLOAT_STORES = Stores(vector=2, row=0, lane=1.5)

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
def register_tiles(core: Core, kept_rows: bool = False) -> tuple[tuple[int, int], ...]:
    """The (rows, vectors) whose sums and operands fit the registers.

    `kept_rows` leaves a register for every row, as LLVM keeps the scalars that neighbouring
    kernel taps have in common.
    """
    tiles: list[tuple[int, int]] = []
    for rows in range(1, core.registers):
        for vectors in range(1, core.registers):
            held = min(rows, vectors) + 1
            if kept_rows:
                held = max(held, rows + (vectors if vectors <= rows else 1))
            sums = rows * vectors
            if sums + held < core.registers and sums <= core.registers * SUM_SHARE:
                tiles.append((rows, vectors))
    return tuple(tiles)


def step_slots(core: Core, rows: int, vectors: int, vector_slots: float) -> float:
    """Slots of one reduction step of a register tile: arithmetic or loads, whichever is more."""
    loads = core.loads.scalar * rows + vector_slots * vectors
    return max(rows * vectors, loads, core.loads.latency) + EXPOSED_SHARE * loads


def image_step_slots(
    conv: Convolution, core: Core, rows: int, vectors: int, read_bytes: int
) -> float:
    """Slots that a tile with lanes along the image takes a summand, all kernel taps together.

    Tiles of output channels read the same `read_bytes` of the image again and again. Neighbouring
    taps of a kernel's row read the same lines.
    """
    taps = prod(conv.kernel)
    phases = len(conv.planes.column_phases)
    lines = conv.kernel[0] * phases * vectors if read_bytes > core.near_bytes else 0
    loads = taps * (core.loads.scalar * rows + core.crossing * vectors)
    all_loads = loads + FAR_SHARE * core.far * lines
    arithmetic = taps * max(rows * vectors, core.loads.latency)
    return max(arithmetic, all_loads) + EXPOSED_SHARE * loads


PricedTile = tuple[Tile, float]
"""A tile, and its slots a group or a batch."""


def ranked(candidates: Iterable[Tile], cost: Callable[[Tile], float]) -> list[PricedTile]:
    """Tiles of different registers, each as it costs least, the least first and of equals as given.

    Of tiles of the same registers the first of the least cost is taken.
    """
    best: dict[tuple[int, int], PricedTile] = {}
    for tile in candidates:
        slots = cost(tile)
        registers = (tile.rows, tile.vectors)
        if registers not in best or slots < best[registers][1]:
            best[registers] = tile, slots
    return sorted(best.values(), key=lambda priced: priced[1])


def flat_tiles(
    conv: Convolution, core: Core, stores: Stores = FLOAT_STORES, panels: bool = False
) -> list[PricedTile]:
    """The tiles of a pointwise convolution over positions of the image, and their slots a group.

    With `panels` a tile's positions of all channels are together in memory.
    """
    positions = conv.output[0] * conv.output[1]

    def tile_cost(rows: int, vectors: int) -> float:
        read_bytes = conv.summands * vectors * core.lanes * 4
        if panels:
            step = step_slots(core, rows, vectors, core.streamed(read_bytes))
        else:
            step = image_step_slots(conv, core, rows, vectors, read_bytes)
        return conv.summands * step + rows * (vectors * stores.vector + stores.row)

    def cost(tile: Tile) -> float:
        whole, rest = divmod(positions, tile.vectors * core.lanes)
        total = whole * tile_cost(tile.rows, tile.vectors) if whole else 0
        if rest:
            total += tile_cost(tile.rows, ceil_div(rest, core.lanes))
        return total * ceil_div(conv.filters, tile.rows)

    return ranked((Tile(*t) for t in register_tiles(core)), cost)


def image_tiles(conv: Convolution, core: Core, stores: Stores = FLOAT_STORES) -> list[PricedTile]:
    """The tiles with lanes along the rows of a convolution's planes, and their slots a group."""

    def cost(tile: Tile) -> float:
        run = tile.steps * tile.vectors * core.lanes
        parts = ceil_div(conv.output[1], run) if tile.span == 1 else 1
        rows = conv.kernel[0] - 1
        own = (tile.span + rows) * conv.planes.pitch if parts == 1 else (1 + rows) * run
        read_bytes = conv.summands * (own * len(conv.planes.column_phases)) * 4
        step = image_step_slots(conv, core, tile.rows, tile.vectors, read_bytes)
        store = tile.rows * (tile.vectors * stores.vector + stores.row)
        chunks = ceil_div(conv.output[0], tile.span) * parts
        tiles = chunks * tile.steps * ceil_div(conv.filters, tile.rows)
        return tiles * (conv.summands * step + store)

    return ranked(_image_candidates(conv, core), cost)


def _image_candidates(conv: Convolution, core: Core) -> Iterator[Tile]:
    height, width = conv.output
    pitch = conv.planes.pitch
    for rows, vectors in register_tiles(core):
        if rows > conv.filters and rows > 1:
            continue
        for span in range(1, height + 1):
            covered = (span - 1) * pitch + width
            steps = ceil_div(covered, vectors * core.lanes)
            most = SCRATCH_BYTES // (rows * vectors * core.lanes * 4)
            if steps > most and span > 1:
                break
            parts = ceil_div(steps, most)
            yield Tile(rows, vectors, ceil_div(steps, parts), span)


def sized_tiles(conv: Convolution, core: Core, stores: Stores = FLOAT_STORES) -> list[PricedTile]:
    """The tiles over positions of planes of sizes that a run decides, and their slots a group.

    They are judged for several sizes about the example's.
    """
    pitch = conv.planes.pitch
    lines = ceil_div((conv.output[0] - 1) * pitch + conv.output[1], core.lanes)
    samples = [max(1, lines * share // 4) for share in SIZE_SHARES]

    def tile_cost(rows: int, vectors: int) -> float:
        read_bytes = conv.summands * vectors * core.lanes * 4 * conv.kernel[0]
        step = image_step_slots(conv, core, rows, vectors, read_bytes)
        return conv.summands * step + rows * (vectors * stores.vector + stores.row)

    def cost(tile: Tile) -> float:
        total = 0.0
        for sample in samples:
            whole, rest = divmod(sample, tile.vectors)
            own = whole * tile_cost(tile.rows, tile.vectors)
            own += tile_cost(tile.rows, rest) if rest else 0
            total += own * lines / sample
        return total / len(samples) * ceil_div(conv.filters, tile.rows)

    rows = conv.filters if conv.filters > 1 else 1
    return ranked((Tile(*t) for t in register_tiles(core) if t[0] <= rows), cost)


def row_tiles(conv: Convolution, core: Core, stores: Stores = FLOAT_STORES) -> list[PricedTile]:
    """The tiles of several rows of one channel's result, and their slots a channel.

    A vector of the image is loaded once for the rows that it is multiplied for.
    """
    (height, width), (taps, columns) = conv.output, conv.kernel
    phases = len(conv.planes.row_phases)
    reach = (taps - 1) * conv.dilations[0] // conv.strides[0]

    def cost(tile: Tile) -> float:
        rows, vectors = tile.rows, tile.vectors
        reads = min(rows * taps, phases * (rows + reach))
        loads = reads * vectors * core.crossing + rows * taps * core.loads.scalar
        steps = columns * (max(rows * taps * vectors, loads) + EXPOSED_SHARE * loads)
        chunks = ceil_div(height, rows) * ceil_div(width, vectors * core.lanes)
        return chunks * (steps + rows * (vectors * stores.vector + stores.row))

    most = ceil_div(width, core.lanes)
    tiles = (Tile(*t) for t in register_tiles(core) if t[1] <= most and 1 < t[0] <= height)
    return ranked(tiles, cost)


def channel_tiles(
    conv: Convolution, core: Core, positions: int, stores: Stores = FLOAT_STORES
) -> list[PricedTile]:
    """The tiles with lanes along output channels, and their slots a group.

    Lines have `positions`.
    """
    depth = conv.summands * prod(conv.kernel)
    lines = prod(conv.output) // positions
    lanes = core.lanes
    load = core.streamed(depth * conv.filters * 4)

    def cost(tile: Tile) -> float:
        rows, vectors = tile.rows, tile.vectors
        whole, rest = divmod(positions, rows)
        slots = whole * depth * step_slots(core, rows, vectors, load)
        if rest:
            slots += depth * step_slots(core, rest, vectors, load)
        store = positions * vectors * (stores.vector + stores.lane * lanes)
        return lines * ceil_div(conv.filters, vectors * lanes) * (slots + store)

    tiles = register_tiles(core, kept_rows=conv.kernel[1] > 1)
    return ranked((Tile(*t) for t in tiles if t[0] <= positions), cost)


def matmul_tiles(rows: int, columns: int, depth: int, core: Core, packed: bool) -> list[PricedTile]:
    """The tiles of a matmul, and their slots a batch."""
    lanes = core.lanes
    in_place = core.crossing if columns % lanes else core.loads.vector

    def cost(tile: Tile) -> float:
        height, vectors = tile.rows, tile.vectors
        whole, rest = divmod(rows, height)
        panels = ceil_div(columns, vectors * lanes)
        load = core.streamed(depth * vectors * lanes * 4)
        load = load if packed else max(load, in_place)
        steps = whole * step_slots(core, height, vectors, load) + APART_SLOTS * rows
        if rest:
            steps += step_slots(core, rest, vectors, load)
        return panels * (depth * steps + rows * vectors * FLOAT_STORES.vector)

    tiles = register_tiles(core)
    return ranked((Tile(*t) for t in tiles if t[0] <= min(rows, MOST_ROWS)), cost)


def near(size: int, i: int) -> int:
    """A sample of the sizes about an example's."""
    return size // 2 + 1 + i * size // 4 + i


def sampled(tiles: list[PricedTile], samples: Iterable[list[PricedTile]]) -> list[PricedTile]:
    """Tiles over symbols by their slots for several sizes about the example's, the fastest first:
    not those that happen to divide it. Those of each sample are in order."""
    share = dict[Tile, float]()
    count = 0
    for own in samples:
        count += 1
        for tile, slots in own:
            share[tile] = share.get(tile, 0) + slots / own[0][1]
    least = min(slots for _, slots in tiles) / count
    known = [(tile, share[tile] * least) for tile, _ in tiles if tile in share]
    return sorted(known, key=lambda priced: priced[1])


def shareable_tiles(ways: list[PricedTile], columns: int, core: Core) -> list[PricedTile]:
    """The tiles of whose panels teams of cores get about the same number, all if there are none."""

    def idle(tile: Tile) -> float:
        panels = ceil_div(columns, tile.vectors * core.lanes)
        return max(ceil_div(panels, team) * team / panels for team in TEAMS)

    return [way for way in ways if idle(way[0]) <= MOST_IDLE] or ways


def streamed_slots(rows: int, right_bytes: int) -> float:
    """The slots by which a matmul of few rows is split into blocks, at least: they are small."""
    return BLOCK_SLOTS * right_bytes / STREAM_BYTES if rows <= STREAM_ROWS else 0


def split_blocks(slots: float, *extents: int) -> tuple[int, ...]:
    """How many blocks to make along each extent, outermost first."""
    wanted = max(1, min(MAX_BLOCKS, round(slots / BLOCK_SLOTS)))
    result: list[int] = []
    for extent in extents:
        runs = ceil_div(extent, ceil_div(extent, min(extent, wanted)))
        result.append(runs)
        wanted = ceil_div(wanted, runs)
    return tuple(result)
