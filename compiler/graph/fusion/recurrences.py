"""Recurrences: their sizes, how a cluster of blocks divides one, and which get one kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from compiler.ir.operators.recurrence import GATES
from compiler.target.target import GpuTarget, Target, parse_gpu

ELEMENT_BYTES = {"fp16": 2, "bf16": 2, "tf32": 4}
"""Bytes of weights and states on tensor cores, by the target's precision."""

BLOCKS, WARPS, SPLITS = (16, 8, 4, 2, 1), (8, 16, 4), (8, 4, 2, 1)

SEQUENCES = 8
"""Sequences that a cluster computes together: the columns of an MMA."""

UNIT_STEP, TILE_ROWS, CHUNK_BYTES = 8, 16, 64
"""Hidden units are divided in eights; rows of an MMA tile, and bytes along k of a chunk of it."""

CHUNK_REGISTERS, SUM_REGISTERS, SPARE_REGISTERS, MOST_REGISTERS = 8, 4, 48, 255
"""Registers of a lane for its weights of a chunk of a tile, for the sums of a tile, and for all but
these, and the most that a lane can have."""

FEW_TILES = 4
"""With fewer tiles, a warp has two sums of each, which do not wait for each other."""

BARRIER_BYTES = 16
"""Bytes of shared memory of the counters of arrivals."""

START_US, LOAD_BYTES = 3.0, 60e3
"""Microseconds of launching, and bytes of weights that a block reads in one: not measured."""

EXCHANGE_US, SUM_US, SHARED_US = 0.35, 0.004, 0.008
"""Microseconds of a step besides its MMAs, of adding the sum of a warp, and of reading a chunk of a
tile from shared memory: not measured."""

LATENCY_US, ISSUE_US = 0.019, 0.0012
"""Microseconds until an MMA may follow another on the same sums, and from one to the next of an SM:
not measured."""

UNROLLED_US = 2.8
"""Microseconds of a step of an unrolled recurrence: a skinny GEMM and a pointwise kernel."""


@dataclass(frozen=True)
class Recurrence:
    """The sizes of a recurrence; all directions have the same."""

    cell: str
    steps: int
    batch: int
    hidden: int
    directions: int

    @property
    def gates(self) -> int:
        """The gates of a hidden unit."""
        return GATES[self.cell]

    @property
    def sequences(self) -> int:
        """Sequences of a cluster."""
        return min(self.batch, SEQUENCES)


