"""TopK and sorts, in which blocks sort tiles of rows and merge them."""

from collections.abc import Iterable, Sequence

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.top_k.emit import top_k_kernel
from compiler.kernels.gpu.templates.top_k.problem import (
    ITEMS,
    Config,
    Problem,
    Sorting,
    read_top_k,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Template
from compiler.target.target import GpuTarget

LAUNCH_US, MERGE_US, REGISTERS = 2.2, 0.5, 80
"""Microseconds of a launch with its loads and stores, and of one merge of a tile with its two
barriers, by their latencies on an H100; registers of a thread."""


class SortRows(Template[Problem, Config, GpuTarget]):
    """A group that is a TopK: of any count, along any axis, in at most n log n steps a row.

    Of equal elements the earlier comes first, NaN counts as the largest: the same bits every time.
    """

    name = "top_k"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only TopK of a group."""
        problem = read_top_k(group)
        return [problem] if problem else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Blocks of whole warps; large ones merge less often."""
        yield from (Config(threads) for threads in (256, 128, 64))

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Waves of blocks, each with the latency of its merges, and the traffic of all launches."""
        device, total = target.device, 0.0
        shared = config.tile * problem.entry_bytes
        resident = device.sms * device.resident_blocks(config.threads, REGISTERS, shared)
        for launch in problem.launches(config):
            merges = (launch.segment // ITEMS).bit_length() if isinstance(launch, Sorting) else 3
            waves = ceil_div(launch.blocks, resident)
            traffic = 2 * launch.blocks * shared / device.bandwidth / 1000
            total += LAUNCH_US + max(traffic, waves * MERGE_US * merges)
        return 1e3 * total

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        return top_k_kernel(group, problem, config)
