"""Timelines of a module in Chrome's trace format, which Perfetto and chrome://tracing show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.hip.executable import HipExecutable
from compiler.errors import DeviceError
from compiler.module import Module
from compiler.schedule import Schedule
from compiler.target.target import parse_target
from compiler.tools.inspection import Prediction, prediction

Event = Mapping[str, Any]
PREDICTED, MEASURED = 1, 2


def trace(module: Module) -> tuple[dict[str, Any], str]:
    """The trace of a module, and a note on whether its run was measured."""
    found = prediction(module)
    times = zip(found.timeline.start, found.timeline.end, strict=True)
    events = process(PREDICTED, predicted_label(module, found), module.schedule, list(times))
    spans, note = measured_times(module)
    if spans is not None:
        label = "measured: plain launches on streams, a timing event before and after each task"
        events += process(MEASURED, label, module.schedule, spans)
    data = {"target": module.target, "schedule": module.schedule.name, "measured": note}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": data}, note


def predicted_label(module: Module, found: Prediction) -> str:
    """The label of the predicted rows."""
    used = {task.kernel for task in module.schedule.tasks}
    return (
        f"predicted, not measured: mode {found.mode}, {len(used & found.measured)} of {len(used)} "
        "kernel times measured alone, the others estimated"
    )


def measured_times(module: Module) -> tuple[list[tuple[float, float]] | None, str]:
    """Each task's start and end on the device, if it is there, and what was measured."""
    if not parse_target(module.target).is_gpu:
        return None, "not measured: the CPU's tasks are not timed one by one"
    try:
        executable = module.executable
        assert isinstance(executable, GpuExecutable | HipExecutable)
        spans = [(span.start, span.end) for span in executable.timeline()]
    except DeviceError as error:
        return None, f"not measured: {error}"
    return spans, "measured in mode streams with timing events, which lengthen the run"


def process(
    number: int, label: str, schedule: Schedule, times: Sequence[tuple[float, float]]
) -> list[Event]:
    """The events of one timeline: a row a stream, a slice a task, an arrow a token."""
    events: list[Event] = [_name("process_name", number, 0, label)]
    for stream in range(schedule.streams):
        events.append(_name("thread_name", number, stream, f"stream {stream}"))
    for index, (task, (start, end)) in enumerate(zip(schedule.tasks, times, strict=True)):
        details = {"task": index, "nodes": list(task.nodes), "subflow": task.subflow}
        place = {"pid": number, "tid": task.stream, "ts": start / 1e3}
        duration = {"dur": (end - start) / 1e3}
        events.append({"name": task.kernel, "ph": "X", **place, **duration, "args": details})
    return events + list(_arrows(number, schedule, times))


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _arrows(
    number: int, schedule: Schedule, times: Sequence[tuple[float, float]]
) -> Iterable[Event]:
    """Arrows from the end of each task to the start of those on other streams that wait for it."""
    for index, task in enumerate(schedule.tasks):
        for other in task.after:
            source = schedule.tasks[other]
            if source.stream == task.stream:
                continue
            common = {"name": "token", "cat": "token", "pid": number}
            common["id"] = f"{number}.{other}.{index}"
            yield {**common, "ph": "s", "tid": source.stream, "ts": times[other][1] / 1e3}
            end = {"ph": "f", "bp": "e", "tid": task.stream, "ts": times[index][0] / 1e3}
            yield {**common, **end}
