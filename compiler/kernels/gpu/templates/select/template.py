"""TopK of few elements, in which the threads of a row search for the last of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import kernel, restricted
from compiler.kernels.gpu.templates.top_k.template import (
    Problem,
    problem_text,
    read_top_k,
    result_parameters,
    results_text,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Template
from compiler.schedule.kernels import Launch
from compiler.target.devices import DEFAULT_SHARED_BYTES
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES

MOST_COUNT = 1024
"""The most elements that are selected of a row: each is compared with all others."""

KEY_BYTES, OTHER_REGISTERS = 128, 32
"""Bytes of keys that a thread keeps in registers, and registers for all else."""

WARP, THREADS = 32, 128
"""Threads of a warp, and of a block, unless a row has more."""


@dataclass(frozen=True)
class Config:
    """The threads that share a row: a power of two, at least a warp."""

    sharers: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return max(THREADS, self.sharers)

    def sorts_at_once(self, problem: Problem) -> bool:
        """Whether the lanes of a warp have an element each, which needs no search."""
        return self.sharers == WARP and problem.length <= WARP

    def items(self, problem: Problem) -> int:
        """The elements of a thread."""
        return ceil_div(problem.length, self.sharers)

    def blocks(self, problem: Problem) -> int:
        """The blocks of a launch."""
        return ceil_div(problem.rows * self.sharers, self.threads)

    def shared_bytes(self, problem: Problem) -> int:
        """Bytes of shared memory for the entries that a block selects."""
        return self.threads // self.sharers * problem.count * problem.entry_bytes


LAUNCH_US, STEP_US, BARRIER_US, COMPARED_US, RANKED_US = 2.2, 0.1, 0.06, 0.003, 0.008
"""Microseconds of a launch with its loads and stores, of a step of the search, of its barrier where
a row has more than a warp, and of comparing an element in a step, and one that is selected with
another, by each of a scheduler's warps: fitted to six problems on an H200 (15 to 100 us)."""

SCHEDULERS = 4
"""Warps of an SM that compute at a time."""


class SelectRows(Template[Problem, Config, GpuTarget]):
    """A group that is a TopK of few elements, along any axis: a step for each bit of a key.

    Of equal elements the earlier comes first, NaN counts as the largest: the same bits every time.
    """

    name = "select"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only TopK of a group, if it is of few elements."""
        problem = read_top_k(group)
        return problem if problem and problem.count <= MOST_COUNT else None

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Warps and blocks whose registers hold a row."""
        most = KEY_BYTES // max(4, ELEMENT_BYTES[problem.dtype])
        for config in map(Config, (WARP, 128, 256, 512, 1024)):
            fits = config.shared_bytes(problem) <= DEFAULT_SHARED_BYTES
            if config.items(problem) <= most and fits:
                yield config

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """The steps of the search and the ranks of what is selected, by a scheduler's warps."""
        device = target.device
        items = config.items(problem)
        blocks = config.blocks(problem)
        size = ELEMENT_BYTES[problem.dtype]
        registers = items * max(4, size) // 4 + OTHER_REGISTERS
        shared = config.shared_bytes(problem)
        resident = device.resident_blocks(config.threads, registers, shared)
        together = min(resident, ceil_div(blocks, device.sms))
        warps = max(1.0, together * config.threads / 32 / SCHEDULERS)
        waves = ceil_div(blocks, resident * device.sms)
        if config.sorts_at_once(problem):
            return 1e3 * (LAUNCH_US + waves * problem.length * warps * RANKED_US)
        step = STEP_US + (BARRIER_US if config.sharers > WARP else 0) + items * warps * COMPARED_US
        ranks = ceil_div(problem.count, config.sharers) * problem.count * warps * RANKED_US
        return 1e3 * (LAUNCH_US + waves * (8 * size * step + ranks))

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: one launch."""
        own = {"THREADS": config.threads, "SHARERS": config.sharers, "ITEMS": config.items(problem)}
        data = restricted("const Problem::Bits*", "data", problem.operator.operand(0))
        parameters = [data, *result_parameters(group, problem)]
        grid = (config.blocks(problem), 1, 1)
        launch = Launch(f"{group.name}_0", (), grid, (config.threads, 1, 1))
        call = f"select_rows<Problem>(Elements<Problem>{{data}}, {results_text(group, problem)})"
        text, launch = kernel(launch, parameters, call)
        parts = [header("top_k"), header("select"), problem_text(problem, own), text]
        return KernelSource("\n".join(parts), (launch,))
