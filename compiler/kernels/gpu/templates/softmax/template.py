"""Softmax of few long rows, such as those of a vocabulary, which the blocks of a cluster share."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from tvm.ir import PrimType, Var

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import device_function, value_function
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    Functor,
    constants,
    functor_parameters,
    kernel,
    store_part,
    struct,
    value_part,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Template
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index

LEAST_COLUMNS = 4096
"""Shorter rows have one block in the generic schedule, as fast."""

CLUSTERS = (8, 4, 2, 1)

FLOAT_BYTES = 4

MOST_ITEMS = 32
"""Elements that fit the registers of a thread."""

START_US, CLUSTER_US, ELEMENTS = 2.8, 0.75, 8e3
"""Microseconds of a launch with two reductions, and of two exchanges within a cluster; the elements
that an SM loads and stores in one."""


@dataclass(frozen=True)
class Problem:
    """The Softmax or LogSoftmax of `rows` rows."""

    anchor: Node[int]
    context: FusionContext
    rows: int
    columns: int


@dataclass(frozen=True)
class Config:
    """Threads of a block, and blocks of a row."""

    threads: int
    blocks: int

    def items(self, problem: Problem) -> int:
        """Elements of a thread."""
        return ceil_div(problem.columns, self.threads * self.blocks)


class SoftmaxRows(Template[Problem, Config, GpuTarget]):
    """A group around one float32 Softmax or LogSoftmax of long rows.

    The order of a sum depends on the shapes alone: the same bits every time.
    """

    name = "softmax"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only Softmax of a group, along contiguous rows; None for any other group."""
        anchor = group.only("Softmax", "LogSoftmax")
        if anchor is None or group.symbols:
            return None
        info = group.values[anchor.operand(0)]
        *outer, columns = info.shape or (0,)
        last = anchor.attributes["axis"] == len(outer)
        if info.dtype != "float32" or not last or columns < LEAST_COLUMNS or not info.elements:
            return None
        context = FusionContext(group, anchor)
        return Problem(anchor, context, prod(outer), columns) if context.elementwise else None

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Blocks whose registers hold a row, and which all have some of it."""
        for blocks in CLUSTERS if target.has_clusters else CLUSTERS[-1:]:
            for threads in (512, 1024):
                config = Config(threads, blocks)
                whole = threads * (blocks - 1) < problem.columns
                if whole and config.items(problem) <= MOST_ITEMS:
                    yield config

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """The elements of the SM with most blocks, and the traffic."""
        device = target.device
        blocks = problem.rows * config.blocks
        busiest = ceil_div(blocks, device.sms)
        own = busiest * ceil_div(problem.columns, config.blocks)
        traffic = 8 * problem.rows * problem.columns / (1e3 * device.bandwidth)
        cluster = CLUSTER_US if config.blocks > 1 else 0.0
        return 1e3 * (START_US + cluster + max(traffic, own / ELEMENTS))

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: one launch, a cluster for each row."""
        load, store = _parts(group, problem, target)
        values = {
            "THREADS": config.threads,
            "BLOCKS": config.blocks,
            "ITEMS": config.items(problem),
            "COLUMNS": problem.columns,
            "LOGARITHM": int(problem.anchor.type == "LogSoftmax"),
        }
        parameters, made = functor_parameters((load, store))
        grid = (problem.rows, 1, config.blocks)
        shared = 2 * FLOAT_BYTES if config.blocks > 1 else 0
        launch = Launch(f"{group.name}_0", (), grid, (config.threads, 1, 1), shared)
        call = f"softmax<Problem>({', '.join(made)})"
        text, launch = kernel(launch, parameters, call, cluster=config.blocks)
        parts = [header("instructions"), header("softmax"), load.text, store.text]
        lines = [*parts, struct("Problem", constants(values)), text]
        return KernelSource("\n".join(lines), (launch,), flops=8 * problem.rows * problem.columns)


def _parts(group: Group, problem: Problem, target: GpuTarget) -> tuple[Functor, Functor]:
    """Elements of rows, and the results that follow from one of a Softmax."""
    context = problem.context
    place = [variable(name) for name in ("row", "column")]
    at = [*unflatten_index(place[0], context.shape[:-1]), place[1]]
    element = context.operand(0, at)
    load = value_function(f"{group.name}_load", context, element, place, target)
    value = Var("value", PrimType("float32"))
    statement = context.store(value, at)
    store = device_function(f"{group.name}_store", context, statement, [*place, value], target)
    return (
        value_part("Load", load, "int row, int column"),
        store_part("Store", store, "int row, int column, float value"),
    )
