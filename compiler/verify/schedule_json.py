"""The schedule as JSON: one allocation or task a line, versioned, checked when it is read."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import cast

from compiler.errors import ArtifactError
from compiler.schedule.tasks import (
    Allocation,
    Control,
    ControlForm,
    Schedule,
    Task,
    View,
)
from compiler.tensors.substitution import has_symbols
from compiler.tensors.symbols import Symbol
from compiler.verify import checked_json as read

FORMAT = "flowloom-schedule"
VERSION = 3
"""Raised whenever a reader of the old version would misread the new one."""

WITHOUT_SYMBOLS = 2
"""The version of schedules of numbers, with control tasks."""

WITHOUT_CONTROL = 1
"""The version of schedules without control tasks, which is all that its readers know."""

ReadsExtent = Callable[[object, str], int]
"""Reads a number, or an extent, at a place in the text."""

NO_SYMBOLS: Mapping[str, Symbol] = {}
"""The symbols of a schedule of numbers."""

NO_SUBFLOW = -1
"""Stands for the subflow of a task that is in none."""


def to_json(schedule: Schedule) -> str:
    """The text of a schedule, the same for equal schedules."""
    controlled = any(task.control is not None for task in schedule.tasks)
    version = WITHOUT_SYMBOLS if controlled else WITHOUT_CONTROL
    if has_symbols(extent for allocation in schedule.allocations for extent in allocation.shape):
        version = VERSION
    head = {"format": FORMAT, "version": version, "name": schedule.name}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    allocations = _lines(map(_allocation_to_json, schedule.allocations))
    tasks = _lines(map(_task_to_json, schedule.tasks))
    body = [f'"allocations": [{allocations}],', f'"tasks": [{tasks}]']
    return "\n".join(["{", *lines, *body, "}", ""])


def _lines(entries: Iterable[dict[str, object]]) -> str:
    # an extent over symbols is its text
    lines = ",\n".join(json.dumps(entry, default=str) for entry in entries)
    return f"\n{lines}\n" if lines else ""


def _allocation_to_json(allocation: Allocation) -> dict[str, object]:
    return {
        "kind": allocation.kind,
        "name": allocation.name,
        "dtype": allocation.dtype,
        "shape": allocation.shape,
    }


def _task_to_json(task: Task) -> dict[str, object]:
    entry: dict[str, object] = {
        "kernel": task.kernel,
        "stream": task.stream,
        "after": task.after,
        "reads": [(v.allocation, v.offset, v.dtype, v.shape) for v in task.reads],
        "writes": [(v.allocation, v.offset, v.dtype, v.shape) for v in task.writes],
        "subflow": NO_SUBFLOW if task.subflow is None else task.subflow,
        "nodes": task.nodes,
    }
    if task.control is not None:
        entry["control"] = _control_to_json(task.control)
    return entry


def _control_to_json(control: Control) -> dict[str, object]:
    form = control.form
    return {
        "kind": form.kind,
        "carried": form.carried,
        "length": form.length,
        "conditional": form.conditional,
        "scans": form.scans,
        "stacks": form.stacks,
        "bodies": [
            {
                "name": body.name,
                "allocations": [_allocation_to_json(memory) for memory in body.allocations],
                "tasks": [_task_to_json(task) for task in body.tasks],
            }
            for body in control.bodies
        ],
    }


def from_json(text: str, symbols: Mapping[str, Symbol] = NO_SYMBOLS) -> Schedule:
    """Read a schedule; raises ArtifactError that names the place of what is wrong.

    Extents are over `symbols`, by the names that texts have for them. Types and names are checked
    here; whether the schedule is valid is for `check_schedule`.
    """
    head = read.as_object(read.parse_json(text, "the schedule"), "the schedule")
    if head.get("format") != FORMAT:
        raise ArtifactError(f"the schedule's format is {head.get('format')!r}, not {FORMAT!r}")
    version = read.checked_integer(head.get("version"), "the schedule's version")
    if not WITHOUT_CONTROL <= version <= VERSION:
        raise ArtifactError(
            f"the schedule has format version {version}, this Flowloom reads version {VERSION}:"
            " compile the model again"
        )
    if version == VERSION and not symbols:
        raise ArtifactError(
            "the schedule is of a segment for all sizes: load the dynamic module that has it"
        )
    return _schedule(read.extents_over(symbols), head, "the schedule")


def _schedule(extent: ReadsExtent, value: object, path: str) -> Schedule:
    shape = partial(read.checked_items, item=extent)
    allocation = partial(read.checked_record, Allocation, dtype=read.dtype, shape=shape)
    return read.checked_record(
        Schedule,
        value,
        path,
        allocations=partial(read.checked_items, item=allocation),
        tasks=partial(read.checked_items, item=partial(_task, extent)),
    )


def _task(extent: ReadsExtent, value: object, path: str) -> Task:
    views = partial(read.checked_items, item=partial(_view, extent))
    return read.checked_record(
        Task, value, path, reads=views, writes=views, subflow=_subflow, control=_control
    )


def _subflow(value: object, path: str) -> int | None:
    return None if read.checked_integer(value, path) == NO_SUBFLOW else read.natural(value, path)


def _control(value: object, path: str) -> Control:
    entry = read.as_object(value, path)
    body = partial(_schedule, read.natural)
    bodies = read.checked_items(entry.get("bodies"), f"{path}.bodies", body)
    return Control(read.checked_record(ControlForm, entry, path), bodies)


def _view(extent: ReadsExtent, value: object, path: str) -> View:
    if not isinstance(value, list) or len(cast(list[object], value)) != 4:
        raise ArtifactError(f"{path} is not [allocation, offset, dtype, shape]")
    allocation, offset, dtype, shape = cast(list[object], value)
    return View(
        read.natural(allocation, f"{path}[0]"),
        extent(offset, f"{path}[1]"),
        read.dtype(dtype, f"{path}[2]"),
        read.checked_items(shape, f"{path}[3]", extent),
    )
