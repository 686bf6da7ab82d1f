"""How the blocks of a skinny GEMM divide its columns and its k, and the time that takes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.skinny_gemm.problem import TILE_COLUMNS, SkinnyProblem
from compiler.target.target import GpuTarget

TILES = (1, 2, 4)
WARPS = (4, 8, 16)
SPLITS = (1, 2, 4, 8)
STAGES = (2, 4, 8)

SPARE, MOST_REGISTERS = 24, 224
"""Registers of a thread besides weights, rows and sums, and the most that are not spilled."""

LANES_OF_ROW = 16
"""Bytes of a row for each register of a lane: four lanes have four bytes each."""

START_US, CLUSTER_US, MEMBER_US = 1.65, 0.75, 0.035
"""Microseconds to launch, to load the first weights and to add sums; to add those of a cluster, and
for each of its blocks. Fitted, as the rates are, to weights in the memory of an H100, with a spread
of 9 % for dense weights, 17 % for those of four bits."""

LATENCY_US = 0.17
"""From a load of weights to its data, beyond what the start has."""

CACHE_BYTES = 65e3
"""Most bytes per microsecond that an SM loads."""

UNHIDDEN = 0.15
"""The part of the faster one of memory and SMs that the slower one does not hide."""


@dataclass(frozen=True)
class SkinnyConfig:
    """Tiles of 16 columns of a block, warps and blocks of a cluster that divide its k, and stages.

    With `prefetch` the kernel loads its first weights before it waits for its predecessors (PDL);
    with `release` its successors may begin when it has loaded its last ones.
    """

    tiles: int
    warps: int
    splits: int
    stages: int
    prefetch: bool = True
    release: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    def turns(self, problem: SkinnyProblem) -> int:
        """Chunks of a warp."""
        return ceil_div(ceil_div(problem.chunks, self.splits), self.warps)

    def blocks(self, problem: SkinnyProblem) -> int:
        """Blocks of a kernel."""
        return ceil_div(problem.tiles, self.tiles) * self.splits


def candidates(problem: SkinnyProblem, target: GpuTarget) -> Iterator[SkinnyConfig]:
    """The configs that give every warp a chunk and every stage a turn, and fit registers."""
    all_splits = SPLITS if target.has_clusters else SPLITS[:1]
    for tiles, warps, splits, stages in product(TILES, WARPS, all_splits, STAGES):
        config = SkinnyConfig(
            tiles=tiles, warps=warps, splits=splits, stages=stages, prefetch=target.has_pdl
        )
        whole = config.tiles <= problem.tiles and _fills(problem, config)
        most = min(MOST_REGISTERS, target.device.registers // config.threads - 8)
        small = shared_bytes(problem, config) <= target.shared_bytes
        if whole and small and registers(problem, config) <= most:
            yield config


def _fills(problem: SkinnyProblem, config: SkinnyConfig) -> bool:
    """Whether all blocks, warps and stages have work; a warp may be idle where there are few."""
    part = ceil_div(problem.chunks, config.splits)
    every = part * (config.splits - 1) < problem.chunks
    enough = config.warps <= max(part, WARPS[0])
    turns = config.turns(problem)
    return every and enough and (config.stages <= turns or config.stages == STAGES[0])


def overlapping(config: SkinnyConfig, target: GpuTarget) -> list[SkinnyConfig]:
    """The configs that differ only by prefetch and release."""
    if not target.has_pdl:
        return []
    pairs = product((False, True), repeat=2)
    variants = [replace(config, prefetch=prefetch, release=release) for prefetch, release in pairs]
    return [other for other in variants if other != config]


def registers(problem: SkinnyProblem, config: SkinnyConfig) -> int:
    """About how many registers a thread needs."""
    rows = problem.row_tiles * problem.row_bytes // LANES_OF_ROW
    staged = config.stages * (config.tiles * problem.chunk_registers + rows)
    sums = 4 * config.tiles * problem.row_tiles
    return SPARE + int(staged * problem.held) + sums * problem.sums


def shared_bytes(problem: SkinnyProblem, config: SkinnyConfig) -> int:
    """Shared memory of a block: the sums of its warps."""
    return 4 * config.warps * problem.gemm.m * (TILE_COLUMNS * config.tiles + 4)


def estimate_us(problem: SkinnyProblem, config: SkinnyConfig, target: GpuTarget) -> float:
    """The estimated microseconds: of the memory, or of the SM with most blocks if slower."""
    device = target.device
    weights = problem.tiles * problem.chunks * problem.chunk_bytes
    loaded = problem.chunk_bytes * config.tiles + problem.row_bytes * problem.gemm.m
    block_bytes = ceil_div(problem.chunks, config.splits) * loaded
    busiest = ceil_div(config.blocks(problem), device.sms)
    resident = device.resident_blocks(
        config.threads, registers(problem, config), shared_bytes(problem, config)
    )
    staged = min(config.stages, config.turns(problem)) * config.warps
    ahead = staged * problem.chunk_bytes * config.tiles * min(resident, busiest)
    rate = min(CACHE_BYTES, ahead / LATENCY_US)
    cluster = CLUSTER_US + MEMBER_US * config.splits if config.splits > 1 else 0.0
    streamed = sorted((weights / (1e3 * device.bandwidth), busiest * block_bytes / rate))
    return START_US + cluster + problem.unpacking * (streamed[1] + UNHIDDEN * streamed[0])
