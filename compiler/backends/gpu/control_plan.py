"""If and Loop tasks as tables for a GPU, before a device is touched.

A pointer to each tensor of a body is in a slot. The kernels of `control.cuh` set it by the slots of
the task's tensors; the rows of their tables have the columns of the structures there. Kernels of
bodies read slots, except where all that they touch stays at one address.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from compiler.backends.gpu.pointers import BufferOffset
from compiler.schedule.control import BodyPlace, ControlBuffers, control_buffers, head_of
from compiler.schedule.tasks import Control, ControlForm, ControlKind, Schedule, Task, View

FIXED_KINDS = ("weight", "arena")
"""The kinds of allocations that are at one address as long as an executor lives."""

NO_SLOT = -1
"""Stands in a record, as `control.cuh` reads it, for the slot of a tensor that a task has not."""

NO_LENGTH = -1
"""Stands there for the trip count of a loop that reads it, or of an If."""

Row = tuple[int, ...]
Root = BufferOffset | None
"""The one place of a tensor in the outermost schedule's memory, if it has one."""


@dataclass(frozen=True, slots=True)
class BodyLaunch:
    """A launch of a body's kernel, by its number: on fixed `places`, or on slots."""

    kernel: str
    number: int
    views: tuple[View, ...]
    places: tuple[BufferOffset, ...] = ()
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlPlan:
    """A control task by the number of its record, the bytes that it carries, and its bodies."""

    kind: ControlKind
    record: int
    carried_bytes: int
    bodies: "tuple[tuple[BodyLaunch | ControlPlan, ...], ...]"


@dataclass(frozen=True, slots=True)
class Record:
    """A control task's places and carries, and the slots of its numbers, -1 for none."""

    fixed: tuple[Row, ...]
    moving: tuple[Row, ...]
    carries: tuple[Row, ...]
    length: int
    trips: int
    going: int
    iteration: int
    condition: int


def table_words(slots: int, records: Sequence[Record]) -> tuple[list[int], list[int], list[int]]:
    """All tables as words of 64 bits: slots, then each record after its places and carries.

    Also which words are pointers, given as numbers of words, and where each record starts.
    """
    words = [0] * slots
    pointers = list[int]()
    starts = list[int]()
    for record in records:
        places = len(words)
        words += [word for row in (*record.fixed, *record.moving) for word in row]
        carries = len(words)
        words += [word for row in record.carries for word in row]
        starts.append(len(words))
        pointers += range(len(words), len(words) + 3)
        words += [0, places, carries, len(record.fixed), len(record.moving), len(record.carries)]
        words += [record.length, record.trips, record.going, record.iteration, record.condition]
        words += [0, 0]
    return words, pointers, starts


@dataclass
class ControlPlanner:
    """Plans the control tasks of one schedule; `roots` are the slots that a host sets.

    `launches` gives the buffers of each launch of a task.
    """

    schedule: Schedule
    launches: Callable[[Task], Sequence[Sequence[View]]]
    slots: int = 0
    roots: list[tuple[int, BufferOffset]] = field(default_factory=list[tuple[int, BufferOffset]])
    records: dict[int, Record] = field(default_factory=dict[int, Record])
    _numbers: Iterator[int] = field(default_factory=count)

    def add(self, task: Task, control: Control) -> ControlPlan:
        """Plan a task of the schedule."""
        views = task.reads + task.writes
        buffers = [self.new_slot() for _ in views]
        self.roots += [(n, (v.allocation, v.offset)) for n, v in zip(buffers, views, strict=True)]
        return self.plan(task, control, buffers, [self._root(view) for view in views])

    def new_slot(self) -> int:
        """The number of one more slot."""
        self.slots += 1
        return self.slots - 1

    def _root(self, view: View) -> Root:
        fixed = self.schedule.allocations[view.allocation].kind in FIXED_KINDS
        return (view.allocation, view.offset) if fixed else None

    def plan(
        self, task: Task, control: Control, buffers: Sequence[int], roots: Sequence[Root]
    ) -> ControlPlan:
        """Plan a task whose tensors have these slots, and these places if they stay there."""
        number = next(self._numbers)
        spaces = control_buffers(task, control)
        body_roots = [_root_of(place, roots) for place in spaces.places]
        bodies = [_Body(self, spaces.places, buffers, body_roots) for _ in control.bodies]
        steps = [
            tuple(step for inner in body.tasks for step in slots.steps(inner))
            for slots, body in zip(bodies, control.bodies, strict=True)
        ]
        rows = [row for body in bodies for row in body.rows()]
        self.records[number] = _record(control.form, spaces, buffers, rows)
        carried = max((carry[3] for carry in spaces.carries), default=0)
        return ControlPlan(control.form.kind, number, carried, tuple(steps))


