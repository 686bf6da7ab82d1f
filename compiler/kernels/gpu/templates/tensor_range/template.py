"""Elementwise operators on a tensor and its range: dynamic quantisations."""

from collections.abc import Iterator

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.tensor_range.emit import (
    Config,
    Problem,
    configs_of,
    range_kernel,
    read_range,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Template
from compiler.target.target import GpuTarget

START_US, LAUNCH_US = 1.7, 2.0
"""Microseconds of the first launch and of one more."""

PARTED_US, PARTED_ITEM_US, PARTED_THREADS_US = 0.95, 0.53, 0.31
"""Microseconds of the only launch that reads ranges of parts with the elements, of an element of
each thread, and of each `FITTED_THREADS` threads that an SM has on average: fitted to 20 kernels
on an H100 (2026-11-25) with a mean error of 4 %."""

FITTED_THREADS = 256

ITEM_US, BYTES = 0.03, 2.4e4
"""Microseconds of an element of each thread, and the bytes that an SM moves in one: those of rows
of 16 bits, see `row_norm`."""

PART_US, SUM_US = 0.02, 0.15
"""Microseconds in which each thread of a block reads a float of the ranges of parts, one of several
at once, and of one more reduction, that of the sum of a row."""


class TensorRange(Template[Problem, Config, GpuTarget]):
    """A group of `fuse-ranges`: its extremes are exact, and the same bits every time."""

    name = "tensor_range"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only range of a group."""
        return read_range(group)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """Any number of blocks."""
        return configs_of(problem)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, the elements at the rate of the SMs that have some, and those of a thread."""
        summing = SUM_US * (problem.row > 0)
        if problem.parts:
            parts = PART_US * 2 * ceil_div(problem.parts, config.threads)
            each = config.blocks * config.threads / (FITTED_THREADS * target.device.sms)
            start = PARTED_US + parts + summing
            return 1e3 * (start + PARTED_ITEM_US * config.items + PARTED_THREADS_US * each)
        busy = min(target.device.sms, config.blocks)
        once = problem.nbytes / (BYTES * busy) + ITEM_US * config.items
        return 1e3 * (START_US + summing + LAUNCH_US * (config.launches(problem) - 1) + 2 * once)

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        return range_kernel(group, problem, config, target)
