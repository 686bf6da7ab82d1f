"""How threads share reductions: by where terms are in memory, and no more than fill a GPU."""

from dataclasses import dataclass

from compiler.kernels.tir.access import SECTOR, divisor_below

FULL = 1 << 17
"""Threads that half fill a large GPU."""

WARP = 32
"""Threads that reduce without a barrier."""

SERIAL_LENGTH, SERIAL_RUN = 32, 8
"""Up to this many elements, one thread computes each of many reductions: where neighbouring threads
read neighbouring elements, and where its own elements are neighbours."""

LEAST_TERMS = 4
"""Fewest elements of each thread that shares a reduction with others, unless results are few."""

ROWS_THREADS, LEAST_BLOCKS = 256, 264
"""Threads of a block of several rows, and the fewest such blocks: two for each SM."""


@dataclass(frozen=True)
class Sharing:
    """Threads that share one reduction; `adjacent` of a block's reductions are along threadIdx.x.

    Without any the threads of a reduction are along it.
    """

    threads: int
    adjacent: int = 0

    @property
    def axis(self) -> str:
        """The threads of a reduction."""
        return "threadIdx.y" if self.adjacent else "threadIdx.x"

    @property
    def scope(self) -> str:
        """Where a block's results are until they are used: registers where all threads get them."""
        return "local" if self.adjacent or self.threads <= WARP else "shared"


def share_consecutive(count: int, length: int, alone: bool) -> Sharing:
    """How threads share each of `count` reductions of `length` consecutive elements.

    Each of them is `alone`, or with a row of results.
    """
    if alone and length <= LEAST_TERMS:
        return Sharing(1)
    long = length > SERIAL_LENGTH and count * WARP < 2 * FULL
    if not alone or long or count <= LEAST_BLOCKS:
        return Sharing(row_threads(length, count))
    lanes = _power_below(min(WARP, length // LEAST_TERMS))
    return Sharing(1 if length <= SERIAL_RUN else lanes)


def share_adjacent(count: int, length: int, equal: bool, alone: bool) -> Sharing:
    """The same where the terms of adjacent reductions are in a sector of memory.

    Blocks can be `equal` where no size is left open: their threads meet at barriers.
    """
    few = count <= LEAST_BLOCKS
    if alone and length <= (LEAST_TERMS if few else SERIAL_LENGTH):
        return Sharing(1)
    most = WARP if count >= LEAST_BLOCKS * WARP // 2 else SECTOR
    adjacent = divisor_below(count, most) if equal else 1
    if adjacent < min(SECTOR, count):
        serial = alone and count * WARP >= 2 * FULL
        return Sharing(1 if serial else row_threads(length, count))
    wanted = max(length // LEAST_TERMS, min(length, SECTOR) * few)
    threads = _power_below(min(2 * WARP * SECTOR // adjacent, wanted, 2 * FULL // count))
    if alone and threads == 1:
        return Sharing(1)
    return Sharing(max(2, threads), adjacent)


def _power_below(number: int) -> int:
    """The largest power of two that is at most a number (at least 1)."""
    return 1 << (max(1, number).bit_length() - 1)


def row_threads(length: int, count: int) -> int:
    """Threads that reduce each of `count` rows: part of a warp, a warp, or a block."""
    if length <= WARP // 2:
        return 1 << max(1, (length - 1).bit_length())
    if length <= WARP * WARP and count >= LEAST_BLOCKS * ROWS_THREADS // WARP:
        return WARP
    return WARP if length <= 128 else 128 if length <= 1024 else 256 if length <= 8192 else 512
