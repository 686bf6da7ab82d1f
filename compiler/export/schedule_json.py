"""The schedule as JSON: one allocation or task a line, versioned, checked when it is read."""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast, get_args

from compiler.errors import ArtifactError
from compiler.schedule import ELEMENT_BYTES, Allocation, AllocationKind, Schedule, Task, View

FORMAT = "flowloom-schedule"
VERSION = 1
"""Raised whenever a reader of the old version would misread the new one."""

T = TypeVar("T")


def to_json(schedule: Schedule) -> str:
    """The text of a schedule, the same for equal schedules."""
    head = {"format": FORMAT, "version": VERSION, "name": schedule.name}
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
        "subflow": task.subflow,
        "nodes": task.nodes,
    }


def from_json(text: str) -> Schedule:
    """Read a schedule; raises ArtifactError that names the place of what is wrong.

    Types and names are checked here; whether the schedule is valid is for `check_schedule`.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the schedule is not JSON, it may be truncated: {error}") from None
    head = _object(document, "the schedule")
    _check_version(head)
    return Schedule(
        _string(head, "name", "the schedule"),
        _sequence(head, "allocations", "the schedule", _allocation),
        _sequence(head, "tasks", "the schedule", _task),
    )


def _check_version(head: dict[str, Any]) -> None:
    if head.get("format") != FORMAT:
        raise ArtifactError(f"the schedule's format is {head.get('format')!r}, not {FORMAT!r}")
    if (version := _integer(head.get("version"), "the schedule's version")) != VERSION:
        raise ArtifactError(
            f"the schedule has format version {version}, this Flowloom reads version {VERSION}:"
            " compile the model again"
        )


def _allocation(value: object, place: str) -> Allocation:
    entry = _object(value, place)
    kind = _string(entry, "kind", place)
    if kind not in get_args(AllocationKind):
        raise ArtifactError(f"{place}.kind is {kind!r}, not {', '.join(get_args(AllocationKind))}")
    dtype = _dtype(entry.get("dtype"), f"{place}.dtype")
    shape = _sequence(entry, "shape", place, _natural)
    return Allocation(cast(AllocationKind, kind), _string(entry, "name", place), dtype, shape)


def _task(value: object, place: str) -> Task:
    entry = _object(value, place)
    return Task(
        kernel=_string(entry, "kernel", place),
        stream=_natural(entry.get("stream"), f"{place}.stream"),
        after=_sequence(entry, "after", place, _natural),
        reads=_sequence(entry, "reads", place, _view),
        writes=_sequence(entry, "writes", place, _view),
        subflow=_integer(entry.get("subflow"), f"{place}.subflow"),
        nodes=_sequence(entry, "nodes", place, _text),
    )


def _view(value: object, place: str) -> View:
    if not isinstance(value, list) or len(cast(list[object], value)) != 4:
        raise ArtifactError(f"{place} is not [allocation, offset, dtype, shape]")
    allocation, offset, dtype, _ = entries = cast(list[object], value)
    return View(
        _natural(allocation, f"{place}[0]"),
        _natural(offset, f"{place}[1]"),
        _dtype(dtype, f"{place}[2]"),
        _sequence(dict(enumerate(entries)), 3, place, _natural),
    )


def _object(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ArtifactError(f"{place} is not an object")
    return cast(dict[str, Any], value)


def _sequence(
    entry: dict[Any, Any], key: str | int, place: str, read: Callable[[object, str], T]
) -> tuple[T, ...]:
    inside = f"{place}.{key}" if isinstance(key, str) else f"{place}[{key}]"
    value: object = entry.get(key)
    if not isinstance(value, list):
        raise ArtifactError(f"{inside} is not a list")
    entries = cast(list[object], value)
    return tuple(read(each, f"{inside}[{index}]") for index, each in enumerate(entries))


def _string(entry: dict[str, Any], key: str, place: str) -> str:
    return _text(entry.get(key), f"{place}.{key}")


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ArtifactError(f"{place} is not a string")
    return value


def _integer(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArtifactError(f"{place} is not an integer")
    return value


def _natural(value: object, place: str) -> int:
    if (number := _integer(value, place)) < 0:
        raise ArtifactError(f"{place} is negative")
    return number


def _dtype(value: object, place: str) -> str:
    if (name := _text(value, place)) not in ELEMENT_BYTES:
        raise ArtifactError(f"{place} is {name!r}, which is no dtype")
    return name
