"""The invariants of tasks with bodies, which are schedules over the memory of their task."""

from compiler.errors import DeviceError
from compiler.schedule.control import (
    MOST_NESTED,
    arena_of,
    misfit,
    operands_of,
    results_of,
    workspaces_of,
)
from compiler.schedule.tasks import Control, Schedule, Task

WORKSPACE_ALIGNMENT = 8
"""Workspaces hold elements of any type."""


def refuse_control(schedule: Schedule, runner: str, remedy: str) -> None:
    """Raise DeviceError for a task with bodies, which `runner` cannot run."""
    for index, task in enumerate(schedule.tasks):
        if task.control is not None:
            nodes = ", ".join(task.nodes) or "no node"
            kind = {"if": "an if", "loop": "a loop"}[task.control.form.kind]
            raise DeviceError(
                f"task {index} is {kind} ({nodes}), which {runner} cannot run: {remedy}"
            )


def control_fault(task: Task, control: Control, depth: int) -> str:
    """Why bodies do not fit their task at a depth of nesting; empty if they do."""
    if depth > MOST_NESTED:
        return f"is nested more than {MOST_NESTED} deep"
    for body in control.bodies:
        if fault := _body_fault(body):
            return fault
    arena = max(map(arena_of, control.bodies), default=0)
    reads = operands_of(task.reads)
    writes = operands_of(task.writes)
    results = writes[: results_of(control.form, len(writes), bool(arena))]
    if fault := misfit(
        control.form,
        reads,
        results,
        [
            (operands_of(b.of_kind("input")), operands_of(b.of_kind("output")))
            for b in control.bodies
        ],
    ):
        return fault
    sizes = [view.nbytes for view in task.writes[len(results) :]]
    expected = workspaces_of(control.form, results, arena)
    if sizes != expected:
        return f"has workspaces of {sizes} bytes instead of {expected}"
    aligned = all(view.offset % WORKSPACE_ALIGNMENT == 0 for view in task.writes[len(results) :])
    return "" if aligned else f"has a workspace that is not aligned to {WORKSPACE_ALIGNMENT} bytes"


def _body_fault(body: Schedule) -> str:
    kinds = [allocation.kind for allocation in body.allocations]
    edge = len(body.of_kind("input")) * ["input"] + len(body.of_kind("output")) * ["output"]
    if kinds not in (edge, [*edge, "arena"]):
        return f"has a body with the memory {', '.join(kinds)}: inputs, outputs and an arena may be"
    return ""
