"""ScatterOrder, in which each block sorts the updates of a range of slots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.ir.operators import SCATTER_ORDER
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.epilogue import c_type
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.template import Template
from compiler.kernels.group import Group
from compiler.schedule import Launch
from compiler.target.target import GpuTarget

MOST_THREADS, MOST_ITEMS = 1024, 10
"""Threads of a block, and indices that a thread reads at a time; 4 bytes of shared memory each."""

MOST_SLOTS = 1024
"""Slots of a block, which has 4 bytes of shared memory for each."""

LAUNCH_US, INDEX_BYTES, PLACED = 3.0, 1e5, 350.0
"""Microseconds of a launch with its barriers; the bytes of indices that an SM reads and the updates
that a warp places in one."""


@dataclass(frozen=True)
class Problem:
    """Some updates, each with the index of a slot."""

    indices: str
    updates: int
    slots: int

    @property
    def threads(self) -> int:
        """Threads of a block: whole warps."""
        return min(MOST_THREADS, ceil_div(self.updates, 32) * 32)

    @property
    def chunks(self) -> int:
        """How often a thread reads indices."""
        return ceil_div(self.updates, self.threads * MOST_ITEMS)

    @property
    def items(self) -> int:
        """Indices that a thread reads at a time: the same number each time."""
        return ceil_div(self.updates, self.threads * self.chunks)

    def slots_of_block(self, target: GpuTarget) -> int:
        """The slots of a block: one block for each SM, or more of them."""
        return min(MOST_SLOTS, ceil_div(self.slots, target.device.sms))


class SortUpdates(Template[Problem, None]):
    """A group of one ScatterOrder. Updates of a slot keep their order."""

    name = "scatter_order"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The operator that a group consists of, on indices that it reads."""
        operator, *others = group.operators
        if others or operator.type != SCATTER_ORDER or operator.operand(0) >= group.inputs:
            return []
        info = group.values[operator.operand(0)]
        return [Problem(info.dtype, info.elements, operator.attributes["slots"])]

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[None]:
        """Nothing is chosen."""
        return [None]

    def estimate_us(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Blocks read all indices, once more where they do not fit; a warp of each places some."""
        each = 4 if problem.indices == "int32" else 8
        times = 1 if problem.chunks == 1 else 2
        blocks = ceil_div(problem.slots, problem.slots_of_block(target))
        waves = ceil_div(blocks, target.device.sms)
        read = times * each * problem.updates / INDEX_BYTES
        return LAUNCH_US + waves * read + waves * problem.updates / blocks / PLACED

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> CudaKernel:
        """The kernel of a group."""
        slots, name, index = (
            problem.slots_of_block(target),
            f"{group.name}_0",
            c_type(problem.indices),
        )
        constants = {
            "THREADS": problem.threads,
            "ITEMS": problem.items,
            "COUNT": problem.updates,
            "SLOTS": problem.slots,
            "RANGE": slots,
        }
        lines = [
            header("indices"),
            header("scatter_order"),
            "struct Problem {",
            *(f"  static constexpr int {key} = {value};" for key, value in constants.items()),
            "};",
            f'extern "C" __global__ void __launch_bounds__({problem.threads}) {name}'
            f"(const {index}* __restrict__ indices, int* __restrict__ starts,"
            " int* __restrict__ order) {",
            f"  auto load = [=](int i) {{ return inside(indices[i], {problem.slots}); }};",
            "  order_updates<Problem>(load, starts, order);",
            "}",
            "",
        ]
        arguments = group.operators[0].operand(0), group.inputs, group.inputs + 1
        grid = ceil_div(problem.slots, slots), 1, 1
        launch = Launch(name, arguments, grid, (problem.threads, 1, 1))
        return CudaKernel("\n".join(lines), (launch,))
