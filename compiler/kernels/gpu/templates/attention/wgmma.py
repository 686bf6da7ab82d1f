"""Attention by WGMMA: its configs, what a block of them needs, and the estimate of their time."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.attention.config import MMA_SIZE, MOST_REGISTERS, Config
from compiler.kernels.gpu.templates.attention.problem import Problem
from compiler.kernels.gpu.templates.gemm.config import CLUSTERS, REGISTERS, WGMMA_ALIGNMENT
from compiler.target.target import GpuTarget

WARPS = 4
"""Warps of a warpgroup, which has 64 rows."""

WARPGROUPS, KEYS = (2, 3, 1, 4), (64, 96, 48, 32)
"""Warpgroups of a block, and keys of a tile."""

STAGES = 6
"""Tiles of keys in shared memory: those whose values and whose scores are multiplied, one that is
announced and one that is copied, and two for warpgroups that are a tile apart."""

MOST_SPLITS = 4
"""Most blocks of a cluster: merging takes longer for more of them."""

PANEL_COLUMNS, PANEL_BYTES = 64, 128
"""Columns of a panel, and bytes of a key in one."""

OTHERS, MASKS = 32, 8
"""Registers of a thread besides operands and accumulators, and for more than a scale of scores."""

CLOCK, MMA_RATE = 1755.0, 2048
"""Cycles of a microsecond, and multiply-adds of an SM in one."""

KEY_CYCLES, TILE_CYCLES, LATENCY = 5.0, 75, 450
"""Cycles of a warpgroup's softmax for each key of a tile, and for the tile, and for which one alone
waits in a tile. With these, MMAs and powers of several warpgroups take the sum of both times."""

START_US, WAVE_US, CLUSTER_US, CACHE_BYTES = 3.0, 1.5, 0.9, 8e6
"""Beginning and ending a kernel and each further wave, merging splits, and bytes per microsecond
that all SMs copy from the L2 cache. Fitted to 23 configs for 1,500 keys on an H100: most estimates
are within 10 %."""


def wgmma_configs(problem: Problem, target: GpuTarget) -> Iterator[Config]:
    """The configs by WGMMA that fit, without idle warpgroups and splits."""
    if not can_use_wgmma(problem, target):
        return
    for keys, groups in product(KEYS, WARPGROUPS):
        whole = Config(1, 1, WARPS * groups, keys, splits=1)
        filled = problem.rows > max(whole.rows // 2, whole.rows - MMA_SIZE * WARPS)
        if filled and _fits(problem, whole, target):
            yield from (replace(whole, splits=n) for n in _splits(problem, whole, target))


def _splits(problem: Problem, config: Config, target: GpuTarget) -> range:
    """The numbers of splits: more than one while SMs have no block, of two tiles each at least."""
    blocks = problem.batch * ceil_div(problem.rows, config.rows)
    useful = ceil_div(target.device.sms, blocks)
    pairs = ceil_div(problem.columns, config.staged) // 2
    return range(1, max(1, min(useful, pairs, MOST_SPLITS)) + 1)


def can_use_wgmma(problem: Problem, target: GpuTarget) -> bool:
    """Whether WGMMA can read the operands: chunks of two-byte elements, as they are."""
    plain = not problem.rounded and not problem.normalised
    return target.has_wgmma and problem.chunks and plain


def _fits(problem: Problem, config: Config, target: GpuTarget) -> bool:
    """Whether registers and shared memory have room."""
    room = min(MOST_REGISTERS, REGISTERS // config.threads // 8 * 8)
    fits = wgmma_shared_bytes(problem, config) <= target.shared_bytes
    return fits and _registers(problem, config) <= room


def _registers(problem: Problem, config: Config) -> int:
    """About how many registers a thread needs: of two tiles scores and weights, Q and values."""
    depth, width = (ceil_div(n, MMA_SIZE) for n in (problem.depth, problem.width))
    scores = config.staged + config.staged // 2
    masks = MASKS if len(problem.attention.scores) > 1 else 0
    return OTHERS + masks + scores + 4 * depth + 8 * width


def wgmma_shared_bytes(problem: Problem, config: Config) -> int:
    """Shared memory of a block: its tiles of keys, or its partial result."""
    panels = sum(ceil_div(n, PANEL_COLUMNS) for n in (problem.depth, problem.width))
    tiles = STAGES * config.staged * panels * PANEL_BYTES
    line = ceil_div(problem.width, MMA_SIZE) * MMA_SIZE + 4
    partial = 4 * config.rows * (line + 2) if config.splits > 1 else 0
    return max(tiles, partial) + WGMMA_ALIGNMENT


def wgmma_resident(problem: Problem, config: Config, target: GpuTarget) -> int:
    """How many blocks an SM holds."""
    registers = ceil_div(_registers(problem, config), 8) * 8
    shared = wgmma_shared_bytes(problem, config)
    return target.device.resident_blocks(config.threads, registers, shared)


def wgmma_estimate_us(problem: Problem, config: Config, target: GpuTarget) -> float:
    """Warpgroups share an SM, and all SMs the L2 cache."""
    tiles = ceil_div(ceil_div(problem.columns, config.staged), config.splits)
    row_blocks = problem.batch * ceil_div(problem.rows, config.rows)
    resident = wgmma_resident(problem, config, target)
    clusters = CLUSTERS.get(config.splits, target.device.sms // config.splits)
    waves = ceil_div(row_blocks, clusters * resident)
    held = min(resident, ceil_div(row_blocks, clusters * waves))
    groups, scores = held * config.bands // WARPS, MMA_SIZE * WARPS * config.staged
    padded = sum(ceil_div(n, MMA_SIZE) * MMA_SIZE for n in (problem.depth, problem.width))
    busy = scores * padded / MMA_RATE + KEY_CYCLES * config.staged + TILE_CYCLES
    cycles = waves * tiles * max(busy + LATENCY, groups * busy)
    keys = row_blocks * tiles * config.splits * config.staged
    copied = 2 * keys * (problem.depth + problem.width)
    merging = CLUSTER_US if config.splits > 1 else 0
    return START_US + WAVE_US * (waves - 1) + merging + max(cycles / CLOCK, copied / CACHE_BYTES)
