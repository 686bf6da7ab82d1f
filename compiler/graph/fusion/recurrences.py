"""Recurrences: their sizes, how a cluster of blocks divides one, and which get one kernel."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from compiler.net.operators.recurrence import GATES
from compiler.target.target import GpuTarget, Target, parse_gpu
from compiler.tensors.arithmetic import ceil_div
from compiler.tensors.substitution import is_symbolic

ELEMENT_BYTES = {"fp16": 2, "bf16": 2, "tf32": 4}
"""Bytes of weights and states on tensor cores, by the target's precision."""

BLOCKS, WARPS, SPLITS = (16, 8, 4, 2, 1), (4, 8, 16), (8, 4, 2, 1)
"""The most blocks of a cluster, the warps of a block and the parts of k; of equal estimates the
first is taken."""

SEQUENCES = 8
"""Sequences that a cluster computes together: the columns of an MMA."""

UNIT_STEP, TILE_ROWS, CHUNK_BYTES, CHUNK_MMAS = 8, 16, 64, 2
"""Hidden units are divided in eights; rows of an MMA tile, bytes along k of a chunk of it, and the
MMAs that it takes."""

CHUNK_REGISTERS, SUM_REGISTERS, SPARE_REGISTERS, MOST_REGISTERS = 8, 4, 48, 255
"""Registers of a lane for its weights of a chunk of a tile, for the sums of a tile, and for all but
these, and the most that a lane can have."""

FEW_TILES = 4
"""With fewer tiles, a warp has two sums of each, which do not wait for each other."""

BARRIER_BYTES = 16
"""Bytes of shared memory of the counters of arrivals."""

START_US, STEP_US = 2.1, 0.69
"""Microseconds of launching and loading weights, and of a step that multiplies and sends nothing:
fitted, as the rates are, to 181 kernels on an H100, with a mean error of 11 %."""

MMA_US, SHARED_US, ARRIVED_US = 0.001, 0.0054, 0.038
"""Microseconds of a step for each MMA of an SM, for a chunk of a tile that is read from shared
memory, and for a KiB of the state, which arrives in every block."""

UNROLLED_US, MARGIN = 2.8, 0.85
"""Microseconds of a step of an unrolled recurrence, a skinny GEMM and a pointwise kernel, and the
part of that which one kernel may be estimated to take: weights in shared memory may cost more."""


@dataclass(frozen=True)
class Recurrence:
    """The sizes of a recurrence; all directions have the same.

    A step has two exchanges of states if a GRU resets its state before its GEMM.
    """

    cell: str
    steps: int
    batch: int
    hidden: int
    directions: int
    exchanges: int = 1

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
        return UNIT_STEP * ceil_div(ceil_div(recurrence.hidden, self.blocks), UNIT_STEP)

    def tiles(self, recurrence: Recurrence) -> int:
        """Tiles of rows of a block: those of all gates of its units."""
        return ceil_div(recurrence.gates * self.units(recurrence), TILE_ROWS)

    def chunks(self, recurrence: Recurrence, element_bytes: int) -> int:
        """Chunks of a row."""
        length = self.blocks * self.units(recurrence)
        return ceil_div(length * element_bytes, CHUNK_BYTES)

    def own_tiles(self, recurrence: Recurrence) -> int:
        """Tiles of a warp."""
        return ceil_div(self.tiles(recurrence), self.warps // self.splits)

    def own_chunks(self, recurrence: Recurrence, element_bytes: int) -> int:
        """Chunks of a warp."""
        return ceil_div(self.chunks(recurrence, element_bytes), self.splits)

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
        chunks = self.chunks(recurrence, element_bytes)
        sequences = recurrence.sequences
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
    size = element_bytes_of(target)
    registers = target.device.registers
    most = [n for n in BLOCKS if n <= target.largest_cluster]
    clusters = sorted({_cluster(recurrence.hidden, n) for n in most}, reverse=True)
    for blocks, warps, splits in product(clusters, WARPS, SPLITS):
        config = RecurrentConfig(blocks, warps, splits)
        if splits <= warps:
            if config.shared_bytes(recurrence, size, registers) <= target.shared_bytes:
                yield config


def element_bytes_of(target: GpuTarget) -> int:
    """Bytes of a weight on the target's tensor cores."""
    return ELEMENT_BYTES[target.precision]


def kernel_us(recurrence: Recurrence, config: RecurrentConfig, target: GpuTarget) -> float:
    """The estimated microseconds of one kernel for all steps."""
    clusters = recurrence.directions * ceil_div(recurrence.batch, SEQUENCES)
    waves = ceil_div(clusters * config.blocks, target.device.sms)
    return waves * (START_US + recurrence.steps * step_us(recurrence, config, target))


def step_us(recurrence: Recurrence, config: RecurrentConfig, target: GpuTarget) -> float:
    """The estimated microseconds of a step: multiplying, reading weights and exchanging states.

    All of it is done for each exchange.
    """
    size = element_bytes_of(target)
    tiles = config.own_tiles(recurrence)
    chunks = config.own_chunks(recurrence, size)
    others = chunks - config.held(recurrence, size, target.device.registers)
    multiplying = MMA_US * CHUNK_MMAS * tiles * chunks * config.warps
    reading = SHARED_US * tiles * others * config.warps
    units = config.blocks * config.units(recurrence)
    arrived = recurrence.sequences * units * size / 1024
    return recurrence.exchanges * (STEP_US + multiplying + reading + ARRIVED_US * arrived)


def has_kernel(recurrence: Recurrence, target: Target) -> bool:
    """Whether one kernel for all steps fits the target and is faster than a few for each step.

    On a CPU that is so where a run decides the steps: of known ones each has a kernel on all cores.
    """
    if not target.is_gpu:
        return is_symbolic(recurrence.steps)
    gpu = parse_gpu(str(target))
    times = (kernel_us(recurrence, config, gpu) for config in recurrent_configs(recurrence, gpu))
    # The estimated microseconds of one step after another; directions run side by side.
    return min(times, default=float("inf")) < MARGIN * (
        recurrence.steps * recurrence.exchanges * UNROLLED_US
    )


def _cluster(hidden: int, most: int) -> int:
    """The blocks of a cluster of at most so many: each has a multiple of eight units."""
    return ceil_div(hidden, UNIT_STEP * ceil_div(ceil_div(hidden, most), UNIT_STEP))
