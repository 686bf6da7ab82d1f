"""Choosing the tile of a contraction and how many shares its sums are split into."""

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.kernels.cuda.problem import STEP, Problem
from compiler.kernels.cuda.target import CudaTarget

PROCESSORS = {80: 108, 86: 84, 89: 128, 90: 132, 100: 148, 103: 148, 120: 170}
"""Streaming multiprocessors by compute capability; 132 where not listed."""

SHAPES = (
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
STAGES = 3
THREADS = 128

START_US, SHARE_US, LATENCY_US = 1.5, 1.8, 0.3
"""Starting a block, adding shares by a second launch, and one step of a lone block."""

RATES = {"fp32": 0.1e6, "tf32": 0.6e6, "fp16": 0.9e6, "bf16": 0.9e6}
"""Multiply-adds a microsecond of one processor, as this code reaches them."""


@dataclass(frozen=True)
class Tile:
    """A block's and a warp's rows and columns, pipeline stages, shares of k."""

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    shares: int
    stages: int = STAGES

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block, rows padded as in contraction.cuh."""
        return 4 * self.stages * (self.rows * (STEP + 4) + STEP * (self.columns + 8))


def ceil_div(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)


def choose_tile(problem: Problem, target: CudaTarget) -> Tile:
    """The tile with the least estimated time; the largest of equals."""
    return min(candidates(problem, target), key=lambda tile: estimate(problem, tile, target))


def candidates(problem: Problem, target: CudaTarget) -> Iterator[Tile]:
    """The tiles that fit the device and leave each share at least one step."""
    steps = ceil_div(problem.k, STEP)
    for shape in SHAPES:
        for shares in SHARES:
            tile = Tile(*shape, shares)
            whole = ceil_div(steps, shares) * (shares - 1) < steps
            if whole and tile.shared_bytes <= target.shared_bytes:
                yield tile


def estimate(problem: Problem, tile: Tile, target: CudaTarget) -> float:
    """Microseconds that a launch should take, by waves of blocks."""
    blocks = ceil_div(problem.m, tile.rows) * ceil_div(problem.n, tile.columns)
    blocks *= problem.count * tile.shares
    processors = PROCESSORS.get(target.capability, 132)
    room = max(1, min(target.shared_bytes // tile.shared_bytes, 4))
    resident = min(room, ceil_div(blocks, processors))
    waves = ceil_div(blocks, processors * resident)
    work = tile.rows * tile.columns * STEP * resident / RATES[target.precision]
    steps = ceil_div(ceil_div(problem.k, STEP), tile.shares)
    extra = SHARE_US if tile.shares > 1 else 0.0
    partials = problem.count * problem.m * problem.n * tile.shares * 8 / 3e6
    return waves * (START_US + steps * max(LATENCY_US, work)) + extra + (partials if extra else 0)
