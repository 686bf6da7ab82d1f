"""The tiles of AMD's matrix cores (MFMA), and their times estimated from published rates."""

from collections.abc import Iterator

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.candidates import SHAPES, SPLITS
from compiler.kernels.gpu.templates.gemm.config import (
    Tile,
    fills_splits,
    shared_bytes,
    shared_room,
)
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Problem
from compiler.target.target import GpuTarget

WAVE = 64
"""Lanes of a wavefront."""

STAGES = 2
"""Copies are not asynchronous, so that one tile is filled while another is used."""

CLOCK = 1700
"""Clocks per microsecond."""

RATES = {"gfx90a": (128, 512), "gfx942": (128, 1024)}
"""Multiply-adds per clock of a compute unit in fp32, and in fp16 and bf16 (CDNA 2 and 3 ISA)."""

SHARED_RATE = 128
"""Bytes per clock that a compute unit loads from shared memory."""

STEP_CLOCKS, BLOCK_CLOCKS, SPLIT_CLOCKS = 500, 2500, 6000
"""Assumed: latency of a k-step's copies, starting a block, a launch that adds split-K slices."""


def tiles(problem: Problem, target: GpuTarget) -> Iterator[Tile]:
    """The tiles that fit the device, the largest first."""
    for shape in sorted(SHAPES, key=lambda shape: -shape[0] * shape[1]):
        for split_k in SPLITS:
            tile = Tile(*shape, split_k, STAGES, WAVE)
            fits = shared_bytes(problem, tile, target) <= shared_room(problem, target)
            if fits and fills_splits(problem, tile):
                yield tile


def estimate(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """The estimated microseconds of a kernel, never compared with measurements."""
    units = target.device.sms
    tiles = ceil_div(problem.m, tile.rows) * ceil_div(problem.n, tile.columns)
    waves = ceil_div(tiles * problem.count * tile.split_k, units)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.split_k)
    results = problem.count * problem.m * problem.n
    shared = 2 * 4 * results * tile.split_k / (units * 16) if tile.split_k > 1 else 0
    added = SPLIT_CLOCKS + shared if tile.split_k > 1 else 0
    # Clocks of one k-step: copies, and the slower of matrix cores and shared memory.
    short = problem.element_bytes == 2 or target.precision != "fp32"
    mfma_clocks = tile.rows * tile.columns * problem.step / RATES[target.architecture][short]
    columns = tile.warp_columns * (4 if problem.form is Form.LINES else 1)
    load_clocks = tile.threads // WAVE * (tile.warp_rows + columns) * STEP_BYTES / SHARED_RATE
    clocks = waves * (BLOCK_CLOCKS + steps * (STEP_CLOCKS + max(mfma_clocks, load_clocks))) + added
    return clocks / CLOCK
