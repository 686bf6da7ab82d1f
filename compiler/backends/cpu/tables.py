"""The tables that executor.c works from; every field there is a word of 64 bits.

Column numbers and word offsets are those of the structures in executor.c.
"""

from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy
from numpy.typing import NDArray

from compiler.backends.memory import address, aligned_array
from compiler.errors import KernelError
from compiler.schedule.control import BodyPlace, control_buffers
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import Control, Schedule, Task, View

Words = NDArray[numpy.int64]

LAUNCH_WORDS = 8
STREAM_WORDS = 8
TASK_WORDS = 7
ENGINE_WORDS = 72
PLACE_WORDS = 6
CARRY_WORDS = 4
CONTROL_WORDS = 18
LAUNCH_FUNCTION = 0
LAUNCH_BUFFERS = 1
LAUNCH_BLOCKS = 2
LAUNCH_CONTROL = 5
SLOT_OFFSET = 1
TASK_ORDER = 4
TASK_AWAITED = 5
SPAN_WORDS = 5
ENGINE_SPANS = 11
ENGINE_SPAN_COUNT = 13
NOT_YET = -1
"""The allocation of slots that a run sets."""
PER_RUN = ("input", "output", "arena")
"""The kinds of allocations whose addresses change with each run."""


@dataclass(frozen=True)
class ScheduleTables:
    """A schedule as tables, without the addresses of buffers; executors share it.

    Tasks are stored stream by stream. `slots` holds an allocation and a byte offset for each
    argument of each launch, allocation -1 for those of bodies, which a run sets; a launch's word
    LAUNCH_BUFFERS is the number of its first slot, LAUNCH_CONTROL one more than that of its row in
    `controls`, or 0.
    """

    streams: Words
    tasks: Words
    launches: Words
    waits: Words
    slots: Words
    places: Words
    carries: Words
    controls: Words
    gates: Mapping[int, int]
    """The rows of the launches that follow those of tasks which measure sizes, by task."""

    def at(self, numbers: Words) -> "ScheduleTables":
        """The tables with these numbers where this one has positions among them."""
        slots = self.slots.copy()
        launches = self.launches.copy()
        slots[:, SLOT_OFFSET] = numbers[slots[:, SLOT_OFFSET]]
        launches[:, LAUNCH_BLOCKS] = numbers[launches[:, LAUNCH_BLOCKS]]
        return replace(self, slots=slots, launches=launches)


def make_plan(
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    addresses: Mapping[str, int],
    measuring: Container[int] = (),
) -> ScheduleTables:
    """Lay a schedule out; KernelError if a kernel is missing or does not fit its task.

    The tasks of `measuring` have one more launch, a gate, whose function is the executor's own.
    """
    order = sorted(range(len(schedule.tasks)), key=lambda t: (schedule.tasks[t].stream, t))
    position = {task: number for number, task in enumerate(order)}
    tasks: list[tuple[int, ...]] = []
    rows = LaunchRows(kernels, addresses)
    waits: list[int] = []
    gates: dict[int, int] = {}
    for index in order:
        task = schedule.tasks[index]
        first_launch = len(rows.launches)
        first_wait = len(waits)
        rows.add(task)
        if index in measuring:
            gates[index] = len(rows.launches)
            rows.launches.append((0, len(rows.slots), 0, 0, 0, 0, 0, 0))
        waits += [position[t] for t in task.after if schedule.tasks[t].stream != task.stream]
        tasks.append((first_launch, len(rows.launches), first_wait, len(waits), index, 0, 0))
    rows.add_bodies()
    table = _words(tasks, TASK_WORDS)
    table[waits, TASK_AWAITED] = 1  # their ends wake threads that sleep
    return ScheduleTables(
        streams=_streams([schedule.tasks[index].stream for index in order]),
        tasks=table,
        launches=_words(rows.launches, LAUNCH_WORDS),
        waits=_row(waits),
        slots=_words(rows.slots, 2),
        places=_words(rows.places, PLACE_WORDS),
        carries=_words(rows.carries, CARRY_WORDS),
        controls=_words(rows.controls, CONTROL_WORDS),
        gates=gates,
    )


@dataclass
class LaunchRows:
    """The rows of launches: those of tasks, then those of bodies, each in one piece."""

    kernels: Mapping[str, KernelSpec]
    addresses: Mapping[str, int]
    launches: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    slots: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    places: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    carries: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    controls: list[list[int]] = field(default_factory=list[list[int]])
    _pending: deque[tuple[list[int], Control, Sequence[BodyPlace]]] = field(
        default_factory=deque[tuple[list[int], Control, Sequence[BodyPlace]]]
    )

    def add(self, task: Task) -> None:
        """Append a task's launches; bodies are left for `add_bodies`."""
        first = len(self.slots)
        if task.control is not None:
            number = self._control(task, task.control)
            self.launches.append((0, first, 1, 0, 0, number, 0, 0))
            self._arguments(task.reads + task.writes)
            return
        for launch, views in _launches(task, self.kernels):
            blocks = launch.grid[0]
            address = self.addresses.get(launch.symbol)
            if address is None:
                raise KernelError(f"the code shared by executables has no '{launch.symbol}'")
            self.launches.append((address, len(self.slots), blocks, 0, 0, 0, 0, 0))
            self._arguments(views)

    def _arguments(self, views: Sequence[View]) -> None:
        self.slots += [(view.allocation, view.offset) for view in views]

    def _control(self, task: Task, control: Control) -> int:
        """The number of a new row for a control task, counted from 1."""
        form = control.form
        spaces = control_buffers(task, control)
        first = len(self.carries)
        self.carries += spaces.carries
        length = -1 if form.length is None else form.length
        head = [form.kind == "loop", length, spaces.iteration, spaces.condition]
        self.controls.append([*map(int, head), first, len(self.carries)])
        self._pending.append((self.controls[-1], control, spaces.places))
        return len(self.controls)

    def add_bodies(self) -> None:
        """Append the launches of all bodies, and of theirs."""
        while self._pending:
            row, control, places = self._pending.popleft()
            for body in control.bodies:
                row += self._body(body, places)
            row += [0] * (CONTROL_WORDS - len(row))

    def _body(self, body: Schedule, places: Sequence[BodyPlace]) -> list[int]:
        """Append the launches of a body; the row of its ranges."""
        first_launch = len(self.launches)
        first_slot = len(self.slots)
        for task in body.tasks:
            self.add(task)
        ranges = [first_launch, len(self.launches)]
        slots = list(enumerate(self.slots[first_slot:], first_slot))
        for moving in (False, True):
            ranges.append(len(self.places))
            self.places += [
                (slot, *_row_of(places[allocation], offset))
                for slot, (allocation, offset) in slots
                if places[allocation].moves == moving
            ]
            ranges.append(len(self.places))
        self.slots[first_slot:] = [(NOT_YET, 0)] * len(slots)
        return ranges


