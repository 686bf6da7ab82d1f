"""Choosing the tile of a contraction and how many shares its sums are split into."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.kernels.cuda.problem import STEP_BYTES, Form, Problem
from compiler.kernels.cuda.target import CudaTarget

PROCESSORS = {80: 108, 86: 84, 89: 128, 90: 132, 100: 148, 103: 148, 120: 170}
"""Streaming multiprocessors by compute capability; 132 where not listed."""

SHAPES = (
    (128, 128, 64, 64),
    (128, 64, 64, 32),
    (64, 128, 32, 64),
    (64, 64, 32, 32),
    (64, 32, 32, 16),
    (32, 64, 16, 32),
    (32, 32, 16, 16),
    (16, 64, 16, 16),
    (16, 128, 16, 32),
)
"""Rows and columns of a block's tile and of each of its four warps'."""

SHARES = (1, 2, 3, 4, 6, 8, 12, 16)
STAGES = (3, 6)
"""Fewest and most stages: enough to hide memory's latency behind steps of 0.2 microseconds."""
RESIDENT = 4
"""Most blocks of one processor that are counted on to run at once."""

CLUSTER, CLUSTER_CAPABILITY = 8, 90
"""Most blocks of a portable cluster, and the first compute capability that has them."""

RESERVED = 1024
"""Bytes of shared memory that each block takes beside its own."""

START_US, SHARE_US, CLUSTER_US, BARRIER_US, BATCH_US = 1.8, 1.8, 0.6, 0.1, 0.25
"""Starting a block, adding shares by a second launch or a cluster, what a step costs at least, and
storing one batch of results, which may wait for a residual."""

BATCH = 128 * 8
"""Results that a block stores at once."""

CLUSTER_BYTES = 32 * 1750
"""Bytes a microsecond that a processor reads from the others of its cluster."""

RATES = {"fp32": 0.1e6, "tf32": 0.8e6, "fp16": 1.2e6, "bf16": 1.2e6}
"""Multiply-adds a microsecond of one processor when operands are in registers."""

CYCLES = 1750
"""Cycles a microsecond; shared memory moves 32 floats in each."""

NARROW = 4
"""Cycles for 32 floats that are copied one by one."""

CACHE_BYTES, SHARE_BYTES = 5.5e6, 3e6
"""Bytes a microsecond that all processors read from the L2 cache, and that shares take."""


@dataclass(frozen=True)
class Tile:
    """A block's and a warp's rows and columns, shares of k, pipeline stages."""

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    shares: int
    stages: int = STAGES[0]

    def in_cluster(self, target: CudaTarget) -> bool:
        """Whether the blocks that share k are one cluster, which adds their sums."""
        return 1 < self.shares <= CLUSTER and target.capability >= CLUSTER_CAPABILITY

    def launches(self, target: CudaTarget) -> int:
        """One, and one more where shares are added by a launch of their own."""
        return 1 if self.shares == 1 or self.in_cluster(target) else 2

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * (self.rows // self.warp_rows) * (self.columns // self.warp_columns)


def stage_bytes(problem: Problem, tile: Tile) -> int:
    """Shared memory of one stage, padded as in operands.cuh."""
    row, column = STEP_BYTES + 16, STEP_BYTES
    if problem.form is Form.LINES:
        right = problem.step * (tile.columns + 8) * problem.element_bytes
    else:
        right = tile.columns * (row if problem.form is Form.ROWS else column)
    return tile.rows * row + right


def shared_bytes(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """Dynamic shared memory of a block: its stages, then its results in their place, and fetches."""
    if problem.block:
        result = 4 * tile.columns * (tile.rows + 4)
    else:
        result = 4 * tile.rows * (tile.columns + 8)
    return max(tile.stages * stage_bytes(problem, tile), result) + fetch_bytes(problem, tile, target)


def fetch_bytes(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """Shared memory of what the results depend on."""
    places, rows = problem.fetches
    if not problem.block:
        return 0
    parts = tile.shares if tile.in_cluster(target) else 1
    lines = tile.threads // tile.columns * problem.block * parts
    return places * ceil_div(tile.rows, lines) * tile.threads * 16 + rows * tile.rows * 4


def ceil_div(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)


def choose_tile(problem: Problem, target: CudaTarget) -> Tile:
    """The tile with the least estimated time; the largest of equals."""
    return min(candidates(problem, target), key=lambda tile: estimate(problem, tile, target))


def candidates(problem: Problem, target: CudaTarget) -> Iterator[Tile]:
    """The tiles that fit the device and leave each share at least one step."""
    steps = ceil_div(problem.k, problem.step)
    for shape in SHAPES:
        for shares in SHARES:
            tile = Tile(*shape, shares)
            whole = ceil_div(steps, shares) * (shares - 1) < steps
            if whole and shared_bytes(problem, tile, target) <= target.shared_bytes:
                yield replace(tile, stages=_stages(problem, tile, target))


def _stages(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """As many stages as steps can use without keeping blocks from running at once."""
    fewest, most = STAGES
    room = target.shared_bytes // _resident(problem, tile, target) - RESERVED
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    return max(fewest, min(most, steps + 1, room // stage_bytes(problem, tile)))


def _blocks(problem: Problem, tile: Tile) -> int:
    tiles = ceil_div(problem.m, tile.rows) * ceil_div(problem.n, tile.columns)
    return tiles * problem.count * tile.shares


def _resident(problem: Problem, tile: Tile, target: CudaTarget) -> int:
    """The blocks that one processor has at once, with the fewest stages."""
    smallest = replace(tile, stages=STAGES[0])
    room = max(1, min(target.shared_bytes // shared_bytes(problem, smallest, target), RESIDENT))
    processors = PROCESSORS.get(target.capability, 132)
    return min(room, ceil_div(_blocks(problem, tile), processors))


def step_us(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    """Microseconds of one processor for one step: tensor cores or shared memory, the slower."""
    wide = problem.form is not Form.LINES or problem.contiguous
    moved = 4 * (tile.warp_rows + tile.warp_columns) + tile.rows
    moved += tile.columns * (1 if wide else NARROW)
    return max(tile.rows * tile.columns * problem.step / RATES[target.precision], moved / CYCLES)


def estimate(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    """Microseconds that a kernel should take: waves of blocks, or the cache's rate if slower."""
    blocks, resident = _blocks(problem, tile), _resident(problem, tile, target)
    waves = ceil_div(blocks, PROCESSORS.get(target.capability, 132) * resident)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    work = step_us(problem, tile, target)
    loop = waves * steps * max(BARRIER_US + work, resident * work)
    cached = blocks * steps * STEP_BYTES * (tile.rows + tile.columns) / CACHE_BYTES
    added = 8 * problem.count * problem.m * problem.n * tile.shares / SHARE_BYTES + SHARE_US
    area, parts = tile.rows * tile.columns, 1
    if tile.in_cluster(target):
        added, parts = CLUSTER_US + 4 * area / CLUSTER_BYTES, tile.shares
    elif tile.shares == 1:
        added = 0.0
    begin_and_end = START_US + ceil_div(area, BATCH * parts) * BATCH_US
    return waves * begin_and_end + max(loop, cached) + added
