"""GroupNormalization and InstanceNormalization of images, which read memory once."""

from collections.abc import Iterator, Sequence
from math import prod

from compiler.kernels.gpu.templates.group_norm.emit import group_norm_kernel
from compiler.kernels.gpu.templates.group_norm.problem import (
    Config,
    Problem,
    configs_of,
    items,
    read_group_norm,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.target.target import GpuTarget

START_US, CLUSTER_US, LAUNCH_US = 2.2, 1.0, 2.2
"""Microseconds of a launch of single blocks, of a cluster's exchange, and of one more launch."""

ITEM_US, ELEMENTS = 0.28, 2.9e3
"""Microseconds of a vector of each thread, and the elements that an SM has in one: fitted on an
H100, as the others are, with a spread of 16 %."""


class GroupNorm(Template[Problem, Config, GpuTarget]):
    """A group around one float32 normalisation of images whose groups fit registers.

    Sums have an order that depends on the shapes and the config only: the same bits every time.
    """

    name = "group_norm"
    sources = ("group_norm.cuh",)

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only normalisation of a group."""
        problem = read_group_norm(group)
        return [problem] if problem and next(configs_of(problem, target), None) else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs whose registers hold the groups."""
        return configs_of(problem, target)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, exchanging moments, and the elements at the rate of the SMs that have some."""
        exchange = CLUSTER_US if config.cluster else LAUNCH_US * (config.launches - 1)
        busy = min(target.device.sms, problem.spans * config.blocks)
        work = config.launches * prod(problem.context.shape) / (ELEMENTS * busy)
        return 1e3 * (START_US + exchange + items(problem, config) * ITEM_US + work)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and how they are stored; prologue and epilogue are left out."""
        image = problem.image
        return {
            "shape": problem.context.shape,
            "groups": problem.groups,
            "blocked": problem.blocked,
            "width": problem.width,
            "dtype": image.dtype if image else "computed",
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        return group_norm_kernel(group, problem, config, target)
