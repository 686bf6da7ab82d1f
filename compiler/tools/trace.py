"""Timelines of a module in Chrome's trace format, which Perfetto and chrome://tracing show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler.artifact.module import Module
from compiler.schedule.tasks import Schedule
from compiler.scheduling.prediction import Prediction, prediction
from compiler.tools.counters import Steps, arena_bytes_in_use, tasks_ready
from compiler.tools.measured import HelpTime, MeasuredRun, TaskTime, is_cpu, measured_run

Event = Mapping[str, Any]
PREDICTED, MEASURED = 1, 2


def trace(module: Module, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The trace of a module, and a note on whether its run was measured."""
    predicted = prediction(module)
    starts = zip(
        module.schedule.tasks, predicted.timeline.start, predicted.timeline.end, strict=True
    )
    times = [TaskTime(task.stream, start, end) for task, start, end in starts]
    events = process(PREDICTED, predicted_label(module, predicted), module.schedule, times)
    run = measured_run(module, inputs)
    if run.times is not None:
        events += _measured(module, run, run.times)
    data = {"target": module.target, "schedule": module.schedule.name, "measured": run.note}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": data}, run.note


def predicted_label(module: Module, predicted: Prediction) -> str:
    """The label of the predicted rows."""
    used = {task.kernel for task in module.schedule.tasks}
    return (
        f"predicted, not measured: mode {predicted.mode},"
        f" {len(used & predicted.measured)} of {len(used)} kernel times"
        " measured alone, the others estimated"
    )


def _measured(module: Module, run: MeasuredRun, times: Sequence[TaskTime]) -> list[Event]:
    on_cpu = is_cpu(module)
    label = "measured: plain launches on streams, a timing event before and after each task"
    if on_cpu:
        label = "measured: each thread's work, by the executor's own clock"
    row = "thread" if on_cpu else "stream"
    events = process(MEASURED, label, module.schedule, times, row)
    return events + [_help(module.schedule, one) for one in run.help]


def _help(schedule: Schedule, one: HelpTime) -> Event:
    """A slice of blocks that a thread executed for another."""
    place = {"pid": MEASURED, "tid": one.thread, "ts": one.start / 1e3}
    details = {"args": {"task": one.task}, "dur": (one.end - one.start) / 1e3}
    return {"name": f"helps {schedule.tasks[one.task].kernel}", "ph": "X", **place, **details}


def process(
    number: int,
    label: str,
    schedule: Schedule,
    times: Sequence[TaskTime],
    row: str = "stream",
) -> list[Event]:
    """The events of one timeline: a row a stream or thread, a slice a task, an arrow a token.

    Counters show the bytes of the arena in use, and the tasks that are ready and wait.
    """
    events: list[Event] = [_name("process_name", number, 0, label)]
    for thread in sorted({*range(schedule.streams if row == "stream" else 0), *_threads(times)}):
        events.append(_name("thread_name", number, thread, f"{row} {thread}"))
    for index, (task, time) in enumerate(zip(schedule.tasks, times, strict=True)):
        details = {"task": index, "nodes": list(task.nodes), "subflow": task.subflow}
        details |= {"stream": task.stream}
        place = {"pid": number, "tid": time.thread, "ts": time.start / 1e3}
        duration = {"dur": (time.end - time.start) / 1e3}
        events.append({"name": task.kernel, "ph": "X", **place, **duration, "args": details})
    events += _arrows(number, schedule, times)
    events += _counter(number, "arena bytes in use", arena_bytes_in_use(schedule, times))
    return events + _counter(number, "tasks ready", tasks_ready(schedule, times))


def _threads(times: Sequence[TaskTime]) -> set[int]:
    return {time.thread for time in times}


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _counter(process: int, name: str, steps: Steps) -> list[Event]:
    common = {"name": name, "ph": "C", "pid": process}
    return [{**common, "ts": at / 1e3, "args": {"value": value}} for at, value in steps]


def _arrows(number: int, schedule: Schedule, times: Sequence[TaskTime]) -> Iterable[Event]:
    """Arrows from the end of each task to the start of those on other streams that wait for it."""
    for index, task in enumerate(schedule.tasks):
        for other in task.after:
            if schedule.tasks[other].stream == task.stream:
                continue
            common = {"name": "token", "cat": "token", "pid": number}
            common["id"] = f"{number}.{other}.{index}"
            source, sink = times[other], times[index]
            yield {**common, "ph": "s", "tid": source.thread, "ts": source.end / 1e3}
            yield {**common, "ph": "f", "bp": "e", "tid": sink.thread, "ts": sink.start / 1e3}
