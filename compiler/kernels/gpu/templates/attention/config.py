"""The configs of fused attention: how warps divide its rows and keys."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.attention.problem import Problem
from compiler.kernels.gpu.templates.gemm.config import REGISTERS, RESERVED
from compiler.kernels.sizes import is_number
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget

MMA_SIZE = 16
"""Rows, and keys, of an MMA tile."""

WARPS = 8
"""Most warps of a block of one tile of rows; blocks of two tiles have half as many."""

FEWEST = 4
"""Fewest warps, even for fewer tiles of keys: all warps merge the partial results."""

MOST = 16
"""Most warps of a block with bands: more leave each thread too few registers."""

BANDS = (2, 4, 8)
"""Bands of a block where there are many rows."""

ROOM = 64
"""Largest head size of which registers hold two tiles."""

STAGED = (
    (2, 1, 4, 32), (1, 1, 4, 64), (1, 1, 8, 64), (1, 1, 4, 32), (1, 2, 4, 64), (1, 4, 2, 64),
    (1, 2, 4, 32), (1, 4, 4, 32), (1, 4, 2, 32), (2, 2, 4, 32),
)  # fmt: skip
"""Tiles, warps, most bands and keys per warp of staged blocks, the likeliest first."""

STAGED_ROWS, STAGED_KEYS = 3, 192
"""Tiles of rows per SM from which on staged blocks were faster; one is enough with more keys."""

OTHERS, MASKS = 40, 16
"""Registers of a thread of a staged block besides operands and accumulators, and for masks."""

MOST_REGISTERS, SPARE = 255, 23
"""Registers that a thread can have, and those left for what the estimate misses."""

FEW_BLOCKS = 2
"""The most staged blocks for each SM that are few."""

MOST_SPLITS = 8
"""Most blocks of a cluster without WGMMA: every device that has clusters starts as many."""

AHEAD = 2
"""Rounds of keys copied ahead where shared memory has no room for all keys."""

STAGED_BYTES = 72 << 10
"""Most shared memory of a block that keeps all keys, so that three are resident."""


@dataclass(frozen=True)
class Config:
    """Tiles of 16 rows of a band, the warps that divide the keys, and the bands of a block.

    The bands of a staged block read keys from shared memory, `staged` keys per warp and round. With
    `splits` these multiply by WGMMA, four bands each a warpgroup. As many blocks, a cluster, divide
    the keys, of blocks that are not staged with two splits and more.
    """

    tiles: int
    warps: int
    bands: int = 1
    staged: int = 0
    splits: int = 0

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return MMA_SIZE * self.tiles * self.bands

    @property
    def wgmma(self) -> bool:
        """Whether warpgroups multiply."""
        return self.staged > 0 and self.splits > 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps * self.bands

    @property
    def round(self) -> int:
        """Keys that a staged block copies per round."""
        return self.warps * self.staged


def likeliest(problem: Problem, target: GpuTarget) -> Config:
    """One tile of rows a block, two where that still gives every SM two blocks.

    With many rows, warps have different rows; they read keys from shared memory where they can, if
    there are many rows, or fewer rows and many keys. Where a run decides the keys, there are warps
    for more of them than the example has.
    """
    rows = problem.rows
    columns = problem.columns
    tiles_of_rows = problem.batch * ceil_div(rows, MMA_SIZE)
    many = tiles_of_rows > 2 * target.device.sms
    staged = _staged(problem, target) if problem.chunks else iter(())
    if tiles_of_rows >= BANDS[-1] * target.device.sms:
        return next(staged, Config(1, 1, min(ceil_div(rows, MMA_SIZE), BANDS[-1])))
    enough = STAGED_ROWS if columns <= STAGED_KEYS else 1
    if tiles_of_rows > enough * target.device.sms:
        staged = (config for config in staged if config.tiles == 1)
        if config := next(staged, None):
            return config
    tiles = 2 if _fits_two(problem) and many else 1
    most = WARPS // tiles
    if not is_number(problem.exact.columns):
        return Config(tiles, most)
    return Config(tiles, max(FEWEST, min(ceil_div(columns, MMA_SIZE), most)))


def _fits_two(problem: Problem) -> bool:
    """Whether registers hold two tiles of rows."""
    depth, width = problem.depth, problem.width
    return problem.precision != "fp32" and max(depth, width) <= ROOM


def candidates(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The configs that fit shared memory and have no warp without keys; the likeliest first.

    Where Q, K and V can be copied in chunks, they include staged ones instead of those with two
    tiles per warp, whose registers have no room for keys.
    """
    likely = likeliest(problem, target)
    configs = [*_split(problem, likely, target), likely]
    if problem.chunks:
        configs += _staged(problem, target)
    most = max(FEWEST, ceil_div(problem.columns, MMA_SIZE))
    for tiles in (1, 2) if _fits_two(problem) else (1,):
        for warps in (FEWEST, 6, WARPS, 12):
            config = Config(tiles, warps)
            small = warps <= min(most, MOST // tiles)
            if small and shared_bytes(problem, config) <= target.shared_bytes:
                configs.append(config)
    bands = _bands(problem, target)
    yield from dict.fromkeys(
        [*configs, *(x for x in bands if not problem.chunks or x.tiles <= x.warps)]
    )


def _split(problem: Problem, config: Config, target: GpuTarget) -> Iterator[Config]:
    """A config that is not staged with a cluster for the keys, where few blocks have many keys."""
    blocks = problem.batch * ceil_div(problem.rows, config.rows)
    tiles = ceil_div(ceil_div(problem.columns, MMA_SIZE), config.warps)
    splits = min(target.device.sms // blocks, tiles, MOST_SPLITS)
    if target.has_clusters and splits > 1 and not (config.staged or problem.rounded):
        split = replace(config, splits=splits)
        if shared_bytes(problem, split) <= target.shared_bytes:
            yield split


def keeps_scores(problem: Problem, config: Config) -> bool:
    """Whether each warp has 16 keys, whose scores it keeps until the sums of rows are known."""
    return not config.staged and problem.columns <= MMA_SIZE * config.warps


def _bands(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The configs of several bands, all of which have rows."""
    for tiles, warps, bands in product((1, 2), (1, 2), BANDS):
        config = Config(tiles, warps, bands)
        needed = problem.rows > config.rows - MMA_SIZE * tiles
        shared = shared_bytes(problem, config)
        small = tiles * warps * bands <= MOST and shared <= DEFAULT_SHARED_BYTES
        if needed and small and (tiles == 1 or _fits_two(problem)):
            yield config


def _staged(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The staged configs that fit, with rows divided among bands as evenly as possible."""
    rows, columns = problem.rows, problem.columns
    for tiles, warps, bands, keys in STAGED:
        row_tiles = ceil_div(rows, MMA_SIZE * tiles)
        config = Config(tiles, warps, ceil_div(row_tiles, ceil_div(row_tiles, bands)), keys)
        fits = shared_bytes(problem, config) <= target.shared_bytes
        busy = config.bands > 1 and columns > (warps - 1) * keys
        most = min(MOST_REGISTERS, REGISTERS // config.threads) - SPARE
        own = warps == 1 or not problem.rounded  # sums of whole rows
        if busy and fits and own and _registers(problem, config) <= most:
            yield config


def shared_bytes(problem: Problem, config: Config) -> int:
    """Shared memory of a block: its keys and values, or the partial results of its warps."""
    if config.staged:
        return max(_line_bytes(problem) * _kept(problem, config), _partial_bytes(problem, config))
    rows = (config.warps + (config.splits > 1)) * config.rows
    line = ceil_div(problem.width, 32) * 32 + 4
    return 4 * rows * (line + 2)


def _line_bytes(problem: Problem) -> int:
    """Shared memory of a key and its value, each padded by a chunk of 16 bytes."""
    return sum(16 * (2 * ceil_div(size, MMA_SIZE) + 1) for size in _heads(problem))


def _partial_bytes(problem: Problem, config: Config) -> int:
    """Shared memory of the partial results of a staged block's warps that share rows."""
    floats = 8 * ceil_div(_heads(problem)[1], MMA_SIZE) + 4
    return 4 * 32 * config.bands * (config.warps - 1) * config.tiles * floats


def _heads(problem: Problem) -> tuple[int, int]:
    """The columns of Q and K, and of V."""
    return problem.depth, problem.width


def ahead(problem: Problem, config: Config) -> int:
    """How many rounds of keys are copied ahead: all, where they fit or are processed twice."""
    columns = problem.columns
    kept = ceil_div(columns, MMA_SIZE) * MMA_SIZE
    room = problem.rounded or _line_bytes(problem) * kept <= STAGED_BYTES
    return ceil_div(columns, config.round) if room else AHEAD


def _kept(problem: Problem, config: Config) -> int:
    """The number of keys in shared memory at once."""
    columns = problem.columns
    rounds = ahead(problem, config)
    most = ceil_div(columns, MMA_SIZE) * MMA_SIZE
    return most if ceil_div(columns, config.round) <= rounds else (rounds + 1) * config.round


def _registers(problem: Problem, config: Config, early: bool = False) -> int:
    """About how many registers a thread of a staged block needs, `early` with shifts of scores."""
    depth, width = (ceil_div(n, MMA_SIZE) for n in _heads(problem))
    scores = config.staged // 2 * (config.tiles if problem.attention.scores else 1)
    scores += config.staged // 2 * config.tiles if early else 0
    others = OTHERS + MASKS if problem.attention.scores else OTHERS
    others += config.staged // 8 + 4 if problem.normalised else 0  # squares of keys
    return others + config.tiles * (4 * depth + 8 * width + scores)


def loads_early(problem: Problem, config: Config, target: GpuTarget) -> bool:
    """Whether staged blocks load what is added to scores before keys arrive, which takes registers.

    No other blocks of an SM hide the latency where there are few.
    """
    blocks = problem.batch * ceil_div(problem.rows, config.rows)
    return blocks <= FEW_BLOCKS * target.device.sms and not problem.rounded


def resident_blocks(
    problem: Problem, config: Config, target: GpuTarget, early: bool = False
) -> int:
    """How many staged blocks fit the registers and shared memory of an SM.

    Registers are divided among its four partitions.
    """
    registers = ceil_div(_registers(problem, config, early), 8) * 8
    warps = REGISTERS // (32 * registers) // 4 * 4
    shared = (target.shared_bytes + RESERVED) // (shared_bytes(problem, config) + RESERVED)
    return max(1, min(warps // (config.bands * config.warps), shared))
