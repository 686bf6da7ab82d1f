"""Squeeze-and-excitation of images: pooling, two convolutions and scaling in one kernel."""

from collections.abc import Iterator, Sequence
from math import prod

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.squeeze_excite.emit import excite_kernel
from compiler.kernels.gpu.templates.squeeze_excite.problem import (
    Config,
    Problem,
    configs_of,
    own_channels,
    read_problem,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Key, Template
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

START_US, EXCHANGE_US = 3.9, 1.25
"""Microseconds of launching and reducing, and of an exchange within a cluster: fitted, as the rates
are, to 21 kernels on an H100, with a spread of 7 %."""

IMAGE_BYTES, WEIGHT_BYTES = 57e3, 41e3
"""Bytes of the image and of weights per microsecond and SM."""

VECTOR_BYTES, VECTOR_US = 16, 0.18
"""Bytes that a thread copies at once, and the microseconds until the next ones."""


class SqueezeExcite(Template[Problem, Config, GpuTarget]):
    """A group that `fuse-squeeze-excite` makes: an image has a cluster of blocks.

    Sums have an order that depends on the shapes and the config only: the same bits every time.
    """

    name = "squeeze_excite"
    sources = ("squeeze_excite.cuh",)

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The squeeze-and-excitation that the group is."""
        problem = read_problem(group) if target.fuses_squeeze_excite else None
        return [problem] if problem and next(configs_of(problem, target), None) else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterator[Config]:
        """The configs that fit the target."""
        return configs_of(problem, target)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Launching, exchanging sums, and few SMs that read the image and the weights."""
        waves = ceil_div(problem.shape[0] * config.blocks, target.device.sms)
        exchanges = (config.channel_parts > 1) + (config.pixel_parts > 1)
        image = prod(problem.shape[1:]) * ELEMENT_BYTES[problem.image.dtype]
        copied = image / config.blocks
        vectors = copied / (VECTOR_BYTES * config.threads)
        weights = 2 * problem.hidden * own_channels(problem, config) * ELEMENT_BYTES["float32"]
        work = copied / IMAGE_BYTES + vectors * VECTOR_US + weights / WEIGHT_BYTES
        return 1e3 * (START_US + exchanges * EXCHANGE_US + waves * work)

    def key(self, problem: Problem, target: GpuTarget) -> Key:
        """The sizes and how the image is stored."""
        return {
            "shape": problem.shape,
            "hidden": problem.hidden,
            "dtype": problem.image.dtype,
            "blocked": problem.blocked,
        }

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        return excite_kernel(group, problem, config, target)
