"""ScatterOrder, in which each block sorts the updates of a range of slots."""

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import StoreFunction, device_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import constants, struct
from compiler.kernels.gpu.untyped import tirx
from compiler.kernels.group import Group, Node
from compiler.kernels.ops.common import safe_index
from compiler.kernels.template import KernelSource, OneWay
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.net.operators import SCATTER_ORDER
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget

MOST_THREADS, MOST_ITEMS = 1024, 10
"""Threads of a block, and indices that a thread reads at a time."""

FEW = 1024
"""Updates of a block that are ranked one by one; 8 bytes of shared memory each."""

MOST_SLOTS = 256
"""Slots of a block that reads all indices: a counter of 4 bytes for each of its warps."""

MOST_READ = 40_000
"""Most updates of which each block reads all."""

SMALLER, MOST_CHUNKS = (512, 256, 128), 132
"""Threads of blocks that count and fill buckets, and the blocks from which on they are larger."""

BUCKETS, MOST_BUCKETS = 128, 512
"""Buckets of slots, and the most of them: as many as the threads of a small block."""

BUCKET_SLOTS, MOST_BUCKET_SLOTS = 1024, 5500
"""Slots of a bucket, where there are buckets left, and the most that fit shared memory twice."""

COUNTERS = 11_000
"""Counters of 4 bytes that fit the shared memory of a block."""


@dataclass(frozen=True)
class Problem:
    """Some updates, each with the index of a slot, which the group may compute."""

    anchor: Node[int]
    indices: str
    updates: int
    slots: int

    @property
    def in_buckets(self) -> bool:
        """Whether three launches sort the updates: there are too many for each block to read."""
        return self.updates > MOST_READ and self.slots <= MOST_BUCKETS * MOST_BUCKET_SLOTS

    @property
    def buckets(self) -> int:
        """The buckets of slots."""
        wanted = max(BUCKETS, ceil_div(self.slots, BUCKET_SLOTS))
        return ceil_div(self.slots, ceil_div(self.slots, min(MOST_BUCKETS, wanted)))

    @property
    def bucket_slots(self) -> int:
        """The slots of a bucket."""
        return ceil_div(self.slots, self.buckets)

    @property
    def threads(self) -> int:
        """Threads of a block: whole warps, each of which has a counter for each bucket."""
        if self.in_buckets:
            fitting = [t for t in (MOST_THREADS, *SMALLER) if t // 32 * self.buckets <= COUNTERS]
            fitting = [threads for threads in fitting if threads >= self.buckets]
            enough = [t for t in fitting if ceil_div(self.updates, t * MOST_ITEMS) <= MOST_CHUNKS]
            return min(enough, default=fitting[0])
        return min(MOST_THREADS, ceil_div(self.updates, 32) * 32)

    @property
    def chunks(self) -> int:
        """The chunks of updates that a block has at a time."""
        return ceil_div(self.updates, self.threads * MOST_ITEMS)

    @property
    def items(self) -> int:
        """Indices that a thread reads at a time: the same number each time."""
        return ceil_div(self.updates, self.threads * self.chunks)

    @property
    def sorters(self) -> int:
        """Threads that sort a bucket: each of their warps has a counter for each slot."""
        warps = max(1, min(8, COUNTERS // self.bucket_slots - 1))
        return 32 * (1 << (warps.bit_length() - 1))

    def slots_of_block(self, target: GpuTarget) -> int:
        """The slots of a block that reads all indices: one block for each SM, or more of them."""
        return min(MOST_SLOTS, ceil_div(self.slots, target.device.sms))


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


def _scratch(problem: Problem) -> tuple[int, ...]:
    """The bytes of the workspaces."""
    counts = problem.chunks * problem.buckets
    sizes = (counts, problem.buckets + 1, problem.updates, problem.updates)
    return tuple(INTEGER_BYTES * size for size in sizes)


def _constants(problem: Problem, target: GpuTarget) -> str:
    slots = problem.bucket_slots if problem.in_buckets else problem.slots_of_block(target)
    values: Mapping[str, int] = {
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
    return struct("Problem", constants(values))


def _function(name: str, phase: Phase, slot: StoreFunction) -> str:
    indices = slot.names if phase.loads else []
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
    context = FusionContext(group, problem.anchor)
    update = variable("update")
    slot = safe_index(context.operand(0, [update]), problem.slots)
    result = tirx.decl_buffer((1,), "int32", name="result")
    statement = tirx.BufferStore(result, slot, [0])
    name = f"{group.name}_slot"
    return device_function(name, context, statement, [update], target, results=[result])


LAUNCH_US, CHUNK_US, RANKED = 3.0, 1.5, 300.0
"""Microseconds of a launch with its barriers and of reading a chunk of indices, and the updates of
a block that are ranked in one."""

SORTED_US, CHUNK_SORTED_US = 8.0, 15.0
"""Microseconds of three launches, and of sorting a chunk: fitted to an order of a million updates
on an H100 (78 us)."""


class SortUpdates(OneWay[Problem, GpuTarget]):
    """A group that ends in a ScatterOrder. Updates of a slot keep their order."""

    name = "scatter_order"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The order that a group ends in, others computing its indices; None for any other."""
        *_, anchor = group.operators
        if anchor.type != SCATTER_ORDER or group.outputs != anchor.outputs:
            return None
        info = group.values[anchor.operand(0)]
        return Problem(anchor, info.dtype, info.elements, anchor.attributes["slots"])

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """The chunks of all indices that a block reads, or those of its bucket that it sorts."""
        sms = target.device.sms
        if problem.in_buckets:
            share = problem.updates / problem.buckets / (problem.sorters * problem.items)
            rounds = ceil_div(problem.chunks, sms) + ceil_div(problem.buckets, sms) * share
            return 1e3 * (SORTED_US + rounds * CHUNK_SORTED_US)
        blocks = ceil_div(problem.slots, problem.slots_of_block(target))
        ranked = problem.updates / blocks / RANKED
        return 1e3 * (LAUNCH_US + ceil_div(blocks, sms) * (problem.chunks * CHUNK_US + ranked))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        """The kernel of a group: one launch, or three that sort the updates by buckets first."""
        slot = _slot(group, problem, target)
        threads = problem.threads
        if not problem.in_buckets:
            blocks = ceil_div(problem.slots, problem.slots_of_block(target))
            phases = [Phase("order_updates", RESULTS, blocks, threads)]
        else:
            last = (*WORKSPACES[1:], *RESULTS)
            phases = [
                Phase("count_buckets", WORKSPACES[:1], problem.chunks, threads),
                Phase("fill_buckets", WORKSPACES, problem.chunks, threads),
                Phase("sort_bucket", last, problem.buckets, problem.sorters, loads=False),
            ]
        lines = [header("indices"), header("scatter_order"), slot.text]
        lines.append(_constants(problem, target))
        launches: list[Launch] = []
        for i, phase in enumerate(phases):
            name = f"{group.name}_{i}"
            lines.append(_function(name, phase, slot))
            every = (*RESULTS, *WORKSPACES)
            arguments = (
                *(slot.arguments if phase.loads else ()),
                *[group.inputs + every.index(name) for name in phase.buffers],
            )
            grid, block = (phase.blocks, 1, 1), (phase.threads, 1, 1)
            launches.append(Launch(name, arguments, grid, block))
        scratch = _scratch(problem) if problem.in_buckets else ()
        return KernelSource("\n".join(lines), tuple(launches), scratch)
