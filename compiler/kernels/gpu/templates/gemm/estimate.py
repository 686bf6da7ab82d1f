"""The estimated time of a tile: bytes, MMAs and waves of blocks, with constants of an H200."""

from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.config import (
    Tile,
    block_count,
    concurrent_blocks,
    halo_pixels,
    mma_precision,
    room_for_blocks,
)
from compiler.kernels.gpu.templates.gemm.problem import STEP_BYTES, Form, Problem
from compiler.target.target import GpuTarget


@dataclass(frozen=True)
class WgmmaCosts:
    """Costs of WGMMA tiles.

    Microseconds to start (`start`), of each wave of blocks (`wave`), and to add split-K slices in a
    cluster (`cluster`) and for each of its blocks (`member`). Rates per microsecond: bytes that an
    SM copies with one filter tap (`bytes`) and with several (`scattered`), bytes that all SMs do
    (`cache_bytes`), multiply-adds of an SM in TF32 (`rate`, half of that in 16 bits), results that
    it stores (`results`) and that come from other blocks of a cluster (`shared_results`).
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


MATRICES = WgmmaCosts(
    start=0.49,
    wave=0.48,
    cluster=0.15,
    member=0.21,
    bytes=98e3,
    scattered=98e3,
    cache_bytes=10.5e6,
    rate=1.7e6,
    results=7.7e3,
    shared_results=6.2e3,
)
"""Fitted to 1,274 tiles measured on an H200: half of the estimates are within 10 %."""

IMAGES = WgmmaCosts(
    start=0.98,
    wave=0.04,
    cluster=0.0,
    member=0.26,
    bytes=87e3,
    scattered=62e3,
    cache_bytes=8.2e6,
    rate=1.75e6,
    results=7.0e3,
    shared_results=2.9e3,
)
"""Fitted to 3,111 tiles of NCHWc images: half of the estimates are within 11 %."""

CO_RESIDENT_STORES = 1.5
"""How much faster the epilogues of co-resident blocks are."""

START_US, WAVE_US, SPLIT_US = 0.51, 0.61, 0.59
"""Launching, beginning and ending each wave of blocks, adding split-K slices in a second launch."""

CLUSTER_US, MEMBER_US = 0.6, 0.15
"""Adding split-K slices in a thread block cluster, and for each of its blocks."""

STEP_US, WARP_US = 0.086, 0.0047
"""The least time of a k-step, and its part for each warp at the barrier."""

RATES = {"fp32": 0.1e6, "tf32": 0.67e6, "fp16": 1.2e6, "bf16": 1.2e6, "int8": 2.4e6}
"""Multiply-adds per microsecond and SM when operands are in shared memory; of bytes assumed."""

FRAGMENT_BYTES, LINE_ELEMENTS = 0.16e6, 0.33e6
"""Bytes of fragments per microsecond that the warps of an SM load from shared memory, and elements
that they copy there one by one."""

NARROW_BYTES, NARROW_ELEMENTS, NARROW_US = 4, 9e3, 0.4
"""The fewest bytes of an asynchronous copy, the shorter elements per microsecond that an SM copies
by registers instead, and the least time for which a k-step waits for these."""

GATHER_US, RUN = 0.03, 8
"""The time in which a thread finds the tap of an element that it copies, where not as many adjacent
ones have the same."""

SCATTERED_CHUNKS = 1.8e3
"""Chunks of 16 bytes per microsecond that an SM copies where a k-step has several taps."""

CACHE_BYTES, REUSE = 4.2e6, 0.76
"""Bytes per microsecond that all SMs copy from the L2 cache, and the fraction of an im2col tile
that they do, as overlapping taps hit L1."""

RESULT_BYTES = 12.3e3
"""Bytes of results per microsecond that an SM stores."""

SPLIT_BYTES = 5.7e6
"""Bytes of split-K slices per microsecond in a second launch."""


def estimate(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """The estimated microseconds of a kernel."""
    if tile.wgmma:
        costs = MATRICES if problem.form is Form.ROWS else IMAGES
        steps = ceil_div(ceil_div(problem.k, problem.step), tile.split_k)
        blocks = block_count(problem, tile)
        elements = tile.rows * tile.columns
        waves = ceil_div(blocks, concurrent_blocks(tile, target))
        copied = STEP_BYTES * (tile.rows + tile.columns)
        copy_us = copied / (costs.bytes if problem.gather.taps == 1 else costs.scattered)
        rate = costs.rate * 4 / problem.element_bytes
        narrow = narrow_lines(problem, tile) * problem.step / NARROW_ELEMENTS
        block_us = max(copy_us, elements * problem.step / rate, narrow)
        step = max(waves * block_us, blocks * copied / costs.cache_bytes)
        stored = elements / tile.split_k / costs.results
        if tile.co_resident:
            stored /= CO_RESIDENT_STORES
        if tile.split_k > 1:
            stored += elements / costs.shared_results + costs.cluster + costs.member * tile.split_k
        return costs.start + steps * step + waves * (costs.wave + stored)
    resident, waves = _residency(problem, tile, target)
    parts = 1
    added = 0.0
    if tile.has_cluster(target):
        parts = tile.split_k
        added = CLUSTER_US + MEMBER_US * tile.split_k
    elif tile.split_k > 1:
        elements = problem.count * problem.m * problem.n
        added = SPLIT_US + 8 * elements * tile.split_k / SPLIT_BYTES
    results = tile.rows * tile.columns * resident * problem.element_bytes / parts / RESULT_BYTES
    return START_US + waves * (WAVE_US + results) + _loop_us(problem, tile, target) + added


def _residency(problem: Problem, tile: Tile, target: GpuTarget) -> tuple[int, int]:
    """The resident blocks of the busiest SM, and the waves of these."""
    waves = ceil_div(block_count(problem, tile), concurrent_blocks(tile, target))
    resident = min(room_for_blocks(problem, tile, target), waves)
    return resident, ceil_div(waves, resident)


def work_us(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Microseconds of an SM for one k-step: the slowest of MMAs, fragment loads and copies."""
    mma_us = tile.rows * tile.columns * problem.step / RATES[mma_precision(problem, target)]
    load_us = (
        tile.threads // 32 * (tile.warp_rows + tile.warp_columns) * STEP_BYTES / FRAGMENT_BYTES
    )
    load_us = max(load_us, narrow_lines(problem, tile) * problem.step / NARROW_ELEMENTS)
    if problem.form is Form.LINES and not problem.contiguous:
        return max(mma_us, load_us, problem.step * tile.columns / LINE_ELEMENTS)
    gather = problem.gather
    if problem.form is Form.BLOCKS and gather.taps > 1 and gather.channels % problem.step:
        chunks = tile.columns * STEP_BYTES / 16
        return max(mma_us, load_us, chunks / SCATTERED_CHUNKS)
    return max(mma_us, load_us)


