"""ScatterOrder, in which each block sorts the updates of a range of slots."""

from collections.abc import Sequence

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.scatter_order.emit import scatter_order_kernel
from compiler.kernels.gpu.templates.scatter_order.problem import Problem, read_scatter_order
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, OneWay
from compiler.target.target import GpuTarget

LAUNCH_US, CHUNK_US, RANKED = 3.0, 1.5, 300.0
"""Microseconds of a launch with its barriers and of reading a chunk of indices, and the updates of
a block that are ranked in one."""

SORTED_US, CHUNK_SORTED_US = 8.0, 15.0
"""Microseconds of three launches, and of sorting a chunk: fitted to an order of a million updates
on an H100 (78 us)."""


class SortUpdates(OneWay[Problem, GpuTarget]):
    """A group that ends in a ScatterOrder. Updates of a slot keep their order."""

    name = "scatter_order"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The order that a group ends in."""
        problem = read_scatter_order(group)
        return [problem] if problem else []

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """The chunks of all indices that a block reads, or those of its bucket that it sorts."""
        sms = target.device.sms
        if problem.in_buckets:
            share = problem.updates / problem.buckets / (problem.sorters * problem.items)
            rounds = ceil_div(problem.chunks, sms) + ceil_div(problem.buckets, sms) * share
            return 1e3 * (SORTED_US + rounds * CHUNK_SORTED_US)
        blocks = ceil_div(problem.slots, problem.slots_of_block(target))
        ranked = problem.updates / blocks / RANKED
        return 1e3 * (LAUNCH_US + ceil_div(blocks, sms) * (problem.chunks * CHUNK_US + ranked))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of a group."""
        return scatter_order_kernel(group, problem, target)
