"""Elementwise operators on a tensor and its range: dynamic quantisations."""

from collections.abc import Iterator, Sequence

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.template import Template
from compiler.kernels.gpu.templates.tensor_range.emit import range_kernel
from compiler.kernels.gpu.templates.tensor_range.problem import (
    Config,
    Problem,
    configs_of,
    read_range,
)
from compiler.kernels.group import Group
from compiler.target.target import GpuTarget

START_US, LAUNCH_US = 1.7, 2.0
"""Microseconds of the first launch and of one more."""

PARTED_US = 1.55
"""Microseconds of the only launch that reads ranges of parts with the elements: those of a row's
normalisation, see `row_norm`, less the second of its reductions."""

ITEM_US, BYTES = 0.03, 2.4e4
"""Microseconds of an element of each thread, and the bytes that an SM moves in one: those of rows
of 16 bits, see `row_norm`."""

PART_US, SUM_US = 0.02, 0.15
"""Microseconds in which each thread of a block reads a float of the ranges of parts, one of several
at once, and of one more reduction, that of the sum of a row."""


class TensorRange(Template[Problem, Config]):
    """A group of `fuse-ranges`: its extremes are exact, and the same bits every time."""

    name = "tensor_range"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only range of a group."""
        problem = read_range(group)
        return [problem] if problem else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """Any number of blocks."""
        return configs_of(problem)

    def estimate_us(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, the elements at the rate of the SMs that have some, and those of a thread."""
        busy = min(target.device.sms, config.blocks)
        parts = PART_US * 2 * ceil_div(problem.parts, config.threads)
        passes = 1 if problem.parts else 2
        once = problem.nbytes / (BYTES * busy) + ITEM_US * config.items
        launches = config.launches(problem)
        start = (PARTED_US if problem.parts else START_US) + SUM_US * (problem.row > 0)
        return start + LAUNCH_US * (launches - 1) + parts + passes * once

    def emit(self, group: Group, problem: Problem, config: Config, target: GpuTarget) -> CudaKernel:
        """The kernel of a group."""
        return range_kernel(group, problem, config, target)
