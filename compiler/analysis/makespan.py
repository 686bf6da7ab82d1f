"""A model of how long a schedule takes on a GPU: list scheduling with the latencies of launches.

It decides where no device is present, and draws the predicted timeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Literal

from compiler.schedule import Schedule

Mode = Literal["graph", "subgraphs", "streams"]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Nanoseconds that a run spends besides its kernels; the defaults are an H200's.

    Measured: `graph` on the device before a graph's first kernel, `launch` of the host for a plain
    launch or a graph, `branch` for each further edge out of or into a node. Assumed: `event` of the
    host for one record or wait. A kernel's cost includes what a dependent launch takes.
    """

    graph: float = 2700.0
    launch: float = 2800.0
    branch: float = 150.0
    event: float = 700.0


@dataclass(frozen=True, slots=True)
class Load:
    """What one task asks: nanoseconds alone, its share of the device meanwhile, its launches."""

    cost: float
    share: float = 0.0
    launches: int = 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """When each task starts and ends, in nanoseconds from the start of the run."""

    start: tuple[float, ...]
    end: tuple[float, ...]

    @property
    def makespan(self) -> float:
        """The end of the last task."""
        return max(self.end, default=0.0)


def predict(
    schedule: Schedule, loads: Sequence[Load], mode: Mode, latencies: Latencies | None = None
) -> Timeline:
    """The timeline of one run in an execution mode; one load a task.

    Tasks that run together and ask for more than the whole device slow each other down alike.
    """
    known = latencies or Latencies()
    before = _predecessors(schedule)
    releases, delays = _dispatch(schedule, loads, before, mode, known)
    return _simulate(before, loads, releases, delays)


def _predecessors(schedule: Schedule) -> list[set[int]]:
    """The tasks that each one waits for: its tokens, and the task before it on its stream."""
    last: dict[int, int] = {}
    before: list[set[int]] = []
    for index, task in enumerate(schedule.tasks):
        on_stream = {last[task.stream]} if task.stream in last else set[int]()
        before.append(on_stream | set(task.after))
        last[task.stream] = index
    return before


def _dispatch(
    schedule: Schedule,
    loads: Sequence[Load],
    before: Sequence[set[int]],
    mode: Mode,
    latencies: Latencies,
) -> tuple[list[float], list[float]]:
    """For each task: when the host has queued it, and how long after its predecessors it starts."""
    if mode == "graph":
        return [latencies.graph] * len(before), _branch_delays(before, latencies.branch)
    together = _together(schedule, mode)
    host, delays = list[float](), list[float]()
    for index, (load, task) in enumerate(zip(loads, schedule.tasks, strict=True)):
        foreign = sum(schedule.tasks[u].stream != task.stream for u in before[index])
        grouped = mode == "subgraphs" and (together[index] > 1 or load.launches > 1)
        grouped = grouped and together[index] > 0
        launches = 1 if grouped else load.launches * together[index]
        host.append(launches * latencies.launch + 2 * foreign * latencies.event)
        delays.append(latencies.graph if grouped else 0.0)
    return list(accumulate(host)), delays


def _together(schedule: Schedule, mode: Mode) -> list[int]:
    """The number of tasks dispatched with each task, itself included; 0 for those not first."""
    sizes = [1] * len(schedule.tasks)
    first = 0
    for index, task in enumerate(schedule.tasks[1:], 1):
        last = schedule.tasks[index - 1]
        joined = task.subflow >= 0 and (task.subflow, task.stream) == (last.subflow, last.stream)
        if mode == "subgraphs" and joined:
            sizes[first] += 1
            sizes[index] = 0
        else:
            first = index
    return sizes


def _branch_delays(before: Sequence[set[int]], branch: float) -> list[float]:
    """A node's further edges: those into it, and those out of a predecessor that come first."""
    released = [0] * len(before)
    delays: list[float] = []
    for others in before:
        turn = max((released[u] for u in others), default=0)
        delays.append(branch * (turn + max(0, len(others) - 1)))
        for u in others:
            released[u] += 1
    return delays


@dataclass
class _State:
    """Tasks that wait for their start, and those that run with what is left of their cost."""

    starts: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    left: dict[int, float] = field(default_factory=dict[int, float])
    now: float = 0.0

    def advance(self, loads: Sequence[Load]) -> int | None:
        """Go on to the next start or end; returns the task that ended."""
        slowdown = max(1.0, sum(loads[task].share for task in self.left))
        first = min(self.left, key=lambda task: (self.left[task], task), default=None)
        end = self.now + self.left[first] * slowdown if first is not None else float("inf")
        ended = first if not self.starts or end <= self.starts[0][0] else None
        then = end if ended is not None else max(self.now, self.starts[0][0])
        for task in self.left:
            self.left[task] -= (then - self.now) / slowdown
        self.now = then
        if ended is None:
            task = heappop(self.starts)[1]
            self.left[task] = loads[task].cost
        else:
            del self.left[ended]
        return ended


def _simulate(
    before: Sequence[set[int]],
    loads: Sequence[Load],
    releases: Sequence[float],
    delays: Sequence[float],
) -> Timeline:
    count, waiting = len(before), [len(others) for others in before]
    after: list[list[int]] = [[] for _ in before]
    for task, others in enumerate(before):
        for other in others:
            after[other].append(task)
    state = _State()
    for task in range(count):
        if not waiting[task]:
            heappush(state.starts, (releases[task] + delays[task], task))
    start, end = [0.0] * count, [0.0] * count
    while state.starts or state.left:
        running = set(state.left)
        ended = state.advance(loads)
        for task in state.left.keys() - running:
            start[task] = state.now
        if ended is not None:
            end[ended] = state.now
            for task in after[ended]:
                waiting[task] -= 1
                if not waiting[task]:
                    ready = max(state.now, releases[task]) + delays[task]
                    heappush(state.starts, (ready, task))
    return Timeline(tuple(start), tuple(end))
