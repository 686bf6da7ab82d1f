"""Tables and pictures of modules and schedules, as a notebook shows them."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from compiler.display.picture import TimeSpan, picture, unit_spans
from compiler.schedule.tasks import Schedule
from compiler.support.words import counted, in_bytes

MOST_TASKS = 2000
"""The tasks of the largest schedule that is drawn: a page with more is slow."""

MOST_KERNELS = 10
"""Kernels that a table lists."""

MOST_LISTED = 20
"""Inputs or outputs that a table lists."""

Rows = Mapping[str, str]


def info_table(title: str, rows: Rows) -> str:
    """A title and rows of a name and its text, all escaped."""
    cells = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(name)}</th>'
        f'<td style="text-align:left">{lines(text)}</td></tr>'
        for name, text in rows.items()
        if text
    )
    return f"<div><b>{escape(title)}</b><table>{cells}</table></div>"


def lines(text: str) -> str:
    """A text of several lines, escaped."""
    return "<br>".join(escape(line) for line in text.splitlines())


def tensor_lines(tensors: Iterable[Any]) -> str:
    """Name, dtype and shape of inputs or outputs, a line each."""
    rows = [_tensor(tensor) for tensor in tensors]
    more = [f"and {len(rows) - MOST_LISTED} more"] if len(rows) > MOST_LISTED else []
    return "\n".join([*rows[:MOST_LISTED], *more])


def _tensor(tensor: Any) -> str:
    if getattr(tensor, "kind", "") in ("sequence", "optional"):
        return f"{tensor.name}: {tensor.kind}"
    if tensor.shape is None:
        return f"{tensor.name}: {tensor.dtype}"
    sizes = ", ".join("?" if size is None else str(size) for size in tensor.shape)
    return f"{tensor.name}: {tensor.dtype}[{sizes}]"


def schedule_html(
    schedule: Schedule,
    header: Rows | None = None,
    footer: Rows | None = None,
    spans: Sequence[TimeSpan] | None = None,
) -> str:
    """A table of a schedule between other rows, and its timeline.

    The times of tasks are in microseconds; without them each task is drawn one unit long.
    """
    # How many kernels there are, and those that most tasks launch.
    tasks: dict[str, int] = {}
    for task in schedule.tasks:
        tasks[task.kernel] = tasks.get(task.kernel, 0) + 1
    frequent = sorted(tasks.items(), key=lambda entry: -entry[1])[:MOST_KERNELS]
    listed = [f"{name} ({number} tasks)" if number > 1 else name for name, number in frequent]
    more = [f"and {len(tasks) - MOST_KERNELS} more"] if len(tasks) > MOST_KERNELS else []
    sizes = {
        kind: sum(a.nbytes for a in schedule.allocations if a.kind == kind)
        for kind in ("weight", "arena")
    }
    rows = {
        **(header or {}),
        "inputs": tensor_lines(schedule.of_kind("input")),
        "outputs": tensor_lines(schedule.of_kind("output")),
        "kernels": "\n".join(
            [f"{len(tasks)} in {counted(len(schedule.tasks), 'task')}", *listed, *more]
        ),
        "streams": str(schedule.streams),
        "memory": f"weights {in_bytes(sizes['weight'])}, arena {in_bytes(sizes['arena'])}",
        **(footer or {}),
    }
    return info_table(schedule.name, rows) + _timeline(schedule, spans)


def _timeline(schedule: Schedule, spans: Sequence[TimeSpan] | None) -> str:
    if not schedule.tasks:
        return ""
    if len(schedule.tasks) > MOST_TASKS:
        return f"<div>a timeline of more than {MOST_TASKS} tasks is not drawn</div>"
    if spans is None:
        return picture(schedule, unit_spans(schedule), "each task as one unit of time", "")
    return picture(schedule, spans, "predicted run")


Schedule._notebook_view = schedule_html  # pyright: ignore[reportPrivateUsage]
