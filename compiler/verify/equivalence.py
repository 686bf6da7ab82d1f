"""Whether two schedules compute the same, whatever their order, streams and memory."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compiler.errors import ScheduleError
from compiler.schedule.control import results_of
from compiler.schedule.tasks import Control, Schedule, Task, View
from compiler.verify.structure import describe_task

UNKNOWN_VALUE = 0
"""The number that stands for bytes which no task has written."""

Piece = tuple[int, int, int]
"""A value's number, and which bytes of it, from and to."""


@dataclass
class _Bytes:
    """The values whose bytes an allocation holds, by position."""

    begins: list[int]
    pieces: list[Piece]

    def read(self, begin: int, end: int) -> tuple[Piece, ...]:
        """The pieces of values in a range."""
        pieces: list[Piece] = []
        index = bisect_right(self.begins, begin) - 1
        while begin < end:
            value, first, last = self.pieces[index]
            skip = begin - self.begins[index]
            size = min(end - begin, last - first - skip)
            pieces.append((value, first + skip, first + skip + size))
            begin += size
            index += 1
        return tuple(_merged(pieces))

    def write(self, begin: int, end: int, value: int) -> None:
        """Put a value into a range."""
        for position in (begin, end):
            self._cut(position)
        first, last = (bisect_right(self.begins, p - 1) for p in (begin, end))
        self.begins[first:last] = [begin]
        self.pieces[first:last] = [(value, 0, end - begin)]

    def _cut(self, position: int) -> None:
        index = bisect_right(self.begins, position) - 1
        value, first, last = self.pieces[index]
        skip = position - self.begins[index]
        if 0 < skip < last - first:
            self.begins.insert(index + 1, position)
            self.pieces[index : index + 1] = [
                (value, first, first + skip),
                (value, first + skip, last),
            ]


def _merged(pieces: list[Piece]) -> Iterator[Piece]:
    """The pieces, where consecutive ones of one value are merged."""
    last: Piece | None = None
    for piece in pieces:
        if last is not None and last[0] == piece[0] and last[2] == piece[1]:
            last = last[0], last[1], piece[2]
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


@dataclass
class _Numbering:
    """A number for each computed value, the same for equal computations."""

    numbers: dict[object, int] = field(default_factory=dict[object, int])

    def of(self, meaning: object) -> int:
        """The number of a value, given what determines it."""
        return self.numbers.setdefault(meaning, 1 + len(self.numbers))

    def run(
        self, schedule: Schedule, is_body: bool = False
    ) -> tuple[list[int], list[tuple[Piece, ...]]]:
        """The number of each task and the pieces of each output, executing in launch order.

        The inputs of a body are known by their position, not by their name.
        """
        memory = list[_Bytes]()
        for position, allocation in enumerate(schedule.allocations):
            value = UNKNOWN_VALUE
            if allocation.kind in ("input", "weight"):
                name = position if is_body else allocation.name
                value = self.of((allocation.kind, name, allocation.dtype, allocation.shape))
            memory.append(_Bytes([0], [(value, 0, max(allocation.nbytes, 1))]))

        def read(view: View) -> object:
            pieces = memory[view.allocation].read(view.offset, view.offset + view.nbytes)
            return view.dtype, view.shape, pieces

        tasks: list[int] = []
        for task in schedule.tasks:
            meaning = task.kernel if task.control is None else self._control(task.control)
            types = tuple((view.dtype, view.shape) for view in _results(task))
            tasks.append(self.of((meaning, tuple(map(read, task.reads)), types)))
            for index, view in enumerate(task.writes):
                if size := view.nbytes:
                    value = self.of((tasks[-1], index))
                    memory[view.allocation].write(view.offset, view.offset + size, value)
        outputs = [
            memory[number].read(0, allocation.nbytes)
            for number, allocation in enumerate(schedule.allocations)
            if allocation.kind == "output"
        ]
        return tasks, outputs

    def _control(self, control: Control) -> object:
        """The values that bodies compute from their inputs, whatever their order and memory."""
        return control.form, *(tuple(self.run(body, is_body=True)[1]) for body in control.bodies)


def _results(task: Task) -> Sequence[View]:
    """The writes that make a task what it is: a control task's workspaces depend on memory."""
    if task.control is None:
        return task.writes
    arena = any(body.of_kind("arena") for body in task.control.bodies)
    return task.writes[: results_of(task.control.form, len(task.writes), arena)]


def _by_output(
    schedule: Schedule, pieces: Sequence[tuple[Piece, ...]]
) -> dict[str, tuple[Piece, ...]]:
    outputs = schedule.of_kind("output")
    return {output.name: values for output, values in zip(outputs, pieces, strict=True)}


def check_equivalent(schedule: Schedule, reference: Schedule) -> None:
    """Raise ScheduleError, with the first task to blame, unless both compute the same outputs.

    Both are executed on symbols in launch order: a value is its kernel and the values it reads.
    Order, streams, memory and repeated tasks may differ. Schedules without races are required.
    """
    numbering = _Numbering()
    reference_tasks, reference_pieces = numbering.run(reference)
    tasks, pieces = numbering.run(schedule)
    expected = _by_output(reference, reference_pieces)
    outputs = _by_output(schedule, pieces)
    allowed = set(reference_tasks)
    for index, number in enumerate(tasks):
        if number not in allowed:
            raise ScheduleError(
                f"task {index} {describe_task(schedule, index)} is not one of the model's: it reads"
                " something else, or has another kernel or types; restore its buffers and its"
                " place after the tasks that it depends on"
            )
    if list(outputs) != list(expected):
        raise ScheduleError(
            f"the schedule has outputs {', '.join(outputs)}; the model has {', '.join(expected)}"
        )
    for name, contents in expected.items():
        if outputs[name] != contents:
            raise ScheduleError(f"output '{name}' would not hold what the model computes")
