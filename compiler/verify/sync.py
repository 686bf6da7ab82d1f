"""Which tasks must wait for which: all that share bytes, and the few waits that imply the rest."""

from collections.abc import Collection, Sequence

from compiler.schedule import Schedule
from compiler.verify.conflicts import UNWRITTEN, conflicts
from compiler.verify.happens_before import HappensBefore


def needed_waits(schedule: Schedule) -> list[set[int]]:
    """For each task the earlier ones that touch the same bytes, unless both only read.

    The tasks' own waits are not counted. O(n log n) in the accesses, and linear in the pieces that
    they cut each other into.
    """
    waits: list[set[int]] = [set() for _ in schedule.tasks]
    for pair in conflicts(schedule):
        if pair.earlier != UNWRITTEN and pair.later < len(waits):
            waits[pair.later].add(pair.earlier)
    return waits


def remaining_waits(
    schedule: Schedule, waits: Sequence[Collection[int]] | None = None
) -> list[tuple[int, ...]]:
    """For each task the fewest of its waits that, with stream order, order the same tasks.

    `waits` take the place of the schedule's own. By vector clocks: O((tasks + waits) * streams).
    """
    order = HappensBefore(schedule, waits)
    return [order.minimal_waits(task) for task in range(len(schedule.tasks))]
