"""Measured times of the tasks of a module, on the CPU and on GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from compiler.artifact.module import Module
from compiler.backends.cpu.executable import CpuExecutable
from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.sized import SizedExecutable
from compiler.backends.hip.executable import HipExecutable
from compiler.errors import DeviceError


class TaskTime(NamedTuple):
    """When a task ran, in nanoseconds from the start of the run, on a thread or a stream."""

    thread: int
    start: float
    end: float


class HelpTime(NamedTuple):
    """When a thread executed blocks of a task that another one ran."""

    task: int
    thread: int
    start: float
    end: float


@dataclass(frozen=True)
class MeasuredRun:
    """The times of all tasks in launch order, or None and why there are none; helpers' on CPUs."""

    times: Sequence[TaskTime] | None
    note: str
    help: Sequence[HelpTime] = ()


def measured_run(module: Module, inputs: Mapping[str, Any]) -> MeasuredRun:
    """The times of all tasks in a run, if the module's device is there, and how it ran."""
    try:
        executable = module.executable
        if isinstance(executable, CpuExecutable):
            return _on_cpu(executable, inputs, len(module.schedule.tasks))
        assert isinstance(executable, GpuExecutable | SizedExecutable | HipExecutable)
        spans = executable.timeline()
    except DeviceError as error:
        return MeasuredRun(None, f"not measured: {error}")
    streams = (task.stream for task in module.schedule.tasks)
    times = [TaskTime(s, span.start, span.end) for s, span in zip(streams, spans, strict=True)]
    return MeasuredRun(times, "measured in mode streams with timing events, which lengthen the run")


def _on_cpu(executable: CpuExecutable, inputs: Mapping[str, Any], tasks: int) -> MeasuredRun:
    spans = executable.timeline(inputs)
    times = {
        span.task: TaskTime(span.thread, span.start, span.end) for span in spans if not span.helps
    }
    helped = [HelpTime(s.task, s.thread, s.start, s.end) for s in spans if s.helps]
    note = f"measured by the executor, threads: {executable.threads}"
    return MeasuredRun([times[task] for task in range(tasks)], note, helped)
