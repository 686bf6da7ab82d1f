"""ScatterOrder, in which each block sorts the updates of a range of slots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.ir.operators import SCATTER_ORDER
from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.cuda_kernel import CudaKernel
from compiler.kernels.gpu.epilogue import StoreFunction, device_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.template import Template
from compiler.kernels.gpu.untyped import tirx
from compiler.kernels.group import Group, Operator
from compiler.kernels.ops.common import safe_index
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
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
    """Some updates, each with the index of a slot, which the group may compute."""

    anchor: Operator
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
    """A group that ends in a ScatterOrder. Updates of a slot keep their order."""

    name = "scatter_order"

    def match(self, group: Group, target: GpuTarget) -> Sequence[Problem]:
        """The operator that a group ends in; others compute its indices."""
        *_, anchor = group.operators
        if anchor.type != SCATTER_ORDER or group.outputs != anchor.outputs:
            return []
        info = group.values[anchor.operand(0)]
        return [Problem(anchor, info.dtype, info.elements, anchor.attributes["slots"])]

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
        slots, name = problem.slots_of_block(target), f"{group.name}_0"
        constants = {
            "THREADS": problem.threads,
            "ITEMS": problem.items,
            "COUNT": problem.updates,
            "SLOTS": problem.slots,
            "RANGE": slots,
        }
        function = _slot(group, problem, target)
        buffers = [f"buffer{i}" for i in range(len(function.types))]
        given = [f"{kind}* {own}" for kind, own in zip(function.types, buffers, strict=True)]
        lines = [
            header("indices"),
            header("scatter_order"),
            function.text,
            "struct Problem {",
            *(f"  static constexpr int {key} = {value};" for key, value in constants.items()),
            "};",
            f'extern "C" __global__ void __launch_bounds__({problem.threads}) {name}'
            f"({', '.join([*given, 'int* __restrict__ starts', 'int* __restrict__ order'])}) {{",
            "  auto load = [=](int update) {",
            "    int slot;",
            f"    {function.name}({', '.join(['&slot', *buffers, 'update'])});",
            "    return slot;",
            "  };",
            "  order_updates<Problem>(load, starts, order);",
            "}",
            "",
        ]
        arguments = *function.arguments, group.inputs, group.inputs + 1
        grid = ceil_div(problem.slots, slots), 1, 1
        launch = Launch(name, arguments, grid, (problem.threads, 1, 1))
        return CudaKernel("\n".join(lines), (launch,))


def _slot(group: Group, problem: Problem, target: GpuTarget) -> StoreFunction:
    """The slot that the index of an update names."""
    context, update = FusionContext(group, problem.anchor), variable("update")
    slot = safe_index(context.operand(0, [update]), problem.slots)
    result = tirx.decl_buffer((1,), "int32", name="result")
    statement = tirx.BufferStore(result, slot, [0])
    name = f"{group.name}_slot"
    return device_function(name, context, statement, [update], target, [result])
