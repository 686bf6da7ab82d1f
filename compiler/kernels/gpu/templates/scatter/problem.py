"""Reading scatters from groups, and how many threads share them."""

from dataclasses import dataclass
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.opaque import COMBINATIONS
from compiler.target.target import GpuTarget

SCATTERS = ("ScatterND", "ScatterElements")

MOST_RANGES = 64
"""Most ranges of ScatterElements: the threads of each read all indices."""

BLOCKS, THREADS = 1, 1024
"""Blocks of an SM that find their updates, and threads of an SM that have columns."""

MOST_ITEMS, MOST_WIDTH, FLIGHT = 5, 4, 4
"""Most indices that a thread reads at a time, most elements that it has of a slice, and the updates
of a slice that it loads at a time. Updates found take 8 bytes of shared memory each."""


@dataclass(frozen=True)
class Problem:
    """A scatter of lists of updates, each into slots.

    ScatterND has one list, of slices. ScatterElements has one for each column: an index of the
    indices' shape without the axis; where that is the only axis, its elements are slices too.
    """

    operator: Node
    shape: tuple[int, ...]
    places: tuple[int, ...]
    axis: int

    @property
    def slices(self) -> bool:
        """Whether there is one list of updates, of slices."""
        return self.operator.type == "ScatterND" or len(self.shape) == 1

    @property
    def along(self) -> tuple[int, ...]:
        """The extents that an index is inside."""
        if self.operator.type == "ScatterND":
            return self.shape[: self.places[-1]]
        return (self.shape[self.axis],)

    @property
    def slots(self) -> int:
        """The places that an index may name."""
        return prod(self.along)

    @property
    def inner(self) -> int:
        """Elements from one slot to the next."""
        before = len(self.along) if self.operator.type == "ScatterND" else self.axis + 1
        return prod(self.shape[before:])

    @property
    def updates(self) -> int:
        """The updates of a list."""
        if self.operator.type == "ScatterND":
            return prod(self.places[:-1])
        return self.places[self.axis]

    @property
    def columns(self) -> int:
        """The lists of updates."""
        return 1 if self.slices else prod(self.places) // self.updates

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 1024 if self.slices else 128

    @property
    def items(self) -> int:
        """Indices that a thread reads at a time: the same number each time."""
        chunks = ceil_div(self.updates, self.threads * MOST_ITEMS)
        return ceil_div(self.updates, self.threads * chunks)

    @property
    def sharers(self) -> int:
        """Threads that share a slice: a power of two, whole warps of wide ones."""
        each = max(min(self.inner, 32), ceil_div(self.inner, MOST_WIDTH))
        return min(self.threads, 1 << (each - 1).bit_length())

    @property
    def width(self) -> int:
        """Elements of a slice that a thread has at a time."""
        return min(MOST_WIDTH, ceil_div(self.inner, self.sharers))

    def slots_of_range(self, target: GpuTarget) -> int:
        """The slots of a block, or of blocks of different columns."""
        sms = target.device.sms
        ranges = BLOCKS * sms if self.slices else min(MOST_RANGES, THREADS * sms // self.columns)
        return -(-self.slots // max(1, ranges))


def read_scatter(group: Group) -> Problem | None:
    """The scatter that a group consists of; None for any other group."""
    operator, *others = group.operators
    if others or operator.type not in SCATTERS:
        return None
    if operator.attributes["reduction"] not in COMBINATIONS:
        return None
    data, indices, updates = (operator.operand(i) for i in range(3))
    held = [group.constants[i].size for i in (indices, updates) if i in group.constants]
    if data in group.constants or max(held, default=1) > 1 or group.values[data].code:
        return None
    shape, places = group.values[data].shape, group.values[indices].shape
    if not prod(places) or not prod(shape):
        return None
    axis = operator.attributes["axis"] if operator.type == "ScatterElements" else 0
    return Problem(operator, shape, places, axis)
