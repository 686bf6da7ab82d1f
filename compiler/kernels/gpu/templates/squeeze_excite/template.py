"""Squeeze-and-excitation of images: pooling, two convolutions and scaling in one kernel."""

from collections.abc import Iterator, Sequence
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.template import Key, Template
from compiler.kernels.gpu.templates.squeeze_excite.emit import excite_kernel
from compiler.kernels.gpu.templates.squeeze_excite.problem import (
    Config,
    Problem,
    configs_of,
    own_channels,
    read_problem,
)
from compiler.kernels.group import Group
from compiler.schedule import ELEMENT_BYTES
from compiler.target.target import GpuTarget

START_US, EXCHANGE_US = 2.2, 0.5
"""Launching and reducing, and an exchange within a cluster."""

BYTES, DOT_US = 90e3, 0.05
"""Bytes per microsecond that an SM copies, and the microseconds of a warp's dot product."""


class SqueezeExcite(Template[Problem, Config]):
    """A group that `fuse-squeeze-excite` makes: an image has a cluster of blocks.

    Sums have an order that depends on the shapes and the config only: the same bits every time.
    """

    name = "squeeze_excite"
    headers = ("squeeze_excite",)
    config_type = Config

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The squeeze-and-excitation that the group is."""
        problem = read_problem(group) if target.fuses_squeeze_excite else None
        return [problem] if problem and next(configs_of(problem, target), None) else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit the target."""
        return configs_of(problem, target)

    def estimate_us(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, exchanging sums, copying the image by few SMs, and dot products."""
        waves = ceil_div(problem.shape[0] * config.blocks, target.device.sms)
        exchanges = (config.channel_parts > 1) + (config.pixel_parts > 1)
        image = prod(problem.shape[1:]) * ELEMENT_BYTES[problem.image.dtype]
        copied = 2 * image / config.blocks
        channels, warps = own_channels(problem, config), config.threads // 32
        dots = ceil_div(problem.hidden, warps) + ceil_div(channels, warps)
        return START_US + exchanges * EXCHANGE_US + waves * copied / BYTES + dots * DOT_US

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and how the image is stored."""
        return {
            "shape": problem.shape,
            "hidden": problem.hidden,
            "dtype": problem.image.dtype,
            "blocked": problem.blocked,
        }

    def emit(self, group: Group, problem: Problem, config: Config, target: GpuTarget) -> CudaKernel:
        """The kernel of a group."""
        return excite_kernel(group, problem, config, target)