@dataclass(frozen=True)
class RecurrentConfig:
    """The blocks of a cluster, the warps of a block, and among how many of them k is split."""

    blocks: int
    warps: int
    splits: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    def units(self, recurrence: Recurrence) -> int:
        """Hidden units of a block."""
        return UNIT_STEP * _ceil_div(_ceil_div(recurrence.hidden, self.blocks), UNIT_STEP)

    def tiles(self, recurrence: Recurrence) -> int:
        """Tiles of rows of a block: those of all gates of its units."""
        return _ceil_div(recurrence.gates * self.units(recurrence), TILE_ROWS)

    def chunks(self, recurrence: Recurrence, element_bytes: int) -> int:
        """Chunks of a row."""
        length = self.blocks * self.units(recurrence)
        return _ceil_div(length * element_bytes, CHUNK_BYTES)

    def own_tiles(self, recurrence: Recurrence) -> int:
        """Tiles of a warp."""
        return _ceil_div(self.tiles(recurrence), self.warps // self.splits)

    def own_chunks(self, recurrence: Recurrence, element_bytes: int) -> int:
        """Chunks of a warp."""
        return _ceil_div(self.chunks(recurrence, element_bytes), self.splits)

    def held(self, recurrence: Recurrence, element_bytes: int, registers: int) -> int:
        """The chunks of a warp that stay in so many registers of an SM; others in shared memory."""
        tiles = self.own_tiles(recurrence)
        most = min(MOST_REGISTERS, registers // self.threads)
        room = most - SPARE_REGISTERS - SUM_REGISTERS * tiles * (1 + (tiles < FEW_TILES))
        fitting = max(0, room // (CHUNK_REGISTERS * tiles))
        return min(fitting, self.own_chunks(recurrence, element_bytes))

    def shared_bytes(self, recurrence: Recurrence, element_bytes: int, registers: int) -> int:
        """Bytes of shared memory of a block: counters, states, the block's part of the next one,
        sums and weights; see recurrence.cuh."""
        chunks, sequences = self.chunks(recurrence, element_bytes), recurrence.sequences
        pitch = CHUNK_BYTES * (chunks + (chunks + 1) % 2)
        own = sequences * self.units(recurrence) * element_bytes
        line = 4 * (TILE_ROWS * self.tiles(recurrence) + 4)
        held = self.held(recurrence, element_bytes, registers)
        others = self.own_chunks(recurrence, element_bytes) - held
        weights = TILE_ROWS * CHUNK_BYTES * self.warps * self.own_tiles(recurrence) * others
        sums = self.splits * sequences * line
        return BARRIER_BYTES + 2 * sequences * pitch + own + sums + weights


def recurrent_configs(recurrence: Recurrence, target: GpuTarget) -> Iterator[RecurrentConfig]:
    """The configs whose weights fit the blocks, large clusters first."""
    if target.precision not in ELEMENT_BYTES or not target.has_mma or not recurrence.hidden:
        return
    size, registers = element_bytes_of(target), target.device.registers
    most = [n for n in BLOCKS if n <= target.largest_cluster]
    clusters = sorted({_cluster(recurrence.hidden, n) for n in most}, reverse=True)
    for blocks, warps, splits in product(clusters, WARPS, SPLITS):
        found = RecurrentConfig(blocks, warps, splits)
        if splits <= warps:
            if found.shared_bytes(recurrence, size, registers) <= target.shared_bytes:
                yield found


def element_bytes_of(target: GpuTarget) -> int:
    """Bytes of a weight on the target's tensor cores."""
    return ELEMENT_BYTES[target.precision]


def kernel_us(recurrence: Recurrence, config: RecurrentConfig, target: GpuTarget) -> float:
    """The estimated microseconds of one kernel for all steps."""
    tiles, chunks = _own(recurrence, config, target)
    loaded = TILE_ROWS * CHUNK_BYTES * tiles * chunks * config.warps / LOAD_BYTES
    clusters = recurrence.directions * _ceil_div(recurrence.batch, SEQUENCES)
    waves = _ceil_div(clusters * config.blocks, target.device.sms)
    return START_US + waves * (loaded + recurrence.steps * step_us(recurrence, config, target))


def step_us(recurrence: Recurrence, config: RecurrentConfig, target: GpuTarget) -> float:
    """The estimated microseconds of a step.

    They are the longer of a warp's chain of MMAs and all of an SM, reading weights from shared
    memory, adding sums, and the exchange.
    """
    tiles, chunks = _own(recurrence, config, target)
    held = config.held(recurrence, element_bytes_of(target), target.device.registers)
    chain = 2 * chunks / (1 + (tiles < FEW_TILES))
    multiplying = max(LATENCY_US * chain, ISSUE_US * 2 * tiles * chunks * config.warps)
    reading = SHARED_US * tiles * (chunks - held) * config.warps
    cells = _ceil_div(recurrence.sequences * config.units(recurrence), config.threads)
    sums = SUM_US * config.splits * recurrence.gates * cells
    return EXCHANGE_US + multiplying + reading + sums


def unrolled_us(recurrence: Recurrence) -> float:
    """The estimated microseconds of one step after another; directions run side by side."""
    return recurrence.steps * UNROLLED_US


def unroll_all(recurrence: Recurrence) -> bool:
    """`has_kernel` of a target without any: every recurrence is unrolled."""
    return False


def recurrence_kernels(target: Target) -> Callable[[Recurrence], bool]:
    """`has_kernel` of a target."""
    return partial(has_kernel, target=target)


def has_kernel(recurrence: Recurrence, target: Target) -> bool:
    """Whether one kernel for all steps fits the target and is faster than a few for each step."""
    if not target.is_gpu:
        return False
    gpu = parse_gpu(str(target))
    times = (kernel_us(recurrence, config, gpu) for config in recurrent_configs(recurrence, gpu))
    return min(times, default=float("inf")) < unrolled_us(recurrence)


def _own(recurrence: Recurrence, config: RecurrentConfig, target: GpuTarget) -> tuple[int, int]:
    """Tiles and chunks of a warp."""
    chunks = config.own_chunks(recurrence, element_bytes_of(target))
    return config.own_tiles(recurrence), chunks


def _cluster(hidden: int, most: int) -> int:
    """The blocks of a cluster of at most so many: each has a multiple of eight units."""
    return _ceil_div(hidden, UNIT_STEP * _ceil_div(_ceil_div(hidden, most), UNIT_STEP))


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
