"""A symbolic schedule's extents as one function of the sizes, and where each number belongs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.schedule.kernels import KernelSpec
from compiler.schedule.symbolic import Instance, SymbolicSchedule, with_numbers
from compiler.schedule.tasks import Allocation, Schedule
from compiler.tensors.extents import Extent, Symbol, extent_of
from compiler.tensors.size_function import SizeFunction, SizeFunctionBuilder
from compiler.tensors.substitution import has_symbols

ARENA = Symbol("bytes of the arena")
"""The end of the highest slot."""


@dataclass(frozen=True)
class NumberedSchedule:
    """A schedule and kernels with positions in place of numbers, which `function` gives for sizes.

    `symbols` are in the order of the function's sizes, with the positions of these among the
    numbers. `extents` has the positions of the values of each weight of extents. `kernels` are
    those of `SymbolicSchedule.bound`.
    """

    schedule: Schedule
    kernels: Mapping[str, KernelSpec]
    extents: Mapping[str, tuple[int, ...]]
    symbols: Mapping[str, int]
    function: SizeFunction
    limits: Mapping[int, tuple[int, int]]
    """The least and the largest number at positions where not all are valid."""
    constant: tuple[Allocation, ...]
    """The allocations, with extents where they are `changing`."""
    changing: tuple[tuple[int, Allocation], ...]
    """The allocations with other shapes for other sizes, by index; positions are their shapes."""

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The numbers for sizes by symbol; raises KeyError for a symbol that has none."""
        return self.function(sizes[name] for name in self.symbols)

    @property
    def with_weights_alone(self) -> Schedule:
        """A schedule without tasks of the weights that are the same for all sizes."""
        weights = [a for a in self.constant if a.kind == "weight" and a.name not in self.extents]
        return Schedule(self.schedule.name, tuple(weights), ())

    def allocations_at(self, numbers: Sequence[int]) -> tuple[Allocation, ...]:
        """The allocations with these numbers; those of one size are the same objects each time."""
        allocations = [*self.constant]
        for index, memory in self.changing:
            shape = tuple([numbers[position] for position in memory.shape])
            allocations[index] = Allocation(memory.kind, memory.name, memory.dtype, shape)
        return tuple(allocations)

    def instance_at(self, numbers: Sequence[int]) -> Instance:
        """The schedule with these numbers and its kernels."""
        number = numbers.__getitem__
        (arena,) = [allocation.shape[0] for allocation in self.schedule.of_kind("arena")] or [0]
        schedule = with_numbers(self.schedule, number, number(arena))
        schedule = replace(schedule, allocations=self.allocations_at(numbers))
        kernels = {name: kernel.with_extents(number) for name, kernel in self.kernels.items()}
        values = {n: tuple(map(number, positions)) for n, positions in self.extents.items()}
        return Instance(schedule, kernels, values)


def numbered(
    symbolic: SymbolicSchedule, limits: Mapping[Extent, tuple[int, int]]
) -> NumberedSchedule:
    """The numbers of a schedule, and of further extents with limits."""
    schedule, kernels = symbolic.bound
    builder = SizeFunctionBuilder([*symbolic.symbols])
    ends: list[Extent] = []
    for slot in symbolic.slots:
        builder.define(slot.offset, (ends[lower] for lower in slot.below))
        ends.append(extent_of(slot.offset) + slot.nbytes)
    builder.define(ARENA, ends)
    position = builder.position
    of_positions = with_numbers(schedule, position, position(extent_of(ARENA)))
    sizes = {name: position(extent_of(symbol)) for name, symbol in symbolic.symbols.items()}
    return NumberedSchedule(
        schedule=of_positions,
        kernels={name: kernel.with_extents(position) for name, kernel in kernels.items()},
        extents={name: tuple(sizes[s] for s in names) for name, names in symbolic.extents.items()},
        symbols=sizes,
        limits={position(extent): ends for extent, ends in limits.items()},
        constant=schedule.allocations,
        changing=tuple(
            (index, of_positions.allocations[index])
            for index, allocation in enumerate(schedule.allocations)
            if allocation.kind == "arena" or has_symbols(allocation.shape)
        ),
        function=builder.function(),
    )
