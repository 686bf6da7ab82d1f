"""Ranges of tensors as groups, and how thread blocks divide the tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.fusion.ranges import (
    TensorRange,
    find_parted_ranges,
    find_ranges,
    is_row_sum,
)
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.group import Group, Node

SINGLE_THREADS, THREADS = 1024, 256
"""Threads of a single block, and of one of several."""

ROW_THREADS = (256, 128, 64, 32)
"""Threads of a block that has a row."""

DIVISIONS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
"""The most blocks of a kernel."""


@dataclass(frozen=True)
class Problem:
    """The extremes of a tensor of `shape`, and the results for each element and of one element.

    Where the kernel that computed the tensor wrote the extremes of its `parts`, these are reduced.
    `sums` is a result that adds rows of integers, if there is one; `nbytes` are those of all
    tensors.
    """

    tensor: int
    lowest: Node
    highest: Node
    shape: tuple[int, ...]
    wide: tuple[int, ...]
    scalars: tuple[int, ...]
    parts: int = 0
    sums: int | None = None
    nbytes: int = 0

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)

    @property
    def row(self) -> int:
        """Elements of a row whose sum is a result; 0 without such a result."""
        return 0 if self.sums is None else self.shape[-1]


@dataclass(frozen=True)
class Config:
    """The threads of a block, the elements of a thread, and the blocks."""

    threads: int
    items: int
    blocks: int

    def launches(self, problem: Problem) -> int:
        """Launches of the kernel."""
        return 1 if self.blocks == 1 or problem.parts else 2


def read_range(group: Group) -> Problem | None:
    """The problem of a group that is a range, casts of its tensor aside; None for any other."""
    (tensor_range, *others) = (
        find_ranges(group) or _all_of(group, find_parted_ranges(group)) or [None]
    )
    if tensor_range is None or others or not _is_all(group, tensor_range):
        return None
    sums = [op.outputs[0] for op in group.operators if is_row_sum(group, op)]
    if len(sums) > 1 or not set(sums) <= set(group.outputs):
        return None
    several = (v for v in group.outputs if prod(group.values[v].shape) > 1)
    wide = tuple(v for v in several if v not in sums)
    lowest, highest = (group.operators[i] for i in (tensor_range.lowest, tensor_range.highest))
    scalars = tuple(v for v in group.outputs if v not in (*wide, *sums))
    reduced = lowest.operand(0)
    parts = 0 if reduced == tensor_range.tensor else group.values[reduced].elements
    return Problem(
        tensor=tensor_range.tensor,
        lowest=lowest,
        highest=highest,
        shape=group.values[tensor_range.tensor].shape,
        wide=wide,
        scalars=scalars,
        parts=parts,
        sums=sums[0] if sums else None,
        nbytes=group.traffic_bytes,
    )


def _all_of(group: Group, ranges: Sequence[TensorRange]) -> list[TensorRange]:
    """The ranges that a group consists of, of those on any tensor."""
    return [one for one in ranges if _is_all(group, one)]


def _is_all(group: Group, tensor_range: TensorRange) -> bool:
    """Whether a group has nothing but operators of a range and casts of its tensor."""
    rest = set(range(len(group.operators))).difference(tensor_range.operators)
    return all(_leads_to(group, group.operators[i], tensor_range.tensor) for i in rest)


def _leads_to(group: Group, op: Node, tensor: int) -> bool:
    """Whether an operator casts what a group reads to the tensor of its range."""
    source = op.inputs[0] if op.type == "Cast" else None
    return op.outputs == (tensor,) and source is not None and source < group.inputs


def configs_of(problem: Problem) -> Iterator[Config]:
    """Few blocks with many elements each, or many; one for each row of which the sum is needed."""
    if problem.row:
        for threads in ROW_THREADS:
            items = ceil_div(problem.row, threads)
            yield Config(threads, items, problem.elements // problem.row)
        return
    seen: set[int] = set()
    for most in DIVISIONS:
        threads = SINGLE_THREADS if most == 1 else THREADS
        items = ceil_div(problem.elements, threads * most)
        blocks = ceil_div(problem.elements, threads * items)
        if blocks not in seen:
            seen.add(blocks)
            yield Config(threads, items, blocks)


def after_range(group: Group, problem: Problem, results: Sequence[int]) -> Group:
    """The group of some results, which reads the two extremes and the tensor after its other reads.

    Of the sums of rows it has the addends, as a folded result.
    """
    given = [*(op.outputs[0] for op in (problem.lowest, problem.highest)), problem.tensor]
    numbers = {value: group.inputs + i for i, value in enumerate(given)}

    def number(value: int) -> int:
        return numbers.get(value, value if value < group.inputs else value + len(given))

    addends = replace(group.values[problem.tensor], dtype="int32", folded="sum")
    infos = {problem.sums: addends}
    kept = (
        replace(op, type="Identity", attributes={}, inputs=op.inputs[:1])
        if op.outputs[0] in infos
        else op
        for op in group.operators
        if numbers.keys().isdisjoint(op.outputs)
    )
    operators = (
        replace(
            op,
            inputs=tuple(None if v is None else number(v) for v in op.inputs),
            outputs=tuple(number(v) for v in op.outputs),
        )
        for op in kept
    )
    own = [infos.get(v, group.values[v]) for v in range(group.inputs, len(group.values))]
    values = [*group.reads, *(group.values[v] for v in given), *own]
    return replace(
        group,
        values=tuple(values),
        inputs=group.inputs + len(given),
        weights=(*group.weights, *(False for _ in given)),
        constants={number(v): array for v, array in group.constants.items()},
        operators=tuple(operators),
        outputs=tuple(number(v) for v in results),
    )
