"""Reading the orders of updates from groups, and how blocks share them."""

from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.group import Group, Node
from compiler.net.operators import SCATTER_ORDER
from compiler.target.target import GpuTarget

MOST_THREADS, MOST_ITEMS = 1024, 10
"""Threads of a block, and indices that a thread reads at a time."""

FEW = 1024
"""Updates of a block that are ranked one by one; 8 bytes of shared memory each."""

MOST_SLOTS = 256
"""Slots of a block that reads all indices: a counter of 4 bytes for each of its warps."""

MOST_READ = 40_000
"""Most updates of which each block reads all."""

SMALLER, MOST_CHUNKS = (512, 256, 128), 132
"""Threads of blocks that count and fill buckets, and the blocks from which on they are larger."""

BUCKETS, MOST_BUCKETS = 128, 512
"""Buckets of slots, and the most of them: as many as the threads of a small block."""

BUCKET_SLOTS, MOST_BUCKET_SLOTS = 1024, 5500
"""Slots of a bucket, where there are buckets left, and the most that fit shared memory twice."""

COUNTERS = 11_000
"""Counters of 4 bytes that fit the shared memory of a block."""


@dataclass(frozen=True)
class Problem:
    """Some updates, each with the index of a slot, which the group may compute."""

    anchor: Node
    indices: str
    updates: int
    slots: int

    @property
    def in_buckets(self) -> bool:
        """Whether three launches sort the updates: there are too many for each block to read."""
        return self.updates > MOST_READ and self.slots <= MOST_BUCKETS * MOST_BUCKET_SLOTS

    @property
    def buckets(self) -> int:
        """The buckets of slots."""
        wanted = max(BUCKETS, ceil_div(self.slots, BUCKET_SLOTS))
        return ceil_div(self.slots, ceil_div(self.slots, min(MOST_BUCKETS, wanted)))

    @property
    def bucket_slots(self) -> int:
        """The slots of a bucket."""
        return ceil_div(self.slots, self.buckets)

    @property
    def threads(self) -> int:
        """Threads of a block: whole warps, each of which has a counter for each bucket."""
        if self.in_buckets:
            return self._bucket_threads
        return min(MOST_THREADS, ceil_div(self.updates, 32) * 32)

    @property
    def _bucket_threads(self) -> int:
        """The fewest for which the chunks are at most `MOST_CHUNKS`, where counters fit."""
        fitting = [t for t in (MOST_THREADS, *SMALLER) if t // 32 * self.buckets <= COUNTERS]
        fitting = [threads for threads in fitting if threads >= self.buckets]
        enough = [t for t in fitting if ceil_div(self.updates, t * MOST_ITEMS) <= MOST_CHUNKS]
        return min(enough, default=fitting[0])

    @property
    def chunks(self) -> int:
        """The chunks of updates that a block has at a time."""
        return ceil_div(self.updates, self.threads * MOST_ITEMS)

    @property
    def items(self) -> int:
        """Indices that a thread reads at a time: the same number each time."""
        return ceil_div(self.updates, self.threads * self.chunks)

    @property
    def sorters(self) -> int:
        """Threads that sort a bucket: each of their warps has a counter for each slot."""
        warps = max(1, min(8, COUNTERS // self.bucket_slots - 1))
        return 32 * (1 << (warps.bit_length() - 1))

    def slots_of_block(self, target: GpuTarget) -> int:
        """The slots of a block that reads all indices: one block for each SM, or more of them."""
        return min(MOST_SLOTS, ceil_div(self.slots, target.device.sms))


def read_scatter_order(group: Group) -> Problem | None:
    """The order that a group ends in, others computing its indices; None for any other group."""
    *_, anchor = group.operators
    if anchor.type != SCATTER_ORDER or group.outputs != anchor.outputs:
        return None
    info = group.values[anchor.operand(0)]
    return Problem(anchor, info.dtype, info.elements, anchor.attributes["slots"])
