"""How fast a model's tasks could run at best, whatever their streams and their order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.schedule.tasks import Schedule
from compiler.scheduling.simulator import TaskDemand, execution, launch_delay, resource_demand
from compiler.support.dag import adjacency, finish_times
from compiler.target.devices import DeviceModel
from compiler.verify.conflicts import UNWRITTEN, conflicts


@dataclass(frozen=True, slots=True)
class Bound:
    """Nanoseconds that no schedule of the tasks can go below, for two reasons.

    `path` is the longest chain of tasks that need each other's results; `work` is what all tasks
    together take of the device, and the time to start them one after another.
    """

    path: float
    work: float

    @property
    def time(self) -> float:
        """The larger of the two."""
        return max(self.path, self.work)


def lower_bound(
    works: Sequence[TaskDemand],
    edges: Iterable[tuple[int, int]],
    device: DeviceModel,
    *,
    early: bool = False,
) -> Bound:
    """The bound of tasks whose `edges` go from lower to higher numbers.

    With `early`, launches that can begin early do.
    """
    if not works:
        return Bound(0.0, 0.0)
    latencies = device.latencies
    busy = [execution(work, device) for work in works]
    delays = [launch_delay(work, device, early=early) for work in works]
    durations = [b + delay for b, delay in zip(busy, delays, strict=True)]
    predecessors = adjacency(len(works), ((later, earlier) for earlier, later in edges))
    longest = max(finish_times(durations, predecessors))
    shares = zip(*(resource_demand(work, device) for work in works), strict=True)
    resource_times = [
        sum(b * share for b, share in zip(busy, demands, strict=True)) for demands in shares
    ]
    issued = (len(works) - 1) * latencies.gap + min(durations)
    return Bound(latencies.graph + longest, latencies.graph + max(issued, *resource_times))


def needs(schedule: Schedule) -> list[tuple[int, int]]:
    """Pairs of a task and a later one that reads its results: edges that every schedule has."""
    edges = {
        (pair.earlier, pair.later)
        for pair in conflicts(schedule)
        # Writes after reads or writes depend on the memory plan, which another schedule may change.
        if pair.earlier != UNWRITTEN and pair.earlier_writes and not pair.later_writes
    }
    return sorted(edge for edge in edges if edge[1] < len(schedule.tasks))
