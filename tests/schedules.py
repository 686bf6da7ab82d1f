"""Random plain schedules, valid and not, and slow independent answers about them."""

from collections.abc import Mapping
from itertools import combinations

from hypothesis import strategies as st

from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.verify.certificate import Certificate
from tests.adversary import predecessors

CELLS = 6


@st.composite
def schedules(draw: st.DrawFn, max_tasks: int = 8) -> Schedule:
    """Well-formed schedules over a few int32 of arena and output; most of them have errors."""
    random = draw(st.randoms(use_true_random=False))
    count = draw(st.integers(1, max_tasks))
    allocations = (
        Allocation("input", "x", "int32", (CELLS,)),
        Allocation("output", "y", "int32", (1,)),
        Allocation("arena", "arena", "uint8", (4 * CELLS,)),
    )
    token_rate, streams = draw(st.sampled_from([0.1, 0.5, 1.0])), draw(st.integers(1, 4))

    def view(*kinds: int) -> View:
        number = random.choice(kinds)
        cells = allocations[number].nbytes // 4
        first = random.randrange(cells)
        return View(number, 4 * first, "int32", (random.randint(0, min(3, cells - first)),))

    tasks = [
        Task(
            f"k{index}",
            random.randrange(streams),
            tuple(earlier for earlier in range(index) if random.random() < token_rate),
            tuple(view(0, 1, 2) for _ in range(random.randint(0, 2))),
            tuple(view(1, 2) for _ in range(random.randint(0, 2))),
        )
        for index in range(count)
    ]
    return Schedule("random", allocations, tuple(tasks))


def closure(schedule: Schedule) -> list[set[int]]:
    """For each task, all tasks that happen before it."""
    before: list[set[int]] = []
    for waits in predecessors(schedule):
        before.append(waits.union(*(before[wait] for wait in waits)))
    return before


def cells(view: View) -> set[tuple[int, int]]:
    """Every byte of a view."""
    return {(view.allocation, byte) for byte in range(view.offset, view.offset + view.nbytes)}


def touched(views: tuple[View, ...]) -> set[tuple[int, int]]:
    """Every byte of some views."""
    return {cell for view in views for cell in cells(view)}


def races(schedule: Schedule) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """Every unordered pair of conflicting tasks, and the bytes; a task may race with itself."""
    before, tasks = closure(schedule), schedule.tasks
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for a, b in combinations(range(len(tasks)), 2):
        written = touched(tasks[a].writes) & touched(tasks[b].reads + tasks[b].writes)
        written |= touched(tasks[a].reads) & touched(tasks[b].writes)
        if written and a not in before[b]:
            found[a, b] = written
    for index, task in enumerate(tasks):
        clashes = [cells(a) & cells(b) for a, b in combinations(task.writes, 2)]
        clashes.append(touched(task.reads) & touched(task.writes))
        if any(clashes):
            found[index, index] = set().union(*clashes)
    return found


def reads_unwritten(schedule: Schedule) -> bool:
    """Whether a task reads bytes before all writes of them, or an output is not complete."""
    written = {(i, b) for i, a in enumerate(schedule.allocations) if a.kind in ("input", "weight")
               for b in range(a.nbytes)}  # fmt: skip
    for task in schedule.tasks:
        if touched(task.reads) - written:
            return True
        written |= touched(task.writes)
    outputs = [(i, a.nbytes) for i, a in enumerate(schedule.allocations) if a.kind == "output"]
    return any((i, byte) not in written for i, size in outputs for byte in range(size))


def unchecked_certificate(schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> Certificate:
    """A certificate as if a schedule and kernels had passed the checks, for those that do not."""
    certificate = Certificate(schedule, kernels, "")
    object.__setattr__(certificate, "issued", True)
    return certificate
