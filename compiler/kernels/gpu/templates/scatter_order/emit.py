"""The CUDA text around scatter_order.cuh."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import StoreFunction, device_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.templates.scatter_order.problem import FEW, Problem
from compiler.kernels.gpu.untyped import tirx
from compiler.kernels.group import Group
from compiler.kernels.ops.common import safe_index
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

INTEGER_BYTES = 4

RESULTS = ("starts", "order")

WORKSPACES = ("counts", "bounds", "slots", "updates")
"""Those of three launches: counts of chunks by buckets, where buckets start, and the slots and the
updates of the buckets."""


@dataclass(frozen=True)
class Phase:
    """A launch: the function that it calls, its buffers besides the indices, and its shape."""

    function: str
    buffers: tuple[str, ...]
    blocks: int
    threads: int
    loads: bool = True


def scatter_order_kernel(group: Group, problem: Problem, target: GpuTarget) -> KernelSource:
    """The kernel of a group: one launch, or three that sort the updates by buckets first."""
    slot = _slot(group, problem, target)
    phases = _phases(problem, target)
    lines = [header("indices"), header("scatter_order"), slot.text]
    lines.append(_constants(problem, target))
    launches: list[Launch] = []
    for i, phase in enumerate(phases):
        name = f"{group.name}_{i}"
        lines.append(_function(name, phase, slot))
        arguments = (*(slot.arguments if phase.loads else ()), *_numbers(group, phase))
        grid, block = (phase.blocks, 1, 1), (phase.threads, 1, 1)
        launches.append(Launch(name, arguments, grid, block))
    scratch = _scratch(problem) if problem.in_buckets else ()
    return KernelSource("\n".join(lines), tuple(launches), scratch)


def _phases(problem: Problem, target: GpuTarget) -> Sequence[Phase]:
    threads = problem.threads
    if not problem.in_buckets:
        blocks = ceil_div(problem.slots, problem.slots_of_block(target))
        return [Phase("order_updates", RESULTS, blocks, threads)]
    last = (*WORKSPACES[1:], *RESULTS)
    return [
        Phase("count_buckets", WORKSPACES[:1], problem.chunks, threads),
        Phase("fill_buckets", WORKSPACES, problem.chunks, threads),
        Phase("sort_bucket", last, problem.buckets, problem.sorters, loads=False),
    ]


def _scratch(problem: Problem) -> tuple[int, ...]:
    """The bytes of the workspaces."""
    counts = problem.chunks * problem.buckets
    sizes = (counts, problem.buckets + 1, problem.updates, problem.updates)
    return tuple(INTEGER_BYTES * size for size in sizes)


def _numbers(group: Group, phase: Phase) -> list[int]:
    """The task's buffers of a phase, besides those of the indices."""
    every = (*RESULTS, *WORKSPACES)
    return [group.inputs + every.index(name) for name in phase.buffers]


def _constants(problem: Problem, target: GpuTarget) -> str:
    slots = problem.bucket_slots if problem.in_buckets else problem.slots_of_block(target)
    constants: Mapping[str, int] = {
        "THREADS": problem.threads,
        "ITEMS": problem.items,
        "COUNT": problem.updates,
        "SLOTS": problem.slots,
        "RANGE": slots,
        "FEW": FEW,
        "BUCKETS": problem.buckets,
        "BLOCKS": problem.chunks,
        "SORTERS": problem.sorters,
    }
    lines = [f"  static constexpr int {name} = {value};" for name, value in constants.items()]
    return "\n".join(["struct Problem {", *lines, "};", ""])


def _function(name: str, phase: Phase, slot: StoreFunction) -> str:
    indices = [f"buffer{i}" for i in range(len(slot.types))] if phase.loads else []
    given = [f"{kind}* {own}" for kind, own in zip(slot.types, indices, strict=False)]
    given += [f"int* {own}" for own in phase.buffers]
    passed = ["load"] if phase.loads else []
    lines = [
        f'extern "C" __global__ void __launch_bounds__({phase.threads}) {name}'
        f"({', '.join(given)}) {{"
    ]
    if phase.loads:
        lines += [
            "  auto load = [=](int update) {",
            "    int slot;",
            f"    {slot.name}({', '.join(['&slot', *indices, 'update'])});",
            "    return slot;",
            "  };",
        ]
    lines.append(f"  {phase.function}<Problem>({', '.join([*passed, *phase.buffers])});")
    return "\n".join([*lines, "}", ""])


def _slot(group: Group, problem: Problem, target: GpuTarget) -> StoreFunction:
    """The slot that the index of an update names."""
    context, update = FusionContext(group, problem.anchor), variable("update")
    slot = safe_index(context.operand(0, [update]), problem.slots)
    result = tirx.decl_buffer((1,), "int32", name="result")
    statement = tirx.BufferStore(result, slot, [0])
    name = f"{group.name}_slot"
    return device_function(name, context, statement, [update], target, [result])
