"""How merging two kernels changes the times of the kernels that depend on them."""

from dataclasses import dataclass

from compiler.graph.cost import estimate
from compiler.graph.fusion.state import NEVER, FusedKernel, Growth

_UPDATE_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Times:
    """Start, finish and deadline of the merged kernel; start and finish of delayed ones; in ns."""

    start: int
    finish: int
    deadline: int
    delayed: dict[int, tuple[int, int]]


def merged_times(
    growth: Growth, mine: int, other: int, ranks: list[int], limit: int
) -> Times | None:
    """The times after a merge, or None if it delays other kernels too much.

    No other kernel may get an operand later by more than the time of the launch that is saved, and
    no path may become longer than `limit`; `ranks` are the nodes' upward ranks without fusion. What
    only widens bytes is worth any delay: it would write several times what it reads.
    """
    sets = growth.sets
    before = {*sets.predecessors(mine), *sets.predecessors(other)} - {mine, other}
    start = max((growth.kernels[c].finish for c in before), default=0)
    members = [*growth.members(other), *growth.members(mine)]
    work = growth.table.work(members)
    finish = start + estimate(work, growth.rules.roofline)
    deadline = min(_deadline(growth, other, mine), _deadline(growth, mine, other))
    alone = growth.kernels[mine].finish + growth.rules.roofline.launch_ns
    times = Times(start, finish, deadline, {})
    if growth.rules.allow_longer_path or growth.widens(other):
        return times if _delay(growth, mine, other, times, ranks, NEVER) else None
    late = finish > min(deadline, alone)
    return None if late or not _delay(growth, mine, other, times, ranks, limit) else times


def _deadline(growth: Growth, fused: int, partner: int) -> int:
    """The latest finish of a fused set after a merge with its partner."""
    kernel = growth.kernels[fused]
    set_of = growth.sets.set_of
    for u, w in growth.consumers(fused):
        if set_of[w] != partner and growth.escapes(u):
            return min(kernel.deadline, kernel.finish + growth.rules.roofline.launch_ns)
    return kernel.deadline


def _delay(
    growth: Growth, mine: int, other: int, times: Times, ranks: list[int], limit: int
) -> bool:
    """Collect the fused sets that start later; False if a path becomes too long."""
    pending = [(mine, times.finish), (other, times.finish)]
    while pending:
        fused, finish = pending.pop()
        if finish > limit:
            return False
        for w in growth.dependents(fused):
            waiting = growth.sets.set_of[w]
            if waiting in (mine, other):
                continue
            kernel = growth.kernels.get(waiting)
            if kernel is None:
                if finish + ranks[w] > limit:
                    return False
            elif finish > times.delayed.get(waiting, (kernel.start, 0))[0]:
                end = finish + kernel.finish - kernel.start
                times.delayed[waiting] = (finish, end)
                if len(times.delayed) > _UPDATE_LIMIT:
                    return False
                pending.append((waiting, end))
    return True


def start_alone(growth: Growth, v: int) -> FusedKernel:
    """The kernel of a single node, once its producers have theirs."""
    kernels = growth.kernels
    start = max((kernels[c].finish for c in growth.sets.predecessors(v)), default=0)
    return FusedKernel(-1, growth.table.nodes[v].shape, start, start + growth.dag.costs[v])
