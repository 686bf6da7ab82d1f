"""SegmentSum, in which a warp or a part of it has a row."""

from collections.abc import Sequence

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.operands import ELEMENT_BYTES
from compiler.kernels.gpu.templates.segment_sum.emit import segment_sum_kernel
from compiler.kernels.gpu.templates.segment_sum.problem import FLIGHT, Problem, read_segment_sum
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, OneWay
from compiler.target.target import GpuTarget

LAUNCH_US, ROUND_US, BYTES = 2.0, 0.6, 3.6e6
"""Microseconds of a launch, of the latency of one round of loads after another, and the bytes of a
microsecond: fitted to six sums on an H100 (2.4 to 6.4 us)."""


class SumSegments(OneWay[Problem, GpuTarget]):
    """A group around one SegmentSum in float32.

    The order of a sum depends on the length of its segment only: the same bits every time.
    """

    name = "segment_sum"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only sum of a group."""
        problem = read_segment_sum(group)
        return [problem] if problem else []

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Memory traffic, and the latency of the loads of a segment of average length."""
        each = ELEMENT_BYTES[problem.rows.dtype] if problem.rows else 4
        traffic = problem.columns * problem.updates * each + 8 * problem.slots * problem.length
        share = problem.updates / problem.slots / problem.parts(target)
        return 1e3 * (LAUNCH_US + max(traffic / BYTES, ROUND_US * ceil_div(int(share) + 1, FLIGHT)))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of a group."""
        return segment_sum_kernel(group, problem, target)
