"""Running sums, in which blocks scan chunks of rows."""

from collections.abc import Iterable, Sequence

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.cumulative.emit import cumulative_kernel, sum_bytes
from compiler.kernels.gpu.templates.cumulative.problem import Config, Problem, read_cumulative
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Template
from compiler.target.target import GpuTarget

LAUNCH_US, TILE_US, SCAN_US, REGISTERS = 2.2, 0.9, 0.06, 40
"""Microseconds of a launch, of loading and storing a tile, and of one step of its threads' scan
with two barriers, by their latencies on an H100; registers of a thread."""


class ScanRows(Template[Problem, Config, GpuTarget]):
    """A group that is a CumSum, along any axis: the same bits every time."""

    name = "cumulative"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The only running sum of a group."""
        problem = read_cumulative(group)
        return [problem] if problem else []

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Blocks of whole warps, whose threads have a few elements."""
        yield from (Config(threads, items) for threads in (256, 128, 64) for items in (8, 4, 2))

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """Waves of blocks, each with the latency of its tiles, or the traffic of the tensor."""
        device, division = target.device, problem.division(config, target)
        shared = (config.tile * 33 // 32 + config.threads) * sum_bytes(problem.dtype)
        resident = device.sms * device.resident_blocks(config.threads, REGISTERS, shared)
        waves = ceil_div(division.blocks * division.chunks, resident)
        rounds = (config.threads // division.lanes).bit_length()
        tiles = waves * division.chunk // division.steps
        tile = TILE_US * config.items / 4 + SCAN_US * rounds
        traffic = 2 * problem.nbytes / device.bandwidth / 1000
        sums = (division.chunks > 1) * (LAUNCH_US + max(traffic / 2, tiles * TILE_US / 2))
        return 1e3 * (sums + LAUNCH_US + max(traffic, tiles * tile))

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group."""
        return cumulative_kernel(group, problem, config, target)
