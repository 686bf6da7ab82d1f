"""Schedules for all sizes: shapes, offsets and grids are extents, which a run's sizes make numbers.

Tasks, streams, tokens and the order of tensors in the arena are the same for all sizes. The offset
of a tensor is a symbol: the highest end of the tensors below it that it must not overlap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.tensors.extents import Extent, Symbol, at_hints, extent_of, symbols_of, value_at
from compiler.tensors.substitution import has_symbols, substituted

EXTENTS = "flowloom.extents/"
"""How names of weights begin that hold extents, for a kernel to read; the rest lists them."""


@dataclass(frozen=True, slots=True)
class ArenaSlot:
    """A tensor's bytes in an arena: the symbol of its offset, its size, and the slots below it.

    These are numbers of earlier slots. Only slots without a chain of `below` may share bytes.
    """

    offset: Symbol
    nbytes: Extent
    below: tuple[int, ...] = ()


@dataclass(frozen=True)
class SymbolicSchedule:
    """A schedule and its kernels, whose numbers are extents.

    A kernel with `symbols` reads their sizes from the last of its task's reads, a weight. For each
    such weight `extents` has the names of the symbols, in the order of the kernel's.
    """

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    extents: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    slots: tuple[ArenaSlot, ...] = ()

    @cached_property
    def symbols(self) -> Mapping[str, Symbol]:
        """The symbols whose sizes a run gives, by name."""
        tasks = self.schedule.tasks
        views = (view for task in tasks for view in (*task.reads, *task.writes))
        shapes = {tensor.shape for tensor in (*self.schedule.allocations, *views)}
        symbols = {symbol for shape in shapes for extent in shape for symbol in symbols_of(extent)}
        # Only kernels know the size of an input that nothing reads, under other names.
        named = {
            name: replace(symbol, name=name)
            for task in tasks
            if task.kernel in self.kernels
            for name, symbol in zip(
                self.sizes_of(task), self.kernels[task.kernel].symbols, strict=False
            )
        }
        return named | {symbol.name: symbol for symbol in sorted(symbols, key=str)}

    @cached_property
    def bound(self) -> tuple[Schedule, Mapping[str, KernelSpec]]:
        """The schedule with a kernel for each set of symbols that one is launched on.

        The extents of these kernels are over the schedule's symbols; they have no symbols.
        """
        kernels: dict[str, KernelSpec] = {}
        tasks: list[Task] = []
        for task in self.schedule.tasks:
            kernel = self.kernels[task.kernel]
            names = self.sizes_of(task)
            name = f"{kernel.name} {names}" if names else kernel.name
            if name not in kernels:
                sizes = (extent_of(self.symbols[symbol]) for symbol in names)
                values = dict(zip(kernel.symbols, sizes, strict=True))
                bound = kernel.with_extents(partial(substituted, values=values))
                kernels[name] = replace(bound, name=name, symbols=())
            tasks.append(replace(task, kernel=name))
        return replace(self.schedule, tasks=tuple(tasks)), kernels

    def sizes_of(self, task: Task) -> tuple[str, ...]:
        """The symbols whose sizes a task's kernel reads, in the order of the kernel's."""
        if not self.kernels[task.kernel].symbols or not task.reads:
            return ()
        last = self.schedule.allocations[task.reads[-1].allocation]
        return self.extents.get(last.name, ()) if last.kind == "weight" else ()

    def at(self, sizes: Mapping[str, int]) -> "Instance":
        """The schedule for these sizes, by symbol; raises KeyError for one that is missing."""
        numbers = dict[Extent, int]()
        values = {**sizes}

        def number(extent: Extent) -> int:
            if type(extent) is int:
                return extent
            value = numbers.get(extent)
            if value is None:
                value = numbers[extent] = value_at(extent, values)
            return value

        top = _stack(self.slots, number, values)
        extents = {name: tuple(sizes[n] for n in names) for name, names in self.extents.items()}
        schedule = with_numbers(self.schedule, number, top)
        kernels = dict[str, KernelSpec]()
        tasks: list[Task] = []
        for task in schedule.tasks:
            kernel = self.kernels[task.kernel]
            sizes_here = tuple(sizes[name] for name in self.sizes_of(task))
            name = f"{kernel.name} {sizes_here}" if sizes_here else kernel.name
            if name not in kernels:
                names = (symbol.name for symbol in kernel.symbols)
                if sizes_here:
                    kernel = kernel.at(dict(zip(names, sizes_here, strict=True)))
                kernels[name] = replace(kernel, name=name)
            tasks.append(replace(task, kernel=name))
        return Instance(replace(schedule, tasks=tuple(tasks)), kernels, extents)


@dataclass(frozen=True, slots=True)
class Instance:
    """A schedule for some sizes, its kernels, and the values of its weights of extents."""

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    extents: Mapping[str, tuple[int, ...]]


def _stack(
    slots: Sequence[ArenaSlot], number: Callable[[Extent], int], values: dict[str, int]
) -> int:
    """Add the offsets of the slots to the values; returns the size of the arena."""
    ends: list[int] = []
    for slot in slots:
        # Slots are listed after those below them, so their ends are known.
        offset = max((ends[lower] for lower in slot.below), default=0)
        values[slot.offset.name] = offset
        ends.append(offset + number(slot.nbytes))
    return max(ends, default=0)


def with_numbers(schedule: Schedule, number: Callable[[Extent], int], arena: int) -> Schedule:
    """A schedule whose extents are numbers, with an arena of so many bytes."""
    views: dict[int, View] = {}

    def viewed(view: View) -> View:
        # Tasks share views, and an identity is hashed faster than a shape of expressions.
        numbered = views.get(id(view))
        if numbered is None:
            shape = tuple(map(number, view.shape))
            numbered = View(view.allocation, number(view.offset), view.dtype, shape)
            views[id(view)] = numbered
        return numbered

    allocations = tuple(
        Allocation(
            memory.kind,
            memory.name,
            memory.dtype,
            (arena,) if memory.kind == "arena" else tuple(map(number, memory.shape)),
        )
        for memory in schedule.allocations
    )
    tasks = tuple(
        replace(
            task,
            reads=tuple(map(viewed, task.reads)),
            writes=tuple(map(viewed, task.writes)),
        )
        for task in schedule.tasks
    )
    return Schedule(schedule.name, allocations, tasks)


def at_example_sizes(schedule: Schedule) -> Schedule:
    """A schedule for the example sizes; one without symbols as it is."""
    views = (view for task in schedule.tasks for view in (*task.reads, *task.writes))
    shapes = (memory.shape for memory in schedule.allocations)
    offsets = ((view.offset, *view.shape) for view in views)
    if not any(map(has_symbols, (*shapes, *offsets))):
        return schedule
    arenas = (memory.shape[0] for memory in schedule.allocations if memory.kind == "arena")
    return with_numbers(schedule, at_hints, at_hints(next(arenas, 0)))
