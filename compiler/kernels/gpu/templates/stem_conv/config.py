"""The configs of a stem convolution: the tiles of its blocks and warps."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.config import REGISTERS, RESERVED, WARPS
from compiler.kernels.gpu.templates.stem_conv.problem import Problem, Triple
from compiler.target.target import GpuTarget

ROWS, COLUMNS = (1, 2, 3, 4, 6, 8, 12, 16), (8, 16, 24, 32, 48, 64)
"""Rows and columns of a block tile."""

PIXELS, WIDTHS, SLICE = (16, 32, 48, 64), (16, 32, 48, 64, 96), 128
"""Pixels and channels of a warp tile, and most channels of a block tile."""

TURNS = (1, 2, 3, 4, 6, 8, 12)
"""How many tiles a block computes one after another."""

LEAST_THREADS, MOST_THREADS, MOST_SUMS = 64, 512, 128
"""Threads of a block, and accumulators of a thread."""

RESIDENT, LEAST_REGISTERS = 32, 88
"""Most resident blocks of an SM, and fewest registers of a thread."""


@dataclass(frozen=True)
class Config:
    """A block tile of `rows` x `columns` pixels, computed `turns` times.

    A warp tile has `pixels` pixels and `width` channels.
    """

    rows: int
    columns: int
    pixels: int
    width: int
    turns: int


def slice_of(problem: Problem, config: Config) -> int:
    """Channels of a block: those of as many warps as divide them evenly."""
    several = range(config.width, max(SLICE, config.width) + 1, config.width)
    return max(n for n in several if problem.channels % n == 0)


def threads_of(problem: Problem, config: Config) -> int:
    """Threads of a block."""
    pixels = config.rows * config.columns // config.pixels
    return 32 * pixels * (slice_of(problem, config) // config.width)


def tiles_of(problem: Problem, config: Config) -> int:
    """Tiles of pixels in all planes of results."""
    down, along = problem.result[-2:]
    return problem.images * ceil_div(down, config.rows) * ceil_div(along, config.columns)


def blocks_of(problem: Problem, config: Config) -> int:
    """Blocks of one slice of channels."""
    return ceil_div(tiles_of(problem, config), config.turns)


def halo_of(problem: Problem, config: Config) -> tuple[int, int]:
    """Rows and columns of a tile's halo, the tile included."""
    plane = problem.plane
    extents = (config.rows, config.columns)
    sizes = zip(extents, plane.strides, plane.kernel, plane.dilations, strict=True)
    rows, columns = ((n - 1) * s + (k - 1) * d + 1 for n, s, k, d in sizes)
    return rows, columns


def shared_bytes(problem: Problem, config: Config) -> int:
    """Bytes of shared memory of a block: its weights and the halo of its pixels."""
    rows, columns = halo_of(problem, config)
    words = problem.extents[0] * rows * pitch(problem, rows, columns)[0]
    return 4 * (slice_of(problem, config) * 8 * problem.steps + words)


@cache
def _spread(lanes: tuple[Triple, ...], stride: int, dilations: tuple[int, ...], rows: int,
            columns: int) -> tuple[int, int]:  # fmt: skip
    """The row pitch in words with the fewest bank conflicts, and the wavefronts of a load with it.

    `lanes` are the positions that the lanes of a quad read; eight quads read for adjacent pixels.
    """

    def wavefronts(words: int) -> int:
        down, along = dilations
        places = [(c * rows + i * down) * words + j * along for c, i, j in lanes]
        read = {pixel * stride + place for pixel in range(8) for place in places}
        banks = [place % 32 for place in read]
        return max(map(banks.count, banks))

    best = min(range(columns, columns + 32), key=lambda words: (wavefronts(words), words))
    return best, wavefronts(best)


def pitch(problem: Problem, rows: int, columns: int) -> tuple[int, int]:
    """The row pitch of the halo in words, and the wavefronts that a warp's load takes."""
    window = problem.plane
    lanes = tuple(map(problem.lane_place, range(4)))
    return _spread(lanes, window.strides[1], window.dilations, rows, columns)


def candidates(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The configs that fit a block's registers and shared memory, without idle turns."""
    count = target.device.sms
    room = target.shared_bytes - RESERVED
    for rows, columns, pixels, width in product(ROWS, COLUMNS, PIXELS, WIDTHS):
        config = Config(rows, columns, pixels, width, 1)
        if not _divides(problem, config) or shared_bytes(problem, config) > room:
            continue
        blocks = tiles_of(problem, config) * (problem.channels // slice_of(problem, config))
        for turns in TURNS:
            if turns == 1 or blocks >= turns * count:
                yield Config(rows, columns, pixels, width, turns)


def _divides(problem: Problem, config: Config) -> bool:
    """Whether warp tiles divide a block tile evenly, into whole rows or parts of one."""
    across, mine = config.columns // 8, config.pixels // 8
    even = (mine % across == 0 or across % mine == 0) and config.rows * across % mine == 0
    if not even or config.width % problem.quad_channels or problem.channels % config.width:
        return False
    threads = threads_of(problem, config)
    within = LEAST_THREADS <= threads <= MOST_THREADS
    wide = config.columns < problem.result[-1] + 8 and config.rows <= problem.result[-2]
    return within and (wide or config.rows == 1) and config.pixels * config.width <= 32 * MOST_SUMS


def resident_blocks(problem: Problem, config: Config, target: GpuTarget) -> int:
    """Blocks that should be resident on an SM, whose four partitions have as many warps each."""
    sums = config.pixels * config.width // 32
    threads = threads_of(problem, config)
    registers = max(LEAST_REGISTERS, sums + sums // 4 + config.pixels // 4 + 40)
    warps = min(WARPS, 4 * (REGISTERS // 128 // registers))
    shared = target.shared_bytes // (shared_bytes(problem, config) + RESERVED)
    return max(1, min(shared, 32 * warps // threads, RESIDENT))