def narrow_lines(problem: Problem, tile: Tile) -> int:
    """The rows of A and columns of B that are copied element by element through registers."""
    fewest = NARROW_BYTES // problem.element_bytes
    if fewest <= 1:
        return 0
    rows, columns = (row % fewest + problem.k % fewest for row in (problem.a_row, problem.b_row))
    if problem.form is not Form.ROWS:
        columns = problem.form is Form.LINES and not problem.contiguous
    return (tile.rows if rows else 0) + (tile.columns if columns else 0)


def _loop_us(problem: Problem, tile: Tile, target: GpuTarget) -> float:
    """Microseconds of the main loop: of an SM's blocks, or of the L2 cache if slower."""
    blocks, (resident, waves) = block_count(problem, tile), _residency(problem, tile, target)
    steps = ceil_div(ceil_div(problem.k, problem.step), tile.split_k)
    work = work_us(problem, tile, target)
    waiting = NARROW_US if narrow_lines(problem, tile) else 0.0
    step = max(STEP_US + WARP_US * tile.threads / 32 + work + waiting, resident * work)
    step += _gather_us(problem, tile)
    copied = STEP_BYTES * (tile.rows + _columns_copied(problem, tile))
    return max(waves * steps * step, blocks * steps * copied / CACHE_BYTES)


def _gather_us(problem: Problem, tile: Tile) -> float:
    """Microseconds of a k-step in which a thread finds the tap of each element that it copies."""
    gather = problem.gather
    runs = gather.taps == 1 or (gather.tap_major and gather.row % RUN == 0)
    if problem.form is not Form.LINES or runs:
        return 0.0
    return problem.step * tile.columns / tile.threads * GATHER_US


def _columns_copied(problem: Problem, tile: Tile) -> float:
    """Mean number of columns of B that a k-step copies from the L2 cache."""
    taps = problem.gather.taps
    if tile.halo:
        return halo_pixels(problem, tile) / taps
    return tile.columns * (REUSE if problem.form is Form.BLOCKS and taps > 1 else 1)
