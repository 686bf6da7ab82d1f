"""SegmentReduce, in which a warp or a part of it has a row."""

from collections.abc import Sequence
from typing import Any

from tvm.ir import PrimType, Var

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.epilogue import c_type, device_function, value_function
from compiler.kernels.gpu.operands import ELEMENT_BYTES
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import (
    DEVICE,
    Functor,
    constants,
    kernel,
    numbered_parameters,
    store_part,
    struct,
    value_part,
)
from compiler.kernels.gpu.templates.segment_reduce.problem import (
    FLIGHT,
    THREADS,
    Problem,
    Rows,
    read_segment_reduce,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, OneWay
from compiler.kernels.tir.loops import variable
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget
from compiler.tensors.row_major import unflatten_index

COPIED = 8
"""Elements that a thread stores of those that depend on no segment."""

COMBINE = {
    "add": ("a + b", "0.0f"),
    "mul": ("a * b", "1.0f"),
    "max": ("flowloom_maximum(a, b)", "-CUDART_INF_F"),
    "min": ("flowloom_minimum(a, b)", "CUDART_INF_F"),
}
"""How two numbers are combined, and what changes none, in C."""


def _constants(problem: Problem, parts: int, threads: int, segments: int) -> str:
    values = {
        "THREADS": threads,
        "LANES": problem.lanes,
        "WIDTH": problem.width,
        "PARTS": parts,
        "FLIGHT": FLIGHT,
        "ROWS": problem.slots,
        "SPANS": problem.spans,
        "COLUMNS": problem.columns,
        "OFFSET": problem.offset,
        "LENGTH": problem.length,
        "SEGMENTS": segments,
        "COPIED": COPIED,
    }
    combined, identity = COMBINE[problem.reduction]
    functions = [
        f"{DEVICE} static float combine(float a, float b) {{ return {combined}; }}",
        f"{DEVICE} static float identity() {{ return {identity}; }}",
    ]
    return struct("Problem", [*constants(values), *functions])


def _vectors(group: Group, problem: Problem, rows: Rows) -> Functor:
    """Loads of rows that are in memory; they may begin anywhere."""
    kind = c_type(rows.dtype)
    width = rows.width
    columns = problem.columns
    types = [kind]
    numbers = [rows.read]
    source = "update"
    members = [f"const {kind}* rows;"]
    if rows.indices is not None:
        index = c_type(group.values[rows.indices].dtype)
        types, numbers = [*types, index], [*numbers, rows.indices]
        members.append(f"const {index}* indices;")
        source = f"inside(indices[update], {rows.number})"
    lines = [
        "struct Load {",
        "  static constexpr int STEP = 1;",
        f"  using Values = Block<{kind}, {width}>;",
        *(f"  {member}" for member in members),
        f"{DEVICE} bool aligned() const {{ return (uint64_t)rows % sizeof(Values) == 0; }}",
        f"{DEVICE} int source(int update) const {{ return {source}; }}",
        "  template <bool ALIGNED>",
        f"{DEVICE} void get(int source, int column, Values& values) const {{",
        f"    const {kind}* from = rows + (int64_t)source * {columns} + column;",
        "    if (ALIGNED) values = *(const Values*)from;",
        f"    else for (int w = 0; w < {width}; w++) values.at[w] = from[w];",
        "  }",
        "};",
        "",
    ]
    return Functor("Load", "\n".join(lines), tuple(types), tuple(numbers))


def _elements(group: Group, problem: Problem, target: GpuTarget) -> Functor:
    """Loads of updates that the group computes, element by element."""
    context = problem.context
    place = [variable(name) for name in ("update", "column")]
    at = [place[0], *unflatten_index(place[1], context.shape[1:])]
    value = context.operand(0, at)
    function = value_function(f"{group.name}_element", context, value, place, target)
    element = value_part("Element", function, "int update, int column")
    lines = [
        "struct Load {",
        f"  static constexpr int STEP = {problem.lanes};",
        f"  struct Values {{ float at[{problem.width}]; }};",
        "  Element element;",
        f"{DEVICE} bool aligned() const {{ return true; }}",
        f"{DEVICE} int source(int update) const {{ return update; }}",
        "  template <bool ALIGNED>",
        f"{DEVICE} void get(int update, int column, Values& values) const {{",
        "#pragma unroll",
        f"    for (int w = 0; w < {problem.width}; w++) {{",
        f"      if (column + w * STEP < {problem.columns})"
        " values.at[w] = element(update, column + w * STEP);",
        "    }",
        "  }",
        "};",
        "",
    ]
    text = "\n".join([element.text, *lines])
    return Functor("Load", text, function.types, function.arguments, inner="Element")


def _initial(group: Group, problem: Problem, target: GpuTarget) -> Functor:
    """An element of the data."""
    context = problem.context
    place = [variable(name) for name in ("row", "column")]
    value = context.operand(1, [place[0], *unflatten_index(place[1], context.shape[1:])])
    function = value_function(f"{group.name}_initial", context, value, place, target)
    return value_part("Initial", function, "int row, int column")


def _index(problem: Problem, shape: Sequence[int], row: Any, column: Any) -> list[Any]:
    """Where a result of a shape has a row's element; it may begin with axes of one element."""
    if shape[0] == problem.slots:
        return [row, *unflatten_index(column, shape[1:])]
    return unflatten_index(row * problem.length + column, shape)


def _store(group: Group, problem: Problem, target: GpuTarget) -> Functor:
    """The results that follow from an element of the reduction, or in a Concat from none."""
    context = problem.context
    place = [variable(name) for name in ("row", "column")]
    value = Var("value", PrimType("float32"))
    if problem.length > problem.columns:
        places = [_index(problem, info.shape, *place) for info in group.writes]
        statement = context.store_each(value, places)
    else:
        statement = context.store(value, [place[0], *unflatten_index(place[1], context.shape[1:])])
    function = device_function(f"{group.name}_store", context, statement, [*place, value], target)
    return store_part("Store", function, "int row, int column, float value")


LAUNCH_US, ROUND_US, BYTES = 2.0, 0.6, 3.6e6
"""Microseconds of a launch, of the latency of one round of loads after another, and the bytes of a
microsecond: fitted to six sums on an H100 (2.4 to 6.4 us)."""


class ReduceSegments(OneWay[Problem, GpuTarget]):
    """A group around one SegmentReduce in float32.

    The order of a reduction depends on the length of its segment only: the same bits every time.
    """

    name = "segment_reduce"

    def problem(self, group: Group, target: GpuTarget) -> Problem | None:
        """The only reduction of a group."""
        return read_segment_reduce(group)

    def estimate_ns(self, problem: Problem, config: None, target: GpuTarget) -> float:
        """Memory traffic, and the latency of the loads of a segment of average length."""
        each = ELEMENT_BYTES[problem.rows.dtype] if problem.rows else 4
        traffic = problem.columns * problem.updates * each + 8 * problem.slots * problem.length
        share = problem.updates / problem.slots / problem.parts(target)
        return 1e3 * (LAUNCH_US + max(traffic / BYTES, ROUND_US * ceil_div(int(share) + 1, FLIGHT)))

    def emit(self, group: Group, problem: Problem, config: None, target: GpuTarget) -> KernelSource:
        rows = problem.rows
        parts = problem.parts(target)
        load = _vectors(group, problem, rows) if rows else _elements(group, problem, target)
        initial = _initial(group, problem, target)
        store = _store(group, problem, target)
        starts, order = (problem.anchor.operand(i) for i in (2, 3))
        types = dict.fromkeys((starts, order), "int")
        for part in (load, initial, store):
            types |= zip(part.arguments, part.types, strict=True)
        sharers = problem.lanes * parts
        threads = max(THREADS, sharers)
        segments = ceil_div(problem.slots * problem.spans, threads // sharers)
        others = problem.slots * (problem.length - problem.columns)
        made = ", ".join(part.made_by_number for part in (load, initial, store))
        call = f"reduce_segments<Problem>(buffer{starts}, buffer{order}, {made})"
        blocks = segments + ceil_div(others, threads * COPIED)
        launch = Launch(f"{group.name}_0", (), (blocks, 1, 1), (threads, 1, 1))
        text, launch = kernel(launch, numbered_parameters(types), call)
        lines = [
            header("indices"),
            header("segment_reduce"),
            load.text,
            initial.text,
            store.text,
            _constants(problem, parts, threads, segments),
            text,
        ]
        flops = problem.updates * problem.columns
        return KernelSource("\n".join(lines), (launch,), flops=flops)
