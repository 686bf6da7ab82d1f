"""Runs of single tasks of a schedule, on any target, from and to memory of the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from compiler.backends.base import Executable, backend
from compiler.backends.memory import Array
from compiler.driver.build import Build, with_library
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, AllocationKind, Schedule, Task, View, arena_aligned
from compiler.target.target import parse_target
from compiler.tensors.dtypes import numpy_dtype


def task_alone(schedule: Schedule, task: Task, results: int) -> Schedule:
    """A schedule of one task: its reads are inputs or weights, its first writes outputs.

    The other writes, its workspaces, are in an arena. The inputs are named `read N`, the outputs
    `write N` by their position in the task.
    """
    maker = _AloneMaker(schedule)
    reads = [maker.read(index, view) for index, view in enumerate(task.reads)]
    writes = [maker.write(index, view) for index, view in enumerate(task.writes[:results])]
    writes += maker.workspaces(task.writes[results:])
    lone = replace(task, stream=0, after=(), subflow=None, reads=tuple(reads), writes=tuple(writes))
    return Schedule(schedule.name, tuple(maker.allocations), (lone,))


@dataclass
class _AloneMaker:
    """The allocations of a schedule of one task."""

    schedule: Schedule
    allocations: list[Allocation] = field(default_factory=list[Allocation])
    _weights: dict[int, int] = field(default_factory=dict[int, int])

    def read(self, index: int, view: View) -> View:
        """The place of a read."""
        source = self.schedule.allocations[view.allocation]
        if source.kind != "weight":
            return self._whole("input", f"read {index}", view)
        if view.allocation not in self._weights:
            self._weights[view.allocation] = self._add(source)
        return replace(view, allocation=self._weights[view.allocation])

    def write(self, index: int, view: View) -> View:
        """The place of a result."""
        return self._whole("output", f"write {index}", view)

    def workspaces(self, views: Sequence[View]) -> list[View]:
        """The places of workspaces, one after another in an arena."""
        if not views:
            return []
        sizes = [arena_aligned(view.nbytes) for view in views]
        arena = self._add(Allocation("arena", "arena", "uint8", (sum(sizes),)))
        offsets = [sum(sizes[:index]) for index in range(len(sizes))]
        pairs = zip(views, offsets, strict=True)
        return [replace(view, allocation=arena, offset=offset) for view, offset in pairs]

    def _whole(self, kind: AllocationKind, name: str, view: View) -> View:
        number = self._add(Allocation(kind, name, view.dtype, view.shape))
        return replace(view, allocation=number, offset=0)

    def _add(self, allocation: Allocation) -> int:
        self.allocations.append(allocation)
        return len(self.allocations) - 1


class HostMemory:
    """The bytes of a schedule's allocations, where tasks run one after another leave their results.

    They begin as the byte 0xFF, NaN in every float type.
    """

    def __init__(
        self, schedule: Schedule, inputs: Mapping[str, Array], weights: Mapping[str, Array]
    ):
        self._schedule = schedule
        arrays = {"input": inputs, "weight": weights}
        self._bytes = [
            _bytes_of(arrays[a.kind][a.name])
            if a.kind in arrays
            else np.full(a.nbytes, 0xFF, np.uint8)
            for a in schedule.allocations
        ]

    def read(self, view: View) -> Array:
        """A copy of a view's tensor."""
        data = self._bytes[view.allocation][view.offset : view.offset + view.nbytes]
        return data.copy().view(numpy_dtype(view.dtype)).reshape(view.shape)

    def write(self, view: View, array: Array) -> None:
        """Set a view's tensor."""
        data = self._bytes[view.allocation][view.offset : view.offset + view.nbytes]
        data[...] = _bytes_of(array)

    def outputs(self) -> dict[str, Array]:
        """The outputs by name."""
        places = enumerate(self._schedule.allocations)
        return {
            a.name: self.read(View(index, 0, a.dtype, a.shape))
            for index, a in places
            if a.kind == "output"
        }


def _bytes_of(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def library_options(
    target: str,
    schedule: Schedule,
    kernels: Mapping[str, KernelSpec],
    weights: Mapping[str, Array],
) -> dict[str, Any]:
    """The shared library of a schedule, which hip's backend loads; nothing for other targets.

    Raises KernelError if there is no HIP compiler.
    """
    if parse_target(target).backend != "hip":
        return {}
    built = Build(target, schedule, dict(kernels), dict(weights))
    return {"library": with_library(built, None).library}


@dataclass
class TaskRunner:
    """Loads and runs tasks one at a time; equal ones are loaded once."""

    target: str
    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    weights: Mapping[str, Array]
    options: Mapping[str, Any]
    _loaded: dict[Schedule, Executable] = field(default_factory=dict[Schedule, Executable])

    def run(self, task: Task, results: int, memory: HostMemory) -> list[Array]:
        """The results of a task on what memory holds, which also gets them."""
        single = task_alone(self.schedule, replace(task, nodes=()), results)
        if single not in self._loaded:
            used = {task.kernel for task in single.all_tasks} & self.kernels.keys()
            kernels = {name: self.kernels[name] for name in sorted(used)}
            weights = {a.name: self.weights[a.name] for a in single.of_kind("weight")}
            options = {**self.options, **library_options(self.target, single, kernels, weights)}
            loader = backend(self.target)
            self._loaded[single] = loader.load(single, kernels, weights, **options)
        executable = self._loaded[single]
        reads = {f"read {index}": memory.read(view) for index, view in enumerate(task.reads)}
        read_names = {allocation.name for allocation in single.of_kind("input")}
        outputs = executable.run({name: reads[name] for name in reads if name in read_names})
        arrays = [np.asarray(outputs[f"write {index}"]) for index in range(results)]
        for view, array in zip(task.writes, arrays, strict=False):
            memory.write(view, array)
        executable.close()
        return arrays
