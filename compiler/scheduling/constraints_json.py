"""Constraints as JSON, as users and other tools write them."""

import json
from collections.abc import Sequence
from typing import Any, cast

from compiler.errors import ScheduleError
from compiler.schedule.tasks import Schedule
from compiler.scheduling.constraints import Constraints

FORMAT = "flowloom-constraints"
VERSION = 1


def constraints_from_json(text: str) -> Constraints:
    """Read constraints; raises ScheduleError that names the place of what is wrong."""
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"the constraints are not JSON: {error}") from None
    head = _object(document, "the file", ("format", "version", "tasks", "order", "apart"))
    if (head.get("format"), head.get("version")) != (FORMAT, VERSION):
        raise ScheduleError(f"the file is not of format {FORMAT!r}, version {VERSION}")
    tasks = {
        name: _object(entry, f"tasks[{name!r}]", ("stream", "after"))
        for name, entry in _object(head.get("tasks", {}), "tasks").items()
    }
    return Constraints(
        {
            n: _stream(e["stream"], f"tasks[{n!r}].stream")
            for n, e in tasks.items()
            if "stream" in e
        },
        {n: _names(e["after"], f"tasks[{n!r}].after") for n, e in tasks.items() if "after" in e},
        _chains(head.get("order", []), "order"),
        [_pair(chain) for chain in _chains(head.get("apart", []), "apart")],
    )


def constraints_to_json(schedule: Schedule) -> str:
    """The streams and the launch order of a schedule as constraints, one task a line."""
    named = [task for task in schedule.tasks if task.nodes]
    lines = [f"{json.dumps(t.nodes[0])}: {json.dumps({'stream': t.stream})}" for t in named]
    order = json.dumps([[task.nodes[0] for task in named]])
    head = f'"format": {json.dumps(FORMAT)},\n"version": {VERSION},'
    body = '"tasks": {\n' + ",\n".join(lines) + "\n},"
    return "{\n" + "\n".join([head, body, f'"order": {order},', '"apart": []']) + "\n}\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: of two entries for one task, one would be lost."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        raise ScheduleError(f"{next(n for n in names if names.count(n) > 1)!r} is there twice")
    return entries


def _object(value: object, path: str, keys: Sequence[str] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScheduleError(f"{path} is not an object")
    entries = cast(dict[str, Any], value)
    if keys and (wrong := [key for key in entries if key not in keys]):
        raise ScheduleError(f"{path} has {wrong[0]!r}; it may have {', '.join(keys)}")
    return entries


def _stream(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ScheduleError(f"{path} is {value!r}, not a number from 0 on")
    return value


def _names(value: object, path: str) -> list[str]:
    entries = cast(list[object], value) if isinstance(value, list) else None
    if entries is None or not all(isinstance(name, str) for name in entries):
        raise ScheduleError(f"{path} is not a list of node names")
    return cast(list[str], entries)


def _chains(value: object, path: str) -> list[list[str]]:
    if not isinstance(value, list):
        raise ScheduleError(f"{path} is not a list of lists of node names")
    return [_names(chain, f"{path}[{i}]") for i, chain in enumerate(cast(list[object], value))]


def _pair(names: list[str]) -> tuple[str, str]:
    if len(names) != 2:
        raise ScheduleError(f"apart takes pairs of node names, not {names}")
    return names[0], names[1]
