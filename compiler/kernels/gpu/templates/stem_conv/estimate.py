"""The estimated time of a stem convolution, fitted on an H200."""

from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.estimate import CACHE_BYTES
from compiler.kernels.gpu.templates.stem_conv.config import (
    Config,
    blocks_of,
    halo_of,
    pitch,
    resident_blocks,
    slice_of,
    threads_of,
    tiles_of,
)
from compiler.kernels.gpu.templates.stem_conv.problem import Problem
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

START_US, BLOCK_US, COPY_US = 1.2, 0.5, 0.6
"""Launching and ending a kernel, and a block, and the latency of the copies before the MMAs."""

CLOCK, MMA_CYCLES, WAVE_CYCLES = 1755, 1.8, 1.0
"""Cycles per microsecond; those of an SM for a 16 x 8 MMA, and for 128 bytes of shared memory."""

LINE_CYCLES, WARP_CYCLES = 4, 60
"""Cycles for 32 pixels of a row of the halo, and of overhead per warp and tile."""

STORE_BYTES, OVERLAP = 3.2e6, 0.1
"""Bytes of results per microsecond, and the fraction of overlapping parts that does not overlap."""


def estimate_us(problem: Problem, config: Config, target: GpuTarget) -> float:
    """The estimated microseconds of a kernel.

    The longest of computing, latency, copying weights and halos, and storing results counts.
    """
    count, warps = target.device.sms, threads_of(problem, config) // 32
    slices, tile = problem.channels // slice_of(problem, config), _tile_cycles(problem, config)
    blocks = ceil_div(blocks_of(problem, config) * slices, count)
    busy = blocks * config.turns * tile / CLOCK
    turn = COPY_US + tile * max(1, 4 / warps) / CLOCK
    waves = ceil_div(blocks, resident_blocks(problem, config, target))
    latency = waves * (BLOCK_US + config.turns * turn)
    sectors = 1 if problem.blocked else max(1, 32 / (config.columns * problem.element_bytes))
    results = prod(problem.result) * problem.element_bytes * sectors / STORE_BYTES
    parts = (busy, latency, _copied_bytes(problem, config) / CACHE_BYTES, results)
    return START_US + max(parts) + OVERLAP * sum(parts)


def _copied_bytes(problem: Problem, config: Config) -> int:
    """Bytes that all blocks copy: weights once per block, a halo per tile."""
    weights = 8 * problem.steps * problem.channels * problem.pair
    pixels = problem.extents[0] * prod(halo_of(problem, config))
    copied = weights * blocks_of(problem, config) * ELEMENT_BYTES[problem.weight.dtype]
    slices = problem.channels // slice_of(problem, config)
    return copied + slices * tiles_of(problem, config) * pixels * ELEMENT_BYTES[problem.image.dtype]


def _tile_cycles(problem: Problem, config: Config) -> float:
    """Cycles of one SM for a tile: MMAs, or loads and stores, and copying the halo."""
    rows, columns = halo_of(problem, config)
    wavefronts = pitch(problem, rows, columns)[1]
    mmas = problem.steps * config.pixels * config.width / 128 * MMA_CYCLES
    loads = problem.steps * (config.pixels / 4 * wavefronts + config.width / 4) * WAVE_CYCLES
    copies = problem.extents[0] * rows * ceil_div(columns, 32) * LINE_CYCLES * problem.pair
    stores = config.pixels * config.width / 32 * (1 if problem.blocked else 4)
    return threads_of(problem, config) // 32 * (max(mmas, loads + stores) + WARP_CYCLES) + copies
