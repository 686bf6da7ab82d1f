"""Choosing register tiles and blocks: candidate lists and cost functions on plain numbers.

Costs count issue slots of one core: a multiply-add of a vector takes one, a load of an aligned
vector or of a scalar half of one, and a vector that crosses cache lines one more half. They rank
candidates; they do not predict times. The candidate lists are what a tuner would measure.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from compiler.analysis.convolution import Convolution

SCRATCH_BYTES = 12 << 10
"""Most bytes of the stack tile between the sums and the epilogue."""

BLOCK_SLOTS = 100_000
"""Issue slots that one block should have at least, 30 us or so."""

MAX_BLOCKS = 32
"""Most blocks of one launch of a convolution or matrix product."""

STORE_SLOTS = 4
"""Slots that one vector of results costs after the reduction, besides its epilogue."""


@dataclass(frozen=True, slots=True)
class Registers:
    """Vector registers of a target: how many, and float32 lanes in each."""

    count: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile of `rows` x `vectors`; `steps` tiles make a chunk of `span` rows."""

    rows: int
    vectors: int
    steps: int = 1
    span: int = 1


def registers_of(vector_bytes: int) -> Registers:
    """The registers of an x86 or Arm target by the width of its vectors."""
    return Registers(32 if vector_bytes == 64 else 16, max(1, vector_bytes // 4))


@cache
def register_tiles(registers: Registers) -> tuple[tuple[int, int], ...]:
    """The (rows, vectors) whose sums and operands fit the registers."""
    return tuple(
        (rows, vectors)
        for rows in range(1, registers.count)
        for vectors in range(1, registers.count)
        if rows * vectors + min(rows, vectors) + 1 <= registers.count
    )


def step_slots(rows: int, vectors: int, crossing: bool) -> float:
    """Slots of one reduction step of a register tile: arithmetic or loads, whichever is more."""
    loads = 0.5 * rows + (1.5 if crossing else 1.0) * vectors
    return max(rows * vectors, loads, 4.0) + 0.5


def ceil_div(a: int, b: int) -> int:
    """The quotient rounded up."""
    return -(-a // b)


def flat_tile(conv: Convolution, registers: Registers) -> tuple[Tile, float]:
    """The tile of a pointwise convolution over positions of the image, and its slots a group."""
    positions = conv.output[0] * conv.output[1]
    depth = conv.channels

    def cost(rows: int, vectors: int) -> float:
        chunk = vectors * registers.lanes
        whole, rest = divmod(positions, chunk)
        total = whole * (depth * step_slots(rows, vectors, True) + rows * vectors * STORE_SLOTS)
        if rest:
            tail = ceil_div(rest, registers.lanes)
            total += depth * step_slots(rows, tail, True) + rows * tail * STORE_SLOTS
        return total * ceil_div(conv.filters, rows)

    best = min(register_tiles(registers), key=lambda t: cost(*t))
    return Tile(*best), cost(*best)


def image_tile(conv: Convolution, registers: Registers) -> tuple[Tile, float]:
    """The tile of a convolution with lanes along the rows of its planes, and its slots a group."""
    depth = conv.channels * conv.kernel[0] * conv.kernel[1]

    def cost(tile: Tile) -> float:
        step = depth * step_slots(tile.rows, tile.vectors, True)
        store = tile.rows * tile.vectors * STORE_SLOTS
        tiles = ceil_div(conv.output[0], tile.span) * tile.steps * ceil_div(conv.filters, tile.rows)
        return tiles * (step + store)

    best = min(_image_candidates(conv, registers), key=cost)
    return best, cost(best)


def _image_candidates(conv: Convolution, registers: Registers) -> Iterator[Tile]:
    height, width = conv.output
    pitch = conv.planes.pitch
    for rows, vectors in register_tiles(registers):
        if rows > conv.filters and rows > 1:
            continue
        for span in range(1, height + 1):
            covered = (span - 1) * pitch + width
            steps = ceil_div(covered, vectors * registers.lanes)
            if rows * steps * vectors * registers.lanes * 4 > SCRATCH_BYTES and span > 1:
                break
            yield Tile(rows, vectors, steps, span)


def channel_tile(
    conv: Convolution, registers: Registers, positions: int
) -> tuple[Tile, float]:
    """The tile with lanes along output channels, for lines of `positions`; and its slots a group."""
    depth = conv.channels * conv.kernel[0] * conv.kernel[1]
    lines = conv.output[0] * conv.output[1] // positions
    lanes = registers.lanes

    def cost(rows: int, vectors: int) -> float:
        tiles = lines * ceil_div(positions, rows) * ceil_div(conv.filters, vectors * lanes)
        store = rows * vectors * (STORE_SLOTS + lanes)
        return tiles * (depth * step_slots(rows, vectors, False) + store)

    candidates = [t for t in register_tiles(registers) if t[0] <= positions]
    best = min(candidates, key=lambda t: cost(*t))
    return Tile(*best), cost(*best)


def product_tile(
    rows: int, columns: int, depth: int, registers: Registers, packed: bool
) -> tuple[Tile, float]:
    """The tile of a matrix product, and its slots a batch."""
    lanes = registers.lanes

    def cost(height: int, vectors: int) -> float:
        whole, rest = divmod(rows, height)
        panels = ceil_div(columns, vectors * lanes)
        slots = whole * (depth * step_slots(height, vectors, not packed))
        if rest:
            slots += depth * step_slots(rest, vectors, not packed)
        return panels * (slots + rows * vectors * STORE_SLOTS)

    candidates = [t for t in register_tiles(registers) if t[0] <= rows]
    best = min(candidates, key=lambda t: cost(*t))
    return Tile(*best), cost(*best)


def split_blocks(slots: float, *extents: int) -> tuple[int, ...]:
    """How many blocks to make along each extent, outermost first."""
    wanted = max(1, min(MAX_BLOCKS, round(slots / BLOCK_SLOTS)))
    result: list[int] = []
    for extent in extents:
        runs = ceil_div(extent, ceil_div(extent, min(extent, wanted)))
        result.append(runs)
        wanted = ceil_div(wanted, runs)
    return tuple(result)
