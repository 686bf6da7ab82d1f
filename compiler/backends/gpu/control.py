"""If and Loop tasks on a GPU: their tables in its memory, and their nodes in a graph."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from compiler.backends.gpu.driver import Driver, Handle, PreparedLaunch
from compiler.backends.gpu.functions import Functions, arguments_of
from compiler.backends.gpu.memory import as_bytes, reserve, upload
from compiler.backends.gpu.pointers import POINTER_BYTES, BufferOffset
from compiler.errors import DeviceError
from compiler.schedule.control import BodyPlace, ControlBuffers, control_buffers, head_of
from compiler.schedule.kernels import Launch
from compiler.schedule.tasks import Control, ControlForm, ControlKind, Schedule, Task, View

# If and Loop tasks as tables for a GPU, before a device is touched.
#
# A pointer to each tensor of a body is in a slot. The kernels of `control.cuh` set it by the slots
# of the task's tensors; the rows of their tables have the columns of the structures there. Kernels
# of bodies read slots, except where all that they touch stays at one address.
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
        body_roots = [_root_of(body_place, roots) for body_place in spaces.places]
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


def _root_of(body_place: BodyPlace, roots: Sequence[Root]) -> Root:
    """The one place of a body's tensor; an empty arena, the last place of all, has none."""
    if body_place.moves or body_place.first >= len(roots):
        return None
    root = roots[body_place.first]
    return None if root is None else (root[0], root[1] + body_place.offset)


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
            body_place = self.places[allocation]
            ends = (self.buffers[n] for n in (body_place.first, body_place.odd, body_place.even))
            yield (slot, *ends, body_place.offset + offset, body_place.step), body_place.moves


BEFORE = 0
"""The launch of a control task's own kernel before its bodies."""

NEXT = 1
"""The launch of a loop's kernel at the end of each iteration."""

END = 2
"""The launch of a loop's kernel after the last one."""

COPIED_BYTES = 4 << 10
"""The bytes of a carried value that one block copies at a loop's end, up to MOST_BLOCKS."""

MOST_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class ControlCalls:
    """A control task's own launches, on its `record`, and the launches of its bodies in order."""

    kind: ControlKind
    record: int
    carried_bytes: int
    own: tuple[tuple[Handle, Launch], ...]
    bodies: "tuple[tuple[PreparedLaunch | ControlCalls, ...], ...]"

    def call(self, driver: Driver, which: int, *condition: int) -> PreparedLaunch:
        """One of the task's launches; one that sets a condition takes it as an argument."""
        function, launch = self.own[which]
        blocks = min(MOST_BLOCKS, -(-self.carried_bytes // COPIED_BYTES)) if which == END else 1
        return driver.call(function, (blocks, 1, 1), launch.block, 0, [self.record, *condition])


class ControlTables:
    """The tables of a schedule's control tasks; `of_task` has the launches of each.

    The slots of their tensors hold the present addresses of inputs and outputs.
    """

    def __init__(
        self, driver: Driver, schedule: Schedule, functions: Functions, addresses: Sequence[int]
    ) -> None:
        self._driver = driver
        self._functions = functions
        self._addresses = addresses
        self._block = 0
        self._records = list[int]()

        def launches(task: Task) -> list[list[View]]:
            return [arguments_of(task, launch) for _, launch in functions.of[task.kernel]]

        planner = ControlPlanner(schedule, launches)
        plans = {
            index: planner.add(task, task.control)
            for index, task in enumerate(schedule.tasks)
            if task.control is not None
        }
        self._roots = planner.roots
        if plans:
            self._place(planner.slots, [planner.records[n] for n in range(len(planner.records))])
        self.of_task = {index: self._calls(plan) for index, plan in plans.items()}

    def _place(self, slots: int, records: Sequence[Record]) -> None:
        """Put slots, rows and records into one block."""
        # All tables as words of 64 bits: slots, then each record after its places and carries.
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
            words += [
                0,
                places,
                carries,
                len(record.fixed),
                len(record.moving),
                len(record.carries),
            ]
            words += [record.length, record.trips, record.going, record.iteration, record.condition]
            words += [0, 0]
        self._block = reserve(self._driver, POINTER_BYTES * len(words), "tables of control flow")
        for at in pointers:
            words[at] = self._block + POINTER_BYTES * words[at]
        for slot, (allocation, offset) in self._roots:
            words[slot] = self._addresses[allocation] + offset
        self._records = [self._block + POINTER_BYTES * start for start in starts]
        upload(self._driver, [(self._block, as_bytes(np.array(words, np.int64)))])

    def _calls(self, plan: ControlPlan) -> ControlCalls:
        bodies = (
            tuple(self._call(x) if isinstance(x, BodyLaunch) else self._calls(x) for x in body)
            for body in plan.bodies
        )
        functions = self._functions.of[plan.kind]
        record = self._records[plan.record]
        return ControlCalls(plan.kind, record, plan.carried_bytes, functions, tuple(bodies))

    def _call(self, step: BodyLaunch) -> PreparedLaunch:
        function, launch = self._functions.of[step.kernel][step.number]
        arguments = [self._addresses[allocation] + offset for allocation, offset in step.places]
        if step.slots:
            function = self._functions.indirect[step.kernel][step.number]
            arguments = [self._block + POINTER_BYTES * slot for slot in step.slots]
        if function is None:
            raise DeviceError(
                f"kernel {step.kernel!r} of a body reads no pointers: compile the model again"
            )
        shape = launch.grid, launch.block, launch.shared_bytes
        extents = [view.nbytes for view in step.views]
        return self._driver.call(function, *shape, arguments, extents, bool(step.slots))

    def of_buffer(self, allocation: int, address: int) -> list[tuple[int, int]]:
        """The slots of an allocation, with their values when it is at `address`."""
        return [
            (self._block + POINTER_BYTES * slot, address + offset)
            for slot, (root, offset) in self._roots
            if root == allocation
        ]

    def close(self) -> None:
        """Give the memory back."""
        if self._block:
            self._driver.free(self._block)
        self._block = 0


def add_control(
    driver: Driver, graph: Handle, predecessors: Sequence[Handle], calls: ControlCalls
) -> Handle:
    """Add a control task to a graph; its last node."""
    condition = driver.create_condition(graph)
    first = driver.add_call(graph, predecessors, calls.call(driver, BEFORE, condition))
    node, bodies = driver.add_conditional(graph, (first,), condition, calls.kind)
    for body, steps in zip(bodies, calls.bodies, strict=True):
        # Add launches one after another; the last node, if there is any.
        last: tuple[Handle, ...] = ()
        for step in steps:
            if isinstance(step, ControlCalls):
                last = (add_control(driver, body, last, step),)
            else:
                last = (driver.add_call(body, last, step),)
        if calls.kind == "loop":
            driver.add_call(body, last, calls.call(driver, NEXT, condition))
        elif not last:
            driver.add_empty(body, ())
    if calls.carried_bytes:
        return driver.add_call(graph, (node,), calls.call(driver, END))
    return node