def _row_of(body_place: BodyPlace, offset: int) -> tuple[int, ...]:
    return (
        body_place.first,
        body_place.odd,
        body_place.even,
        body_place.offset + offset,
        body_place.step,
    )


def _launches(task: Task, kernels: Mapping[str, KernelSpec]) -> Iterator[tuple[Launch, list[View]]]:
    """A task's launches, each with its buffers."""
    views = task.reads + task.writes
    if task.kernel not in kernels:
        raise KernelError(f"the schedule launches '{task.kernel}', which is not among the kernels")
    for launch in kernels[task.kernel].launches:
        if not all(0 <= argument < len(views) for argument in launch.args):
            raise KernelError(
                f"'{launch.symbol}' of kernel '{task.kernel}' takes buffers {launch.args} of a "
                f"task that has {len(views)}"
            )
        yield launch, [views[argument] for argument in launch.args]


def _streams(of_tasks: Sequence[int]) -> Words:
    """The range of each stream's tasks; in run 0, before the first, all have ended."""
    used, first, counts = numpy.unique(_row(of_tasks), return_index=True, return_counts=True)
    table = _words([], STREAM_WORDS, len(used))
    table[:, 0] = first
    table[:, 1] = first + counts
    table[:, 4] = first + counts
    return table


def _row(values: Sequence[int]) -> Words:
    return numpy.array(values, numpy.int64)


def _words(rows: Sequence[Sequence[int]], width: int, height: int | None = None) -> Words:
    table = aligned_array((len(rows) if height is None else height, width), numpy.int64)
    table[:] = rows if rows else 0
    return table


class Tables:
    """A plan bound to buffers: the memory of one engine of executor.c, at `address`."""

    def __init__(
        self,
        plan: ScheduleTables,
        kinds: Sequence[str],
        bases: Sequence[int],
        threads: int,
        most_spans: int = 0,
    ):
        """`kinds` and `bases` (ignored for those PER_RUN) have one entry an allocation.

        `slots` and `launches` are the executor's own. Runs are timed if there is place for
        `most_spans`.
        """
        self._plan = plan
        streams, tasks, launches = (_copy(t) for t in (plan.streams, plan.tasks, plan.launches))
        allocation = plan.slots[:, 0]
        offset = plan.slots[:, 1]
        slots = _copy(_row([*bases, 0])[allocation] + offset)
        self.slots = slots
        self.launches = launches
        launches[:, LAUNCH_BUFFERS] = address(slots) + 8 * launches[:, LAUNCH_BUFFERS]
        control = launches[:, LAUNCH_CONTROL]
        first = address(plan.controls) - 8 * CONTROL_WORDS
        control[control > 0] = first + 8 * CONTROL_WORDS * control[control > 0]
        bindings = _bindings(allocation, offset, [*kinds, "unbound"])
        self._engine = _words([[0] * ENGINE_WORDS], ENGINE_WORDS)
        self._owned = (streams, tasks, launches, plan.waits, slots, bindings)
        self._owned += (plan.places, plan.carries)
        head = [threads, len(streams), len(bindings), *map(address, self._owned)]
        self._engine[0, : len(head)] = head
        self._spans = _words([], SPAN_WORDS, most_spans)
        if most_spans:
            span_words = slice(ENGINE_SPANS, ENGINE_SPANS + 2)
            self._engine[0, span_words] = address(self._spans), most_spans
        self.address = address(self._engine)

    def forget_spans(self) -> None:
        """Begin a new list of spans; no run may be under way."""
        self._engine[0, ENGINE_SPAN_COUNT] = 0

    def spans(self) -> Words:
        """A row for each span of the last run: task, launch (one is -1), thread, start and end."""
        return self._spans[: self._engine[0, ENGINE_SPAN_COUNT]].copy()


def _bindings(allocation: Words, offset: Words, kinds: Sequence[str]) -> Words:
    """Slot, number among the buffers that change with each run, and offset there."""
    number = numpy.cumsum([kind in PER_RUN for kind in kinds], dtype=numpy.int64) - 1
    changing = numpy.array([kind in PER_RUN for kind in kinds], numpy.bool_)
    slot = numpy.flatnonzero(changing[allocation])
    return _copy(numpy.stack([slot, number[allocation[slot]], offset[slot]], axis=1))


def _copy(table: Words) -> Words:
    copy = aligned_array(table.shape, numpy.int64)
    copy[:] = table
    return copy
