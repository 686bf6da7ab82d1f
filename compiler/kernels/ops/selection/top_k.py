"""The lowering of TopK: a heap of the first few of each row, or a radix sort of the row.

Rows are sorted by keys: signed integers that are smaller for what comes first. Of equal keys the
earlier position comes first.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.ops.common import sort_key, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.opaque import ROLLED, launch, loops, mutable, turns, workspace
from compiler.kernels.ops.rows import AxisRows, rows_along
from compiler.kernels.sizes import as_size, at_hint, expression, is_number
from compiler.tensors.arithmetic import minimum
from compiler.tensors.dtypes import ELEMENT_BYTES

KeyedPosition = tuple[Any, Any]
"""A key and a position."""

ElementKey = Callable[[Any, Any], Any]
"""The key of the element of a row at a position."""

StoreResult = Callable[[Any, Any, Any], None]
"""A function of a row, a place and the position of the element that comes there; or, of the entries
of one row, of a place, a key and a position."""

DIGIT, DIGITS = 8, 1 << 8
"""Bits of a digit of a radix sort, and the numbers that it can be."""

LEVEL, MOVE = 6.0, 2.5
"""Steps of one level of a heap, whose branches are not foreseen, and of moving an entry in a radix
sort, in units of comparing an element with the last of the heap: fitted on an Intel Xeon with
AVX-512 (2026-11-27)."""

COMPARED = 64
"""Elements of which the least is compared with a heap at once, by vector instructions."""

SORTING_BLOCKS = 64
"""Most blocks that sort whole rows, each in a separate workspace."""

PART, MOST_PARTS = 1 << 16, 16
"""Fewest elements of a part of a row, of which several cores have one each, and most parts."""


@dataclass(frozen=True)
class TopKRows(AxisRows):
    """The first `count` elements of each row."""

    count: int
    dtype: str

    @property
    def key(self) -> str:
        """The dtype of the keys of elements."""
        return "int64" if ELEMENT_BYTES[self.dtype] == 8 else "int32"

    @property
    def passes(self) -> int:
        """The digits of a key: the keys of halves are those of float32."""
        return ELEMENT_BYTES[wide(self.dtype)] * 8 // DIGIT

    @property
    def entering(self) -> float:
        """Steps of what enters a heap of a row in random order: `count * (1 + log(length / count))`
        elements, and again the first ones as they leave it."""
        count = at_hint(self.count)
        entered = count * (2 + log(at_hint(self.length) / count))
        return LEVEL * entered * log(count + 1, 2)

    @property
    def by_heap(self) -> bool:
        """Whether a heap is faster than a radix sort on elements in random order."""
        length = at_hint(self.length)
        radix = self.passes * (MOVE * length + 2 * DIGITS)
        return length + self.entering <= radix

    @property
    def parts(self) -> int:
        """The parts of a row that several cores take the first elements of.

        Each must have as many: a row whose length a run decides may be too short for parts.
        """
        if not self.by_heap or not is_number(self.length):
            return 1
        most = min(MOST_PARTS, self.length // PART, int(self.length / self.entering))
        return max(1, most)

    @property
    def blocks(self) -> int:
        """The blocks that sort rows, each in a separate workspace."""
        return as_size(minimum(self.rows, SORTING_BLOCKS))


@dataclass(frozen=True)
class Entries:
    """Keys and positions of rows, each of which has `pitch` places."""

    keys: Any
    positions: Any
    dtype: str
    pitch: int

    def of(self, row: Any) -> "RowEntries":
        """The entries of a row."""
        return RowEntries(self, row * self.pitch)


@dataclass(frozen=True)
class RowEntries:
    """The entries of a row, from a place in the buffers on."""

    entries: Entries
    start: Any

    def key(self, at: Any) -> Any:
        """The key at a place."""
        return self.entries.keys[self.start + at]

    def position(self, at: Any) -> Any:
        """The position at a place."""
        return self.entries.positions[self.start + at]

    def entry(self, at: Any) -> KeyedPosition:
        """The key and the position at a place."""
        return self.key(at), self.position(at)

    def store(self, at: Any, key: Any, position: Any) -> None:
        """Store an entry."""
        self.entries.keys[self.start + at] = key
        self.entries.positions[self.start + at] = position

    def later(self, at: Any, key: Any, position: Any) -> Any:
        """Whether the entry at a place comes after another one."""
        equal = tirx.all(tirx.EQ(self.key(at), key), self.position(at) > position)
        return tirx.any(self.key(at) > key, equal)


@lowering("TopK")
def lower_top_k(context: Context) -> list[te.Tensor]:
    """The first elements along an axis in order, in at most n log n steps a row.

    NaN counts as the largest, as when numpy sorts: it comes first of the largest.
    """
    info = context.operand(0)
    output = context.output
    axis: int = context["axis"]
    largest = bool(context["largest"])
    own = TopKRows(*rows_along(info.shape, axis), output.shape[axis], info.dtype)
    inner = own.inner

    def emit(data: Any, values: Any, positions: Any) -> None:
        def element(row: Any, at: Any) -> Any:
            return data[(row // inner * own.length + at) * inner + row % inner]

        def store(row: Any, place: Any, position: Any) -> None:
            to = (row // inner * own.count + place) * inner + row % inner
            # Memory holds the position: the limits prove that it is in the row.
            inside = tirx.max(tirx.min(position, expression(own.length - 1)), 0)
            values[to] = element(row, inside)
            positions[to] = position.astype("int64")

        def key(row: Any, at: Any) -> Any:
            return sort_key(element(row, at), own.key, largest)

        (_by_heap if own.by_heap else _by_radix)(own, key, store)

    return loops(context, [context.tensor(0)], emit)


def workspace_entries(own: TopKRows, rows: int, pitch: int) -> Entries:
    """Entries of rows in workspaces."""
    size = rows * pitch
    return Entries(workspace(size, own.key), workspace(size, "int32"), own.key, pitch)


@contextmanager
def rows_of_blocks(own: TopKRows) -> Generator[tuple[Any, Any]]:
    """A launch of blocks with some rows each: the block, whose workspace they share, and a row."""
    each = ceil_div(own.rows, SORTING_BLOCKS)
    with launch(own.blocks) as block:
        with turns(tirx.min(expression(each), own.rows - block * each)) as i:
            yield block, block * each + i


def _by_heap(own: TopKRows, key: ElementKey, store: StoreResult) -> None:
    """The first elements of each row, of long ones those of each part first."""

    def select(heap: RowEntries, row: Any, first: Any, last: Any) -> None:
        _select(heap, own.count, first, last, lambda at: (key(row, at), at))

    def unload(heap: RowEntries, row: Any) -> None:
        _unload(heap, own.count, lambda place, _, position: store(row, place, position))

    if own.parts == 1:
        heaps = workspace_entries(own, own.blocks, own.count)
        with rows_of_blocks(own) as (block, row):
            select(heaps.of(block), row, 0, own.length)
            unload(heaps.of(block), row)
        return
    parts = workspace_entries(own, own.rows * own.parts, own.count)
    lists = own.parts * own.count
    heaps = workspace_entries(own, own.rows, own.count)
    length = ceil_div(own.length, own.parts)
    with launch(own.rows * own.parts) as part:
        row, first = part // own.parts, part % own.parts * length
        select(parts.of(part), row, first, tirx.min(first + length, own.length))
        _unload(parts.of(part), own.count, parts.of(part).store)
    with launch(own.rows) as row:
        _select(heaps.of(row), own.count, 0, lists, RowEntries(parts, row * lists).entry)
        unload(heaps.of(row), row)


def _select(
    heap: RowEntries, count: int, first: Any, last: Any, entry: Callable[[Any], KeyedPosition]
) -> None:
    """A heap of the first `count` entries, the last of them at its root.

    Entries are given in the order of the positions of those with equal keys, so that one that is
    equal to the root is not among the first.
    """
    with turns(count) as i:
        heap.store(i, *entry(first + i))
    with turns(count // 2) as i:
        place = count // 2 - 1 - i
        key, position = T.bind(heap.key(place)), T.bind(heap.position(place))
        sift(heap, place, count, key, position)
    begin = T.bind(first + count)
    runs = T.bind((last - begin) // COMPARED)

    def take(at: Any) -> None:
        key, position = (T.bind(value) for value in entry(at))
        with T.If(key < heap.key(0)), T.Then():
            sift(heap, 0, count, key, position)

    with turns(runs) as run:
        least = mutable(heap.entries.dtype)
        least[0] = entry(begin + run * COMPARED)[0]
        with T.serial(0, COMPARED) as i:
            IRBuilder.name(ROLLED, i)
            least[0] = tirx.min(least[0], entry(begin + run * COMPARED + i)[0])
        with T.If(least[0] < heap.key(0)), T.Then(), T.serial(0, COMPARED) as i:
            take(begin + run * COMPARED + i)
    with turns(last - begin - runs * COMPARED) as i:
        take(begin + runs * COMPARED + i)


def _unload(heap: RowEntries, count: int, store: StoreResult) -> None:
    """Take the entries from a heap, the last one first: `store(place, key, position)`."""
    with turns(count) as i:
        place = count - 1 - i
        root, root_position = T.bind(heap.key(0)), T.bind(heap.position(0))
        key, position = T.bind(heap.key(place)), T.bind(heap.position(place))
        sift(heap, 0, place, key, position)
        store(place, root, root_position)


def sift(heap: RowEntries, start: Any, size: Any, key: Any, position: Any) -> None:
    """Put an entry into the heap below a free place: later children move up."""
    hole, child = mutable(), mutable()
    hole[0] = start
    child[0] = 2 * hole[0] + 1
    with T.While(child[0] < expression(size)):
        other = child[0] + 1
        with T.If(other < expression(size)), T.Then():
            with T.If(heap.later(other, heap.key(child[0]), heap.position(child[0]))), T.Then():
                child[0] = other
        with T.If(heap.later(child[0], key, position)):
            with T.Then():
                heap.store(hole[0], heap.key(child[0]), heap.position(child[0]))
                hole[0] = child[0]
                child[0] = 2 * hole[0] + 1
            with T.Else():
                child[0] = expression(size)
    heap.store(hole[0], key, position)


def _by_radix(own: TopKRows, key: ElementKey, store: StoreResult) -> None:
    """Each row sorted by the digits of its keys, the lowest first; equal ones keep their order."""
    sides = [workspace_entries(own, own.blocks, own.length) for _ in range(2)]
    starts = workspace(own.blocks * own.passes * DIGITS, "int32")
    one = tirx.const(1, "int32")

    def digit(value: Any, number: int) -> Any:
        shifted = value >> tirx.const(number * DIGIT, own.key)
        signed = number == own.passes - 1
        low = (shifted + tirx.const(DIGITS // 2, own.key)) if signed else shifted
        return (low & tirx.const(DIGITS - 1, own.key)).astype("int32")

    with rows_of_blocks(own) as (block, row):
        first = block * (own.passes * DIGITS)
        with T.serial(0, own.passes * DIGITS) as i:
            starts[first + i] = tirx.const(0, "int32")
        with turns(own.length) as i:
            value = T.bind(key(row, i))
            sides[0].of(block).store(i, value, i)
            for number in range(own.passes):
                at = T.bind(first + number * DIGITS + digit(value, number))
                starts[at] = starts[at] + one
        with T.serial(0, own.passes) as number:
            before = mutable()
            before[0] = tirx.const(0, "int32")
            with T.serial(0, DIGITS) as i:
                at = first + number * DIGITS + i
                count = T.bind(starts[at])
                starts[at] = before[0]
                before[0] = before[0] + count
        for number in range(own.passes):
            one_side, other_side = (sides[(number + i) % 2].of(block) for i in range(2))
            with turns(own.length) as i:
                value = T.bind(one_side.key(i))
                at = T.bind(first + number * DIGITS + digit(value, number))
                to = T.bind(starts[at])
                starts[at] = to + one
                other_side.store(to, value, one_side.position(i))
        with turns(own.count) as place:
            store(row, place, sides[own.passes % 2].of(block).position(place))
