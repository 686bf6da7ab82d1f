"""How long a tile should take: bytes, multiply-adds, waves of blocks, with constants of an H200."""

from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.config import (
    Tile,
    block_count,
    halo_pixels,
    multiplied_in,
    resident_blocks,
)
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Problem
from compiler.target.target import GpuTarget


@dataclass(frozen=True)
class WgmmaCosts:
    """What wide tiles take: microseconds to start, for each wave of blocks, to add shares within a
    cluster and for each of its blocks; and, a microsecond, bytes that one processor copies of one
    tap and of several, bytes that all of them do, multiply-adds of one processor in TF32 (half of
    those in 16 bits), results that it stores and that come from other blocks of a cluster.
    """

    start: float
    wave: float
    cluster: float
    member: float
    bytes: float
    scattered: float
    cache_bytes: float
    rate: float
    results: float
    shared_results: float


MATRICES = WgmmaCosts(0.49, 0.48, 0.15, 0.21, 98e3, 98e3, 10.5e6, 1.7e6, 7.7e3, 6.2e3)
"""Fitted to 1,274 tiles measured on an H200; half of the estimates are within 10 %."""

IMAGES = WgmmaCosts(0.98, 0.04, 0.0, 0.26, 87e3, 62e3, 8.2e6, 1.75e6, 7.0e3, 2.9e3)
"""Fitted to 3,111 tiles of images in channel blocks; half of the estimates are within 11 %."""

SIDE_BY_SIDE_STORES = 1.5
"""How much faster blocks store that share a processor with others."""

START_US, WAVE_US, SPLIT_US = 0.51, 0.61, 0.59
"""Launching, beginning and ending each wave of blocks, adding shares by a second launch."""

CLUSTER_US, MEMBER_US = 0.89, 0.43
"""Adding shares within a cluster, and for each of its blocks."""

STEP_US, WARP_US = 0.086, 0.0047
"""What a step takes at least, and for each warp that waits at its barrier."""

RATES = {"fp32": 0.1e6, "tf32": 0.67e6, "fp16": 1.2e6, "bf16": 1.2e6}
"""Multiply-adds a microsecond of one processor when operands are in shared memory."""

FRAGMENT_BYTES, LINE_ELEMENTS = 0.16e6, 0.33e6
"""Bytes of operands a microsecond that warps of one processor load from shared memory, and elements
that it copies there one by one."""

SCATTERED_CHUNKS = 1.8e3
"""Chunks of 16 bytes a microsecond that one processor copies where a step has several taps."""

CACHE_BYTES, REUSE = 4.2e6, 0.76
"""Bytes a microsecond that all processors copy from the L2 cache, and how much of a window's image
they do, since taps overlap in the first level."""

RESULT_BYTES = 12.3e3
"""Bytes of results a microsecond that one processor stores."""

SPLIT_BYTES = 5.7e6
"""Bytes a microsecond that shares of a second launch take."""


def estimate(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Microseconds that a kernel should take."""
    if tile.wgmma:
        return _wgmma_us(problem, tile, target)
    resident = resident_blocks(problem, tile, target)
    waves = ceil_div(block_count(problem, tile), target.device.sms * resident)
    parts, added = 1, 0.0
    if tile.in_cluster(target):
        parts, added = tile.split_k, CLUSTER_US + MEMBER_US * tile.split_k
    elif tile.split_k > 1:
        elements = problem.count * problem.m * problem.n
        added = SPLIT_US + 8 * elements * tile.split_k / SPLIT_BYTES
    results = tile.rows * tile.columns * resident * problem.element_bytes / parts / RESULT_BYTES
    return START_US + waves * (WAVE_US + results) + _loop_us(problem, tile, target) + added


def work_us(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Microseconds of one processor for one step: tensor cores, loads or copies, the slowest."""
    products = tile.rows * tile.columns * problem.step / RATES[multiplied_in(problem, target)]
    loaded = tile.threads // 32 * (tile.warp_rows + tile.warp_columns) * STEP_BYTES / FRAGMENT_BYTES
    if problem.form is Form.LINES and not problem.contiguous:
        return max(products, loaded, problem.step * tile.columns / LINE_ELEMENTS)
    gather = problem.gather
    if problem.form is Form.BLOCKS and gather.taps > 1 and gather.channels % problem.step:
        chunks = tile.columns * STEP_BYTES / 16
        return max(products, loaded, chunks / SCATTERED_CHUNKS)
    return max(products, loaded)


def _loop_us(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Microseconds of all steps: of the blocks of one processor, or of the L2 cache if slower."""
    blocks, resident = block_count(problem, tile), resident_blocks(problem, tile, target)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.split_k)
    work = work_us(problem, tile, target)
    step = max(STEP_US + WARP_US * tile.threads / 32 + work, resident * work)
    copied = STEP_BYTES * (tile.rows + _columns_copied(problem, tile))
    waves = ceil_div(blocks, target.device.sms * resident)
    return max(waves * steps * step, blocks * steps * copied / CACHE_BYTES)


def _columns_copied(problem: Problem, tile: Tile) -> float:
    """Columns of the image's tile that one step copies from the L2 cache, in the mean."""
    taps = problem.gather.taps
    if tile.halo:
        return halo_pixels(problem, tile) / taps
    return tile.columns * (REUSE if problem.form is Form.BLOCKS and taps > 1 else 1)


def _wgmma_us(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    costs = MATRICES if problem.form is Form.ROWS else IMAGES
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.split_k)
    together = target.device.sms // tile.split_k * tile.split_k
    blocks, elements = block_count(problem, tile), tile.rows * tile.columns
    waves = ceil_div(blocks, together)
    copied = STEP_BYTES * (tile.rows + tile.columns)
    own = copied / (costs.bytes if problem.gather.taps == 1 else costs.scattered)
    rate = costs.rate * (1 if multiplied_in(problem, target) == "tf32" else 2)
    single = max(own, elements * problem.step / rate)
    step = max(waves * single, blocks * copied / costs.cache_bytes)
    stored = elements / tile.split_k / costs.results
    if tile.side_by_side:
        stored /= SIDE_BY_SIDE_STORES
    if tile.split_k > 1:
        stored += elements / costs.shared_results + costs.cluster + costs.member * tile.split_k
    return costs.start + steps * step + waves * (costs.wave + stored)
