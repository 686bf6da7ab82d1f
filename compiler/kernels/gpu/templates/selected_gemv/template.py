"""Einsums of vectors by matrices that indices select, such as experts' that a router chose."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from tvm.ir import PrimType, Var

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import c_type, device_function, value_function
from compiler.kernels.gpu.operands import Operand, find_operand
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    Functor,
    constants,
    kernel,
    numbered_parameters,
    store_part,
    struct,
    value_part,
)
from compiler.kernels.group import Group, Node
from compiler.kernels.template import KernelSource, Template
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import variable
from compiler.net.operators.einsum import einsum_terms
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.row_major import unflatten_index

WARP = 32

MOST_DEPTH = 4096
"""The longest vector, which a block keeps in shared memory."""

START_US, LATENCY_US, CACHE_BYTES, UNROLLED = 1.9, 0.55, 60e3, 16
"""As of GEMVs: microseconds to launch and to add sums, and of a load where all SMs load, most bytes
per microsecond that an SM loads, and the rows that a warp loads at once."""

REGISTERS = 96
"""Registers of a thread with the rows that it has loaded."""


@dataclass(frozen=True)
class Config:
    """Warps of a block, and columns of a lane."""

    warps: int
    width: int


@dataclass(frozen=True)
class Problem:
    """`results` vectors, each multiplied by the one of `matrices` that its index selects.

    A matrix has `depth` rows of as many elements as the result has columns. `vector` is the
    position of the vectors among the operands of the Einsum, whose axes `axes` are those of the
    result or, for -1, the summed one.
    """

    anchor: Node[int]
    matrices: Operand
    indices: int
    results: tuple[int, ...]
    columns: int
    vector: int
    axes: tuple[int, ...]
    context: FusionContext = field(compare=False, repr=False)

    @property
    def depth(self) -> int:
        """Elements of a vector."""
        return self.matrices.view.shape[1]

    def bytes_of(self, config: Config) -> int:
        """The bytes that a block reads of its matrix."""
        return self.depth * WARP * config.width * ELEMENT_BYTES[self.matrices.dtype]

    def grid(self, config: Config) -> tuple[int, int, int]:
        """The blocks of a launch."""
        return prod(self.results), ceil_div(self.columns, WARP * config.width), 1


def read_selected(group: Group) -> Problem | None:
    """The only Einsum of a group, if it multiplies vectors by selected matrices; else None."""
    einsums = [op for op in group.operators if op.type == "Einsum"]
    if len(einsums) != 1 or len(einsums[0].inputs) != 2 or group.symbols:
        return None
    (anchor,) = einsums
    makers = {value: op for op in group.operators for value in op.outputs}
    gathers = [makers.get(anchor.operand(i)) for i in range(2)]
    chosen = [i for i, op in enumerate(gathers) if op is not None and _selects(group, op)]
    if len(chosen) != 1:
        return None
    (position,) = chosen
    gather = gathers[position]
    assert gather is not None
    matrices = find_operand(group, gather.operand(0))
    if matrices is None or not group.weights[matrices.read] or matrices.view.ndim != 3:
        return None  # weights are where vectors can be loaded
    in_order = matrices.view.shape == group.values[matrices.read].shape
    axes = _axes(anchor.attributes["equation"], 1 - position)
    if axes is None or not in_order or matrices.view.shape[1] > MOST_DEPTH:
        return None
    context = FusionContext(group, anchor)
    if not context.elementwise or context.dtype != "float32":
        return None
    *results, columns = context.shape
    return Problem(
        anchor=anchor,
        matrices=matrices,
        indices=gather.operand(1),
        results=tuple(results),
        columns=columns,
        vector=1 - position,
        axes=axes,
        context=context,
    )


def _selects(group: Group, op: Node[int]) -> bool:
    """Whether an operator selects matrices by indices that are in memory."""
    if op.type not in ("Gather", "GatherND") or op.operand(1) >= group.inputs:
        return False
    if op.type == "Gather":
        return op.attributes["axis"] == 0
    last = group.values[op.operand(1)].shape[-1:]
    return op.attributes["batch_dims"] == 0 and last == (1,)


def _axes(equation: str, vector: int) -> tuple[int, ...] | None:
    """The result's axis of each axis of the vectors, and -1 for the summed one.

    None unless each result is that of the matrix at its place: its axes but the last are those of
    the indices, and it has the columns of the matrices.
    """
    if "." in equation:  # axes of one element may be broadcast
        return None
    terms, result = einsum_terms(equation, (0, 0))
    vectors = terms[vector]
    selected = terms[1 - vector]
    if len(selected) < 3 or result != selected[:-2] + selected[-1]:
        return None
    summed = selected[-2]
    kept = set(vectors) - {summed}
    once = len(set(vectors)) == len(vectors) and len(set(selected)) == len(selected)
    if not once or summed not in vectors or not kept <= set(result[:-1]):
        return None
    return tuple(-1 if letter == summed else result.index(letter) for letter in vectors)


def _parts(group: Group, problem: Problem, target: GpuTarget) -> tuple[Functor, Functor]:
    """Elements of vectors, and the results that follow from a sum."""
    context = problem.context
    place = [variable(name) for name in ("row", "column")]
    index = unflatten_index(place[0], problem.results)
    at = [place[1] if axis < 0 else index[axis] for axis in problem.axes]
    element = context.operand(problem.vector, at)
    vector = value_function(f"{group.name}_element", context, element, place, target)
    value = Var("value", PrimType("float32"))
    statement = context.store(value, [*index, place[1]])
    store = device_function(f"{group.name}_store", context, statement, [*place, value], target)
    return (
        value_part("Element", vector, "int row, int column"),
        store_part("Store", store, "int row, int column, float value"),
    )


class SelectedGemv(Template[Problem, Config, GpuTarget]):
    """A group around one Einsum of vectors by matrices that indices select.

    The order of a sum depends on the shapes alone: the same bits every time.
    """

    name = "selected_gemv"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only Einsum of a group, if its matrices are selected."""
        return read_selected(group)

    def configs(self, problem: Problem, target: GpuTarget) -> Iterable[Config]:
        """Blocks that read vectors of 4 to 16 bytes, which divide a row of the matrices."""
        size = ELEMENT_BYTES[problem.matrices.dtype]
        for warps in (16, 8, 4):
            for width in (16 // size, 8 // size, 4 // size):
                if problem.columns % width == 0:
                    yield Config(warps, width)
        if problem.columns % (4 // size):
            yield Config(8, 1)

    def estimate_ns(self, problem: Problem, config: Config, target: GpuTarget) -> float:
        """The time of the SM with most blocks, or of the memory if slower."""
        device = target.device
        blocks = prod(problem.grid(config))
        busiest = ceil_div(blocks, device.sms)
        own = problem.bytes_of(config)
        shared = 4 * (problem.depth + config.warps * config.width * (WARP + 1))
        resident = device.resident_blocks(WARP * config.warps, REGISTERS, shared)
        rows = min(UNROLLED, ceil_div(problem.depth, config.warps))
        ahead = rows * config.warps * own / problem.depth * min(resident, busiest)
        rate = min(CACHE_BYTES, ahead / LATENCY_US)
        matrices = problem.matrices
        stored = matrices.view.size * ELEMENT_BYTES[matrices.dtype]
        traffic = min(stored, blocks * own) / (1e3 * device.bandwidth)
        return 1e3 * (START_US + max(traffic, busiest * own / rate))

    def emit(
        self, group: Group, problem: Problem, config: Config, target: GpuTarget
    ) -> KernelSource:
        """The kernel of a group: one launch."""
        kind = c_type(problem.matrices.dtype)
        element, store = _parts(group, problem, target)
        read, indices = problem.matrices.read, problem.indices
        types = {read: f"const {kind}", indices: f"const {c_type(group.values[indices].dtype)}"}
        for part in (element, store):
            types |= zip(part.arguments, part.types, strict=True)
        values = {
            "WARPS": config.warps,
            "WIDTH": config.width,
            "DEPTH": problem.depth,
            "COLUMNS": problem.columns,
            "MATRICES": problem.matrices.view.shape[0],
        }
        made = ", ".join(part.made_by_number for part in (element, store))
        call = f"selected_gemv<Problem>(buffer{read}, buffer{indices}, {made})"
        block = (WARP * config.warps, 1, 1)
        launch = Launch(f"{group.name}_0", (), problem.grid(config), block)
        text, launch = kernel(launch, numbered_parameters(types), call)
        lines = [
            header("indices"),
            header("selected_gemv"),
            element.text,
            store.text,
            struct("Problem", [f"  using Element = {kind};", *constants(values)]),
            text,
        ]
        flops = 2 * prod(problem.results) * problem.columns * problem.depth
        return KernelSource("\n".join(lines), (launch,), flops=flops)
