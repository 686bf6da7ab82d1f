"""ScatterND and ScatterElements, in which each element of the result has one thread."""

from collections.abc import Sequence

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.scatter.emit import scatter_kernel
from compiler.kernels.gpu.templates.scatter.problem import FLIGHT, Problem, read_scatter
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, OneWay
from compiler.target.target import GpuTarget

LAUNCH_US, CHUNK_US, ROUND_US, LOOK_US, UPDATE_US, BYTES = 8.0, 1.2, 0.5, 0.7, 0.25, 2e6
"""Microseconds of a launch and its sort, fitted to four scatters on an H100 (11 to 14 us); of
slices, of a chunk of indices and of one round of loads; of single elements, of a look among the
indices and of an update; the bytes of a microsecond. The latter were not measured one by one."""


class Scatter(OneWay[Problem, GpuTarget]):
    """A group of one scatter.

    Updates of one element are combined in their order: the same bits every time.
    """

    name = "scatter"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The scatter that a group consists of."""
        problem = read_scatter(group)
        return [problem] if problem else []

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Copying, looking through all indices, and a thread's share of the updates."""
        copied = 8 * problem.slots * problem.inner / BYTES
        slots = problem.slots_of_range(target)
        share = problem.updates * slots / problem.slots
        if problem.slices:
            chunks = ceil_div(problem.updates, problem.threads * problem.items)
            share *= problem.sharers / problem.threads / FLIGHT
            rounds = max(chunks, share) * ceil_div(problem.inner, problem.sharers * problem.width)
            return 1e3 * (LAUNCH_US + copied + chunks * CHUNK_US + rounds * ROUND_US)
        looked = problem.updates / problem.threads * LOOK_US
        return 1e3 * (2 * LAUNCH_US + copied + looked + share * UPDATE_US)

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of a group."""
        return scatter_kernel(group, problem, target)