def _record(
    form: ControlForm,
    spaces: ControlBuffers,
    buffers: Sequence[int],
    rows: Sequence[tuple[Row, bool]],
) -> Record:
    slot_of = {NO_SLOT: NO_SLOT, **dict(enumerate(buffers))}
    # the condition is the last operand that a task reads itself; a trip count comes before it
    operands = head_of(form)
    return Record(
        fixed=tuple(row for row, moves in rows if not moves),
        moving=tuple(row for row, moves in rows if moves),
        carries=tuple((*map(slot_of.__getitem__, n), nbytes) for *n, nbytes in spaces.carries),
        length=NO_LENGTH if form.length is None else form.length,
        trips=slot_of[0 if operands == 2 else NO_SLOT],
        going=slot_of[operands - 1],
        iteration=slot_of[spaces.iteration],
        condition=slot_of[spaces.condition],
    )


def _root_of(place: BodyPlace, roots: Sequence[Root]) -> Root:
    """The one place of a body's tensor; an empty arena, the last place of all, has none."""
    if place.moves or place.first >= len(roots):
        return None
    root = roots[place.first]
    return None if root is None else (root[0], root[1] + place.offset)


@dataclass
class _Body:
    """The slots of one body, by its allocation and offset."""

    planner: ControlPlanner
    places: Sequence[BodyPlace]
    buffers: Sequence[int]
    roots: Sequence[Root]
    slots: dict[BufferOffset, int] = field(default_factory=dict[BufferOffset, int])

    def steps(self, task: Task) -> Iterable[BodyLaunch | ControlPlan]:
        """The launches of a task, or its own plan."""
        if task.control is not None:
            views = task.reads + task.writes
            slots = [self._slot(v) for v in views]
            roots = [self._root(v) for v in views]
            yield self.planner.plan(task, task.control, slots, roots)
            return
        for number, views in enumerate(self.planner.launches(task)):
            yield self._launch(task.kernel, number, tuple(views))

    def _launch(self, kernel: str, number: int, views: tuple[View, ...]) -> BodyLaunch:
        roots = [self._root(view) for view in views]
        fixed = tuple(root for root in roots if root is not None)
        if len(fixed) == len(views):
            return BodyLaunch(kernel, number, views, places=fixed)
        return BodyLaunch(kernel, number, views, slots=tuple(self._slot(v) for v in views))

    def _root(self, view: View) -> Root:
        root = self.roots[view.allocation]
        return None if root is None else (root[0], root[1] + view.offset)

    def _slot(self, view: View) -> int:
        key = view.allocation, view.offset
        if key not in self.slots:
            self.slots[key] = self.planner.new_slot()
        return self.slots[key]

    def rows(self) -> Iterable[tuple[Row, bool]]:
        """The row of each slot, and whether it moves."""
        for (allocation, offset), slot in self.slots.items():
            place = self.places[allocation]
            ends = (self.buffers[n] for n in (place.first, place.odd, place.even))
            yield (slot, *ends, place.offset + offset, place.step), place.moves
