"""The lowering of KeptBoxes: a heap of the candidates of each class gives the best, one by one.

Few boxes of many are wanted, as a rule: a heap gives each in log n steps, where sorting all scores
would cost more than every comparison of boxes.
"""

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.kernels.ops.common import is_nan, sort_key
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.opaque import ROLLED, loops, mutable, turns, workspace
from compiler.kernels.ops.selection.top_k import (
    COMPARED,
    RowEntries,
    TopKRows,
    rows_of_blocks,
    sift,
    workspace_entries,
)
from compiler.kernels.sizes import expression
from compiler.net.operators import KEPT_BOXES

SIDES = 4
"""The coordinates of a box: smaller y and x, larger y and x."""


def _larger(a: Any, b: Any) -> Any:
    """The larger of two numbers; `b` if one is NaN."""
    return tirx.Select(a > b, a, b)


def _smaller(a: Any, b: Any) -> Any:
    return tirx.Select(a < b, a, b)


def _placed(sides: list[Any]) -> list[Any]:
    """The sides of a box; of one that has NaN, sides between which nothing is shared with others.

    So the loop over boxes compares numbers alone.
    """
    lost = T.bind(tirx.any(*map(is_nan, sides)))
    nowhere = [sign * tirx.infinity("float32") for sign in (1, 1, -1, -1)]
    return [
        T.bind(tirx.Select(lost, other, side)) for side, other in zip(sides, nowhere, strict=True)
    ]


@dataclass(frozen=True)
class _Kept:
    """The boxes of one class that stay: their sides and areas, and what each shares with another.

    Each row of the workspace has `most` numbers.
    """

    numbers: Any
    start: Any
    most: Any

    def at(self, row: int, box: Any) -> Any:
        """The place of a number of a box."""
        return self.start + row * self.most + box

    def add(self, box: Any, sides: list[Any], area: Any) -> None:
        """Store a box as the one of this number."""
        for row, side in enumerate([*sides, area]):
            self.numbers[self.at(row, box)] = side

    def overlaps(self, count: Any, sides: list[Any], area: Any, widest: Any) -> Any:
        """Whether a box shares too much of the union with one of the first.

        What is shared is stored first: a multiplication and an addition in the same loop would
        become one operation, and be rounded once.
        """
        zero = tirx.const(0, "float32")
        own = self.numbers
        with turns(count) as i:
            height, width = (
                _smaller(sides[axis + 2], own[self.at(axis + 2, i)])
                - _larger(sides[axis], own[self.at(axis, i)])
                for axis in range(2)
            )
            own[self.at(SIDES + 1, i)] = _larger(height, zero) * _larger(width, zero)
        all_fit = mutable()
        all_fit[0] = tirx.const(1, "int32")
        with turns(count) as i:
            shared = own[self.at(SIDES + 1, i)]
            part = shared / (area + own[self.at(SIDES, i)] - shared)
            part = tirx.Select(shared > zero, part, zero)
            # TVM makes `part > widest` of the contrary of this, and that is false of NaN
            fits = tirx.Select(part <= widest, tirx.const(1, "int32"), tirx.const(0, "int32"))
            all_fit[0] = all_fit[0] & fits
        return tirx.EQ(all_fit[0], 0)


@lowering(KEPT_BOXES)
def lower_kept_boxes(context: Context) -> list[te.Tensor]:
    """The boxes of each class that overlap no better one too much, and which of these there are."""
    _, classes, count = context.shape(1)
    images = context.shape(1)[0]
    most = context["most"]
    own = TopKRows(images * classes, count, 1, count, "float32")
    limited = context.input(3) is not None
    tensors = [context.tensor(i) for i in range(4 if limited else 3)]

    def emit(boxes: Any, scores: Any, widest: Any, *others: Any) -> None:
        least = others[0][0] if limited else None
        chosen, there = others[-2:]
        heaps = workspace_entries(own, own.blocks, count)
        numbers = workspace(own.blocks * (SIDES + 2) * most, "float32")
        with rows_of_blocks(own) as (block, row):
            heap = heaps.of(block)
            kept = _Kept(numbers, block * ((SIDES + 2) * most), expression(most))
            size = _candidates(heap, scores, row * count, count, least)
            taken = mutable()
            taken[0] = tirx.const(0, "int32")
            with T.While(tirx.all(size[0] > 0, taken[0] < expression(most))):
                best = T.bind(count - 1 - heap.position(0))
                best = tirx.max(tirx.min(best, expression(count - 1)), 0)
                _take(heap, size)
                first = (row // classes * count + best) * SIDES
                sides = _placed([T.bind(boxes[first + side]) for side in range(SIDES)])
                area = T.bind((sides[2] - sides[0]) * (sides[3] - sides[1]))
                with T.If(tirx.Not(kept.overlaps(taken[0], sides, area, widest[0]))), T.Then():
                    place = T.bind(taken[0])
                    kept.add(place, sides, area)
                    with T.If(tirx.all(place >= 0, place < expression(most))), T.Then():
                        chosen[row * most + place] = best.astype("int64")
                    taken[0] = place + 1
            with turns(most) as i:
                at = row * most + i
                there[at] = i < taken[0]
                with T.If(i >= taken[0]), T.Then():
                    chosen[at] = tirx.const(0, "int64")

    return loops(context, tensors, emit)


def _candidates(heap: RowEntries, scores: Any, first: Any, count: Any, least: Any) -> Any:
    """A heap of the boxes whose scores exceed the least, all if there is none; how many they are.

    The root of a heap comes last by key and position: so it is the best, and of equal ones the
    first, if positions count from the end. Most blocks of scores have no candidate, which vectors
    find at once.
    """
    size = mutable()
    size[0] = tirx.const(0, "int32")

    def add(at: Any) -> None:
        score = T.bind(scores[first + at])
        key = sort_key(score, "int32", False)
        key = tirx.Select(is_nan(score), tirx.min_value("int32"), key)
        chosen: Any = tirx.const(1, "bool") if least is None else score > least
        with T.If(chosen), T.Then():
            place = T.bind(size[0])
            heap.store(place, key, count - 1 - at)
            size[0] = place + 1

    runs = count // COMPARED
    with turns(runs) as run:
        any_one = mutable()
        any_one[0] = tirx.const(1 if least is None else 0, "int32")
        if least is not None:
            with T.serial(0, COMPARED) as i:
                IRBuilder.name(ROLLED, i)
                above = scores[first + run * COMPARED + i] > least
                any_one[0] = any_one[0] | above.astype("int32")
        with T.If(any_one[0] > 0), T.Then(), T.serial(0, COMPARED) as i:
            add(run * COMPARED + i)
    with turns(count - runs * COMPARED) as i:
        add(runs * COMPARED + i)
    with turns(size[0] // 2) as i:
        place = size[0] // 2 - 1 - i
        key = T.bind(heap.key(place))
        position = T.bind(heap.position(place))
        sift(heap, place, size[0], key, position)
    return size


def _take(heap: RowEntries, size: Any) -> None:
    """Take the root from a heap."""
    size[0] = size[0] - 1
    with T.If(size[0] > 0), T.Then():
        key = T.bind(heap.key(size[0]))
        position = T.bind(heap.position(size[0]))
        sift(heap, 0, size[0], key, position)
