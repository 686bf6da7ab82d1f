"""Sizes that tasks of a schedule measure, and the proof that what depends on them comes later.

A task that measures the size of a symbol writes it to an output, whose name is `MEASURED_SIZE` and
the symbol's. Until it has finished the size counts as its bound: so memory is that of the bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.errors import ScheduleError
from compiler.schedule.symbolic import SymbolicSchedule
from compiler.schedule.tasks import MEASURED_SIZE, Task
from compiler.tensors.extents import Extent, NotForAllSizes, symbols_of
from compiler.verify.happens_before import HappensBefore


@dataclass(frozen=True, slots=True)
class Measuring:
    """The symbols that a schedule measures.

    `tasks` has those that each task measures, `depending` the tasks that start when the size of a
    symbol is known, and `most` the bounds.
    """

    tasks: Mapping[int, tuple[str, ...]]
    depending: Mapping[str, tuple[int, ...]]
    most: Mapping[str, int]


def measuring_of(symbolic: SymbolicSchedule) -> Measuring:
    """The sizes that a schedule measures.

    Raises ScheduleError for a task that depends on a size without waiting for the task that
    measures it, and for memory whose size is measured too late.
    """
    _check_memory(symbolic)
    measuring = _measuring(symbolic)
    order = HappensBefore(symbolic.schedule) if measuring.depending else None
    owners = _owners(measuring)
    for name, tasks in measuring.depending.items():
        for task in tasks:
            if name not in owners or order is None or not order.ordered(owners[name], task):
                raise ScheduleError(
                    f"task {task} ({symbolic.schedule.tasks[task].kernel}) depends on {name}, and"
                    " does not wait for the task that measures it"
                )
    return measuring


def after_measuring(symbolic: SymbolicSchedule) -> SymbolicSchedule:
    """A schedule in which tasks that depend on a measured size wait for it, if they did not.

    Launch order changes where one came before what measures its size; the order of each stream
    does not. Raises NotForAllSizes where it would have to.
    """
    measuring = _measuring(symbolic)
    if not measuring.most:
        return symbolic
    order = HappensBefore(symbolic.schedule)
    owners = _owners(measuring)
    tasks = symbolic.schedule.tasks
    awaited = [{*task.after} for task in tasks]
    for name, depending in measuring.depending.items():
        for index in depending:
            if name in owners and not order.ordered(owners[name], index):
                awaited[index].add(owners[name])
    sequence = _in_order(tasks, awaited)
    position = {index: number for number, index in enumerate(sequence)}
    moved = [
        replace(tasks[index], after=tuple(sorted(position[other] for other in awaited[index])))
        for index in sequence
    ]
    return replace(symbolic, schedule=replace(symbolic.schedule, tasks=tuple(moved)))


def _in_order(tasks: Sequence[Task], awaited: Sequence[set[int]]) -> list[int]:
    """The tasks in launch order, but for those that wait for later ones, by index."""
    before = {index: {*others} for index, others in enumerate(awaited)}
    last: dict[int, int] = {}
    for index, task in enumerate(tasks):
        if task.stream in last:
            before[index].add(last[task.stream])
        last[task.stream] = index
    sequence: list[int] = []
    done = set[int]()
    while before:
        ready = next((index for index, others in before.items() if others <= done), None)
        if ready is None:
            raise NotForAllSizes("a stream has tasks before what measures their sizes")
        del before[ready]
        done.add(ready)
        sequence.append(ready)
    return sequence


def _measuring(symbolic: SymbolicSchedule) -> Measuring:
    names = [symbol.name for symbol in symbolic.symbols.values() if symbol.measured]
    tasks: dict[int, tuple[str, ...]] = {}
    depending: dict[str, list[int]] = {name: [] for name in names}
    for index, task in enumerate(symbolic.schedule.tasks) if names else ():
        own = _written(symbolic, task)
        if again := {name for names in tasks.values() for name in names} & {*own}:
            raise ScheduleError(f"task {index} measures {', '.join(sorted(again))} again")
        if own:
            tasks[index] = own
        for name in _needed(symbolic, task) - {*own}:
            depending[name].append(index)
    symbols = symbolic.symbols
    most = {name: symbols[name].high or 0 for name in names}
    return Measuring(tasks, {name: tuple(every) for name, every in depending.items()}, most)


def _owners(measuring: Measuring) -> dict[str, int]:
    """The task that measures each symbol."""
    return {name: index for index, names in measuring.tasks.items() for name in names}


def _written(symbolic: SymbolicSchedule, task: Task) -> tuple[str, ...]:
    """The symbols whose sizes a task writes."""
    allocations = symbolic.schedule.allocations
    written = (allocations[view.allocation] for view in task.writes)
    names = (a.name for a in written if a.kind == "output" and a.name.startswith(MEASURED_SIZE))
    return tuple(name.removeprefix(MEASURED_SIZE) for name in names)


def _needed(symbolic: SymbolicSchedule, task: Task) -> set[str]:
    """The measured symbols on which the tensors of a task depend, or its kernel."""
    extents = [e for view in (*task.reads, *task.writes) for e in (view.offset, *view.shape)]
    kernel = {name for name in symbolic.sizes_of(task) if symbolic.symbols[name].measured}
    return kernel | {name for extent in extents for name in _measured_in(extent)}


def _measured_in(extent: Extent) -> Iterator[str]:
    return (symbol.name for symbol in symbols_of(extent) if symbol.measured)


def _check_memory(symbolic: SymbolicSchedule) -> None:
    """Raise ScheduleError unless the memory of a run can be had before it measures anything."""
    early = [a for a in symbolic.schedule.allocations if a.kind in ("input", "weight")]
    extents = [extent for allocation in early for extent in allocation.shape]
    extents += [slot.nbytes for slot in symbolic.slots]
    for extent in extents:
        for name in _measured_in(extent):
            raise ScheduleError(f"memory of a run depends on {name}, which it measures later")
    for symbol in symbolic.symbols.values():
        if symbol.measured and symbol.high is None:
            raise ScheduleError(f"{symbol.name}, which a run measures, has no bound")
