"""A simulator of a GPU that runs a schedule: streams, edges, latencies and concurrent kernels.

It decides where no device is present, guides the search for schedules, and draws the predicted
timeline. Tasks are plain numbers here, and so are schedules: see `Simulator`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.schedule.choices import Mode
from compiler.schedule.tasks import Schedule
from compiler.scheduling.arrays import Floats
from compiler.scheduling.inner_loops import simulate
from compiler.target.devices import H200, DeviceModel, Latencies

IntegerSequence = Sequence[int] | NDArray[Any]
Pairs = Sequence[tuple[int, int]] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class TaskDemand:
    """The demand of a task: nanoseconds alone on the device, its blocks, and the bytes it moves.

    `threads` and `shared_bytes` are a block's, `registers` a thread's; where a task has several
    `launches`, they are those of the launch that takes the most of the device. The time includes
    the cost of a dependent launch. `early` launches can begin along programmatic edges.
    """

    time: float
    blocks: int = 1
    threads: int = 128
    registers: int = 32
    shared_bytes: int = 0
    nbytes: float = 0.0
    launches: int = 1
    early: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each task starts and ends, in nanoseconds from the start of the run."""

    start: tuple[float, ...]
    end: tuple[float, ...]

    @property
    def makespan(self) -> float:
        """The end of the last task."""
        return max(self.end, default=0.0)


class Simulator:
    """Simulates schedules of the same tasks on one device; their common part is computed once.

    A schedule gives each task a stream (`stream_of`, any numbers from 0), the tasks in launch
    order (`order`), and `edges`, an array of pairs (earlier, later): the tasks' dependencies.
    An edge that others imply costs no more than `Latencies.awaited`, so a search can pass the same
    edges always. Tasks on one stream follow each other in launch order.

        simulator = Simulator(works)
        time = simulator.makespan(stream_of, order, edges)      # ns, about 0.2 us a task

    With `early`, edges into launches that can begin early are programmatic; the first
    tasks count as if they had such edges.

    Where tasks contend, a task that takes longer can make a run shorter, as in every list schedule
    (Graham, 1969); otherwise it cannot.
    """

    def __init__(
        self, works: Sequence[TaskDemand], device: DeviceModel = H200, *, early: bool = False
    ):
        self.device = device
        self._costs = np.array([execution(work, device) for work in works], np.float64)
        self._demands = (
            np.array([resource_demand(w, device) for w in works]).reshape(-1, 3).T.copy()
        )
        delays = [launch_delay(work, device, early=early) for work in works]
        self._delays = np.array(delays, np.float64)

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Each task's execution in ns, its demand in three rows, and its launches' delay in ns."""
        return self._costs, self._demands, self._delays

    def makespan(self, stream_of: IntegerSequence, order: IntegerSequence, edges: Pairs) -> float:
        """Nanoseconds of one run as one graph; ValueError for tasks that wait in a cycle."""
        _, end = self.times(stream_of, order, edges)
        return float(end.max(initial=0.0))

    def times(
        self,
        stream_of: IntegerSequence,
        order: IntegerSequence,
        edges: Pairs,
        release: Floats | None = None,
        delay: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Start and end of each task's work.

        Outside one graph, the host has queued a task at its `release`, and it starts by `delay`
        later than in a graph.
        """
        latencies = self.device.latencies
        state = np.array(order, np.int64), np.array(stream_of, np.int64)
        pairs = np.asarray(edges, np.int64).reshape(-1, 2)
        start = np.full(len(self._costs), latencies.graph, np.float64)
        queued = start if release is None else release
        later = self._delays if delay is None else self._delays + delay
        tasks = (self._costs, self._demands, later)
        rates = (latencies.gap, latencies.awaited)
        start, end = simulate(tasks, state, pairs, queued, rates)
        if np.isinf(end).any():
            raise ValueError("tasks wait for each other in a cycle, or one never ends")
        return start, end


def execution(work: TaskDemand, device: DeviceModel) -> float:
    """Nanoseconds alone during which a task's blocks run: its time without the launches' part."""
    return max(0.0, work.time - work.launches * device.latencies.dependency)


def launch_delay(work: TaskDemand, device: DeviceModel, *, early: bool) -> float:
    """Nanoseconds from the end of the last awaited task to the first block, for all launches."""
    latencies = device.latencies
    return work.launches * latencies.dependency + early * work.early * latencies.programmatic


def resource_demand(work: TaskDemand, device: DeviceModel) -> tuple[float, float, float]:
    """The shares of the device that a task takes alone: block slots, interference, bandwidth."""
    fit = device.resident_blocks(work.threads, work.registers, work.shared_bytes)
    blocks = max(1, work.blocks)
    slots = min(1.0, blocks / (fit * device.sms))
    busy = min(1.0, blocks / device.sms)
    traffic = work.nbytes / (device.bandwidth * max(1.0, execution(work, device)))
    return slots, device.interference * busy, min(1.0, traffic)


def predict(
    schedule: Schedule,
    works: Sequence[TaskDemand],
    mode: Mode,
    device: DeviceModel = H200,
    *,
    early: bool = False,
) -> Timeline:
    """The timeline of one run in an execution mode; one work a task.

    With `early`, edges within graphs are programmatic where the later launch allows it.
    """
    release = None
    delay = None
    if mode != "graph":
        release, delay = dispatch(schedule, works, mode, device.latencies)
        works = [
            # The first launch of each dispatch has no edge into it, so it cannot begin early.
            replace(work, early=max(0, work.early - (size > 0)))
            for work, size in zip(works, _together(schedule, mode), strict=True)
        ]
    simulator = Simulator(works, device, early=early and mode != "streams")
    streams = [task.stream for task in schedule.tasks]
    edges = [(u, v) for v, task in enumerate(schedule.tasks) for u in task.after]
    start, end = simulator.times(streams, range(len(streams)), edges, release, delay)
    return Timeline(tuple(start.tolist()), tuple(end.tolist()))


def dispatch(
    schedule: Schedule, works: Sequence[TaskDemand], mode: Mode, latencies: Latencies
) -> tuple[Floats, Floats]:
    """For each task outside one graph: when the host has queued it, and its launch's delay."""
    together = _together(schedule, mode)
    tasks = schedule.tasks
    host = np.zeros(len(tasks))
    delay = np.zeros(len(tasks))
    for index, (work, task) in enumerate(zip(works, tasks, strict=True)):
        foreign = sum(tasks[u].stream != task.stream for u in task.after)
        grouped = mode == "subgraphs" and (together[index] > 1 or work.launches > 1)
        launches = 1 if grouped else work.launches * together[index]
        launches *= together[index] > 0
        # An event is recorded on the other stream and awaited on this one: two calls.
        host[index] = launches * latencies.launch + 2 * foreign * latencies.event
        delay[index] = launches * latencies.plain
    return host.cumsum(), delay


def _together(schedule: Schedule, mode: Mode) -> list[int]:
    """The number of tasks dispatched with each task, itself included; 0 for those not first."""
    if mode != "subgraphs":
        return [1] * len(schedule.tasks)
    sizes = [0] * len(schedule.tasks)
    for tasks in schedule.subflows:
        sizes[tasks.start] = len(tasks)
    return sizes
