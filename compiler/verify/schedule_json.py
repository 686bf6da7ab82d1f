"""The schedule as JSON: one allocation or task a line, versioned, checked when it is read."""

import json
from collections.abc import Iterable
from typing import Any, Literal, cast, get_args

from compiler.errors import ArtifactError
from compiler.schedule.tasks import (
    Allocation,
    AllocationKind,
    Control,
    ControlForm,
    Schedule,
    Task,
    View,
)
from compiler.verify import checked_json as read

FORMAT = "flowloom-schedule"
VERSION = 2
"""Raised whenever a reader of the old version would misread the new one."""

WITHOUT_CONTROL = 1
"""The version of schedules without control tasks, which is all that its readers know."""

NO_SUBFLOW = -1
"""Stands for the subflow of a task that is in none."""


def to_json(schedule: Schedule) -> str:
    """The text of a schedule, the same for equal schedules."""
    controlled = any(task.control is not None for task in schedule.tasks)
    version = VERSION if controlled else WITHOUT_CONTROL
    head = {"format": FORMAT, "version": version, "name": schedule.name}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    allocations = _lines(map(_allocation_to_json, schedule.allocations))
    tasks = _lines(map(_task_to_json, schedule.tasks))
    body = [f'"allocations": [{allocations}],', f'"tasks": [{tasks}]']
    return "\n".join(["{", *lines, *body, "}", ""])


def _lines(entries: Iterable[dict[str, Any]]) -> str:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return f"\n{lines}\n" if lines else ""


def _allocation_to_json(each: Allocation) -> dict[str, Any]:
    return {"kind": each.kind, "name": each.name, "dtype": each.dtype, "shape": each.shape}


def _task_to_json(task: Task) -> dict[str, Any]:
    return {
        "kernel": task.kernel,
        "stream": task.stream,
        "after": task.after,
        "reads": [(v.allocation, v.offset, v.dtype, v.shape) for v in task.reads],
        "writes": [(v.allocation, v.offset, v.dtype, v.shape) for v in task.writes],
        "subflow": NO_SUBFLOW if task.subflow is None else task.subflow,
        "nodes": task.nodes,
    } | ({} if task.control is None else {"control": _control_to_json(task.control)})


def _control_to_json(control: Control) -> dict[str, Any]:
    form = control.form
    return {
        "kind": form.kind,
        "carried": form.carried,
        "length": form.length,
        "conditional": form.conditional,
        "scans": form.scans,
        "stacks": form.stacks,
        "bodies": [_body_to_json(body) for body in control.bodies],
    }


def _body_to_json(body: Schedule) -> dict[str, Any]:
    return {
        "name": body.name,
        "allocations": [_allocation_to_json(memory) for memory in body.allocations],
        "tasks": [_task_to_json(task) for task in body.tasks],
    }


def from_json(text: str) -> Schedule:
    """Read a schedule; raises ArtifactError that names the place of what is wrong.

    Types and names are checked here; whether the schedule is valid is for `check_schedule`.
    """
    head = read.as_object(read.parse_json(text, "the schedule"), "the schedule")
    _check_version(head)
    return _schedule(head, "the schedule")


def _schedule(value: object, place: str) -> Schedule:
    entry = read.as_object(value, place)
    return Schedule(
        read.string(entry, "name", place),
        read.checked_sequence(entry, "allocations", place, _allocation),
        read.checked_sequence(entry, "tasks", place, _task),
    )


def _check_version(head: dict[str, Any]) -> None:
    if head.get("format") != FORMAT:
        raise ArtifactError(f"the schedule's format is {head.get('format')!r}, not {FORMAT!r}")
    version = read.checked_integer(head.get("version"), "the schedule's version")
    if not WITHOUT_CONTROL <= version <= VERSION:
        raise ArtifactError(
            f"the schedule has format version {version}, this Flowloom reads version {VERSION}:"
            " compile the model again"
        )


def _allocation(value: object, place: str) -> Allocation:
    entry = read.as_object(value, place)
    kind = read.checked_one_of(entry.get("kind"), get_args(AllocationKind), f"{place}.kind")
    dtype = read.dtype(entry.get("dtype"), f"{place}.dtype")
    shape = read.checked_sequence(entry, "shape", place, read.natural)
    return Allocation(cast(AllocationKind, kind), read.string(entry, "name", place), dtype, shape)


def _task(value: object, place: str) -> Task:
    entry = read.as_object(value, place)
    return Task(
        kernel=read.string(entry, "kernel", place),
        stream=read.natural(entry.get("stream"), f"{place}.stream"),
        after=read.checked_sequence(entry, "after", place, read.natural),
        reads=read.checked_sequence(entry, "reads", place, _view),
        writes=read.checked_sequence(entry, "writes", place, _view),
        subflow=_subflow(entry.get("subflow"), f"{place}.subflow"),
        nodes=read.checked_sequence(entry, "nodes", place, read.text),
        control=_control(entry["control"], f"{place}.control") if "control" in entry else None,
    )


def _control(value: object, place: str) -> Control:
    entry = read.as_object(value, place)
    kind = read.checked_one_of(entry.get("kind"), ("if", "loop"), f"{place}.kind")
    length = entry.get("length")
    form = ControlForm(
        kind=cast(Literal["if", "loop"], kind),
        carried=read.natural(entry.get("carried"), f"{place}.carried"),
        length=None if length is None else read.natural(length, f"{place}.length"),
        conditional=read.boolean(entry.get("conditional"), f"{place}.conditional"),
        scans=read.checked_sequence(entry, "scans", place, read.boolean),
        stacks=read.checked_sequence(entry, "stacks", place, read.boolean),
    )
    return Control(form, read.checked_sequence(entry, "bodies", place, _schedule))


def _subflow(value: object, place: str) -> int | None:
    number = read.checked_integer(value, place)
    return None if number == NO_SUBFLOW else read.natural(number, place)


def _view(value: object, place: str) -> View:
    if not isinstance(value, list) or len(cast(list[object], value)) != 4:
        raise ArtifactError(f"{place} is not [allocation, offset, dtype, shape]")
    allocation, offset, dtype, _ = entries = cast(list[object], value)
    return View(
        read.natural(allocation, f"{place}[0]"),
        read.natural(offset, f"{place}[1]"),
        read.dtype(dtype, f"{place}[2]"),
        read.checked_sequence(dict(enumerate(entries)), 3, place, read.natural),
    )
