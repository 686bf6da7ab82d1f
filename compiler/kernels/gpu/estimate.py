"""A group's kernel before it is built: its launches, and how long it takes alone."""

from dataclasses import dataclass, replace
from math import ceil

from compiler.kernels.gpu.epilogue import without_text
from compiler.kernels.gpu.generic import element_threads, items_of
from compiler.kernels.gpu.ranges.kernels import extra_launches
from compiler.kernels.gpu.select import Selection, best
from compiler.kernels.group import Group
from compiler.schedule import KernelSpec, Launch
from compiler.target.target import GpuTarget

TYPICAL_REGISTERS = 64
"""Registers of a thread of a template's kernel, where it is not compiled."""


@dataclass(frozen=True, slots=True)
class KernelEstimate:
    """A kernel without code and counted work, and its nanoseconds where a template knows them."""

    kernel: KernelSpec
    nanoseconds: float | None = None


def estimated(group: Group, target: GpuTarget) -> KernelEstimate:
    """The kernel that would be built for a group, in about a millisecond."""
    found = best(group, target)
    if found is None:
        own = (_generic_launch(group), *extra_launches(group, folds=False))
        return KernelEstimate(_kernel(group, own))
    with without_text():
        emitted = found.launches()
    launches = tuple(
        replace(launch, registers=launch.registers or TYPICAL_REGISTERS) for launch in emitted
    )
    return KernelEstimate(_kernel(group, launches), _time(found))


def _time(found: Selection) -> float | None:
    """Nanoseconds by the database, else by the template's model of the chosen config.

    None for templates without a model, whose estimate is 0: no other one competes with them.
    """
    if found.candidate.entry is not None:
        return found.candidate.entry.ranked[0].warm + 1000.0 * found.candidate.ranges_us
    return 1000.0 * found.candidate.estimate_of(found.config) or None


def _generic_launch(group: Group) -> Launch:
    """One thread computes one or a few elements, as in most kernels of the generic schedule."""
    elements = max(info.elements for info in group.writes)
    threads = element_threads(elements)
    grid = (max(1, ceil(elements / (threads * items_of(elements)))), 1, 1)
    return Launch(group.name, (), grid, (threads, 1, 1), registers=32)


def _kernel(group: Group, launches: tuple[Launch, ...]) -> KernelSpec:
    return KernelSpec(group.name, "cuda", b"", launches, packings=("",) * group.inputs)
