"""Timelines of a module in Chrome's trace format, which Perfetto and chrome://tracing show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler.artifact.module import Module
from compiler.schedule.tasks import Schedule
from compiler.scheduling.prediction import prediction
from compiler.target.target import parse_target
from compiler.tools.arena import Steps, arena_tensors, steps_of
from compiler.tools.measured import HelpTime, MeasuredRun, TaskTime, measured_run


def arena_bytes_in_use(schedule: Schedule, times: Sequence[TaskTime]) -> Steps:
    """Bytes of the arena that hold tensors which a task writes, until their last reader ends.

    A tensor also ends where other bytes are written over it, in launch order.
    """
    return steps_of(
        (times[tensor.first].start, max(times[task].end for task in tensor.readers), tensor.nbytes)
        for number, allocation in enumerate(schedule.allocations)
        if allocation.kind == "arena"
        for tensor in arena_tensors(schedule, number)
    )


def tasks_ready(schedule: Schedule, times: Sequence[TaskTime]) -> Steps:
    """Tasks whose predecessors, by tokens and on their stream, have ended, and that have not begun.

    Those without any are ready from the start.
    """
    last: dict[int, int] = {}
    waiting: list[tuple[float, float, int]] = []
    for index, (task, time) in enumerate(zip(schedule.tasks, times, strict=True)):
        predecessors = {*task.after, *([last[task.stream]] if task.stream in last else [])}
        last[task.stream] = index
        ready = max((times[predecessor].end for predecessor in predecessors), default=0.0)
        waiting.append((min(ready, time.start), time.start, 1))
    return steps_of(waiting)


Event = Mapping[str, Any]
PREDICTED_PROCESS = 1
MEASURED_PROCESS = 2


def trace(module: Module, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The trace of a module, and a note on whether its run was measured."""
    predicted = prediction(module)
    starts = zip(
        module.schedule.tasks, predicted.timeline.start, predicted.timeline.end, strict=True
    )
    times = [TaskTime(task.stream, start, end) for task, start, end in starts]
    used = {task.kernel for task in module.schedule.tasks}
    events = process(
        PREDICTED_PROCESS,
        f"predicted, not measured: mode {predicted.mode},"
        f" {len(used & predicted.measured)} of {len(used)} kernel times"
        " measured alone, the others estimated",
        module.schedule,
        times,
    )
    run = measured_run(module, inputs)
    if run.times is not None:
        events += _measured(module, run, run.times)
    data = {"target": module.target, "schedule": module.schedule.name, "measured": run.note}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": data}, run.note


def _measured(module: Module, run: MeasuredRun, times: Sequence[TaskTime]) -> list[Event]:
    on_cpu = parse_target(module.target).backend == "cpu"
    label = "measured: plain launches on streams, a timing event before and after each task"
    if on_cpu:
        label = "measured: each thread's work, by the executor's own clock"
    row = "thread" if on_cpu else "stream"
    events = process(MEASURED_PROCESS, label, module.schedule, times, row)
    return events + [_help(module.schedule, span) for span in run.help]


def _help(schedule: Schedule, span: HelpTime) -> Event:
    """A slice of blocks that a thread executed for another."""
    position = {"pid": MEASURED_PROCESS, "tid": span.thread, "ts": span.start / 1e3}
    details = {"args": {"task": span.task}, "dur": (span.end - span.start) / 1e3}
    return {"name": f"helps {schedule.tasks[span.task].kernel}", "ph": "X", **position, **details}


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
    for thread in sorted(
        {*range(schedule.streams if row == "stream" else 0), *{time.thread for time in times}}
    ):
        events.append(_name("thread_name", number, thread, f"{row} {thread}"))
    for index, (task, time) in enumerate(zip(schedule.tasks, times, strict=True)):
        details = {"task": index, "nodes": list(task.nodes), "subflow": task.subflow}
        details |= {"stream": task.stream}
        # times are in microseconds in this format
        position = {"pid": number, "tid": time.thread, "ts": time.start / 1e3}
        duration = {"dur": (time.end - time.start) / 1e3}
        events.append({"name": task.kernel, "ph": "X", **position, **duration, "args": details})
    events += _arrows(number, schedule, times)
    events += _counter(number, "arena bytes in use", arena_bytes_in_use(schedule, times))
    return events + _counter(number, "tasks ready", tasks_ready(schedule, times))


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _counter(process: int, name: str, steps: Steps) -> list[Event]:
    common = {"name": name, "ph": "C", "pid": process}
    return [{**common, "ts": at / 1e3, "args": {"value": value}} for at, value in steps]


def _arrows(number: int, schedule: Schedule, times: Sequence[TaskTime]) -> Iterable[Event]:
    """Arrows from the end of each task to the start of tasks on other streams that wait for it."""
    for index, task in enumerate(schedule.tasks):
        for predecessor in task.after:
            if schedule.tasks[predecessor].stream == task.stream:
                continue
            common = {"name": "token", "cat": "token", "pid": number}
            common["id"] = f"{number}.{predecessor}.{index}"
            source, sink = times[predecessor], times[index]
            yield {**common, "ph": "s", "tid": source.thread, "ts": source.end / 1e3}
            # an arrow ends at the next slice to begin unless `bp` binds it to the one around it
            yield {**common, "ph": "f", "bp": "e", "tid": sink.thread, "ts": sink.start / 1e3}
