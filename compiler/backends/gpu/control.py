"""If and Loop tasks on a GPU: their tables in its memory, and their nodes in a graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.backends.gpu.control_plan import (
    BodyLaunch,
    ControlPlan,
    ControlPlanner,
    Record,
    table_words,
)
from compiler.backends.gpu.driver import Driver, Handle, PreparedLaunch
from compiler.backends.gpu.functions import Functions, arguments_of
from compiler.backends.gpu.memory import as_bytes, reserve, upload
from compiler.backends.gpu.pointers import POINTER_BYTES
from compiler.errors import DeviceError
from compiler.schedule.kernels import Launch
from compiler.schedule.tasks import ControlKind, Schedule, Task, View

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
        """One of the task's launches; those that set a condition take it."""
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
        words, pointers, starts = table_words(slots, records)
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
    driver: Driver, graph: Handle, after: Sequence[Handle], calls: ControlCalls
) -> Handle:
    """Add a control task to a graph; its last node."""
    condition = driver.create_condition(graph)
    first = driver.add_call(graph, after, calls.call(driver, BEFORE, condition))
    node, bodies = driver.add_conditional(graph, (first,), condition, calls.kind)
    for body, steps in zip(bodies, calls.bodies, strict=True):
        last = _add_chain(driver, body, steps)
        if calls.kind == "loop":
            driver.add_call(body, last, calls.call(driver, NEXT, condition))
        elif not last:
            driver.add_empty(body, ())
    if calls.carried_bytes:
        return driver.add_call(graph, (node,), calls.call(driver, END))
    return node


def _add_chain(
    driver: Driver, graph: Handle, steps: Sequence[PreparedLaunch | ControlCalls]
) -> tuple[Handle, ...]:
    """Add launches one after another; the last node, if there is any."""
    last: tuple[Handle, ...] = ()
    for step in steps:
        if isinstance(step, ControlCalls):
            last = (add_control(driver, graph, last, step),)
        else:
            last = (driver.add_call(graph, last, step),)
    return last
