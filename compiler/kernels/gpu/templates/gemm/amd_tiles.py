"""Choosing the tile of a contraction on AMD's matrix cores, by published rates."""

from collections.abc import Iterator

from compiler.kernels.gpu.templates.gemm.candidates import SHAPES, SHARES
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Problem
from compiler.kernels.gpu.templates.gemm.tiles import Tile, ceil_div, shared_bytes, shared_room
from compiler.target.target import GpuTarget

WAVE = 64
"""Lanes that multiply together."""

STAGES = 2
"""Copies are not asynchronous, so that one tile is filled while another is used."""

RATES = {"gfx90a": (128, 512), "gfx942": (128, 1024)}
"""Multiply-adds a clock of one compute unit in fp32, and in fp16 and bf16 (CDNA 2 and 3 ISA)."""

SHARED_RATE = 128
"""Bytes a clock that one compute unit loads from shared memory."""

STEP_CLOCKS, BLOCK_CLOCKS, SHARE_CLOCKS = 500, 2500, 6000
"""Assumed: the latency of one step's copies, starting a block, a second launch for shares."""


def choose_wave_tile(problem: Problem, target: GpuTarget) -> Tile:
    """The tile with the fewest estimated clocks; the largest of equals."""
    return min(
        wave_tiles(problem, target),
        key=lambda tile: (estimate(problem, tile, target), -tile.rows * tile.columns),
    )


def wave_tiles(problem: Problem, target: GpuTarget) -> Iterator[Tile]:
    """The tiles that fit the device and leave each share at least one step."""
    steps = ceil_div(problem.k, problem.step)
    for shape in SHAPES:
        for shares in SHARES:
            tile = Tile(*shape, shares, STAGES, WAVE)
            whole = ceil_div(steps, shares) * (shares - 1) < steps
            if whole and shared_bytes(problem, tile, target) <= shared_room(problem, target):
                yield tile


def estimate(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Clocks that a kernel should take: never measured, it only orders tiles."""
    units = target.device.sms
    tiles = ceil_div(problem.m, tile.rows) * ceil_div(problem.n, tile.columns)
    waves = ceil_div(tiles * problem.count * tile.shares, units)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.shares)
    results = problem.count * problem.m * problem.n
    shared = 2 * 4 * results * tile.shares / (units * 16) if tile.shares > 1 else 0
    added = SHARE_CLOCKS + shared if tile.shares > 1 else 0
    return waves * (BLOCK_CLOCKS + steps * step_clocks(problem, tile, target)) + added


def step_clocks(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Clocks of one step: copies, and the slower of matrix cores and shared memory."""
    short = problem.element_bytes == 2 or target.precision != "fp32"
    products = tile.rows * tile.columns * problem.step / RATES[target.architecture][short]
    columns = tile.warp_columns * (4 if problem.form is Form.LINES else 1)
    loaded = tile.threads // WAVE * (tile.warp_rows + columns) * STEP_BYTES / SHARED_RATE
    return STEP_CLOCKS + max(products, loaded)
