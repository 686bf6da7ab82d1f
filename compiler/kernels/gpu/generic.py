"""The schedule of groups without a template: rows of reductions in one kernel where they agree,
else one kernel per loop nest."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm.ir import PrimType
from tvm.s_tir import ScheduleError
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import ForKind

from compiler.graph.cost import GPU
from compiler.ir.layouts import blocks_first
from compiler.kernels.gpu.divergence import without_divergence
from compiler.kernels.gpu.reducers import register_reducers
from compiler.kernels.gpu.sharing import (
    FULL,
    LEAST_BLOCKS,
    ROWS_THREADS,
    WARP,
    Sharing,
    share_adjacent,
    share_consecutive,
)
from compiler.kernels.gpu.transposes import bind_tiles, find_tiles
from compiler.kernels.gpu.untyped import PrimFunc, UntypedSchedule, ir, s_tir, tirx, tvm_ffi
from compiler.kernels.group import Group
from compiler.kernels.ops.layout import BLOCK_MARK
from compiler.kernels.sizes import at_hint, is_long, is_number, is_sum, variable_of
from compiler.kernels.tir.access import (
    axis_values,
    divisor_below,
    loop_extent,
    terms_are_adjacent,
)
from compiler.kernels.tir.function import generic_function, is_opaque, with_parameters
from compiler.net.operators import KINDS, Kind

THREADS = 64
"""Threads of a block of an opaque kernel."""


def bind_opaque(function: PrimFunc) -> PrimFunc:
    """Make each outermost loop of a function that only has opaque blocks a kernel."""

    def bind(loop: Any, mutator: Any) -> Any:
        return bound(loop)

    return function.with_body(tvm_ffi.structural_mutate(function.body, (tirx.For, bind)))


def bound(statement: Any) -> Any:
    """A loop of an opaque block inside a grid of threads."""
    index = PrimType("int32")
    block, thread = ir.Var("block", index), ir.Var("thread", index)
    if statement.kind == ForKind.PARALLEL:
        extent = int(statement.extent)
        position = block * THREADS + thread
        once = tirx.For(
            statement.loop_var, position, tirx.const(1, "int32"), ForKind.SERIAL, statement.body
        )
        inner = tirx.IfThenElse(position < extent, once, None)
        blocks = -(-extent // THREADS)
        threads = THREADS
    else:
        inner = statement
        blocks = 1
        threads = 1
    return _loop(block, blocks, "blockIdx.x", _loop(thread, threads, "threadIdx.x", inner))


def _loop(variable: Any, extent: int, tag: str, body: Any) -> Any:
    zero, size = tirx.const(0, "int32"), tirx.const(extent, "int32")
    axis = tirx.IterVar(
        ir.Range(zero, size), ir.Var(f"{variable.name}_axis", PrimType("int32")), 1, tag
    )
    return tirx.For(variable, zero, size, ForKind.THREAD_BINDING, body, thread_binding=axis)


ELEMENT_THREADS, MANY_THREADS = 128, 256
"""Threads of a block where each computes separate elements, and of one of many blocks."""

MOST_ITEMS = 8
"""The most elements of a thread where there are more than half fill a large GPU."""

PART_LENGTH = 1 << 10
"""Fewest elements of each part of a reduction that several blocks share."""

MOST_PARTS, LEAST_PARTS = 512, 16
"""Most parts of all reductions of an operator, and fewest of each that is split: fewer are not
worth the launch of a second kernel."""


def schedule_gpu(group: Group) -> PrimFunc:
    """Lower a group and schedule it, whatever it computes."""
    merge = any(KINDS[op.type] is Kind.REDUCTION for op in group.operators)
    function = generic_function(group, keep=False, merge=merge, few_terms=GPU.few_terms)
    if is_opaque(group):
        return bind_opaque(function)
    # TVM wants every variable defined, and some occur in attributes alone, not in a buffer's shape
    symbols = [*map(variable_of, group.symbols)]
    scheduled = schedule_function(with_parameters(function, [*function.params, *symbols]))
    return with_parameters(scheduled, [*scheduled.params][: len(function.params)])


def schedule_function(function: PrimFunc) -> PrimFunc:
    """Schedule a PrimFunc as one kernel where that works, else as one per loop nest."""
    register_reducers()
    schedule = s_tir.Schedule(function, debug_mask="none")
    reductions = [b for b in root_blocks(schedule) if is_reduction(schedule, b)]
    divided = [divide(schedule, block) for block in reductions]
    together = schedule.copy()
    if reductions and not any(divided) and fuse_rows(together):
        return together.mod["main"]
    return separate(schedule).mod["main"]


def root_blocks(schedule: UntypedSchedule) -> list[SBlockRV]:
    """The blocks under the root, in order; of results that share a loop the first."""
    blocks = list(schedule.get_child_blocks(schedule.get_sblock("root")))
    loops = [[schedule.get(x) for x in schedule.get_loops(block)] for block in blocks]
    shared = {
        i
        for i in range(1, len(blocks))
        if loops[i] and any(own and own[0].same_as(loops[i][0]) for own in loops[:i])
    }
    return [block for i, block in enumerate(blocks) if i not in shared]


def is_reduction(schedule: UntypedSchedule, block: SBlockRV) -> bool:
    """Whether a block sums over at least one axis."""
    return any(int(v.iter_type) == 2 for v in schedule.get(block).iter_vars)


def writes_result(schedule: UntypedSchedule, block: SBlockRV) -> bool:
    """Whether a block writes a parameter of the function."""
    params = list(schedule.mod["main"].params)
    return any(r.source.same_as(p) for r in schedule.get(block).writes for p in params)


def extents(schedule: UntypedSchedule, loops: Sequence[LoopRV]) -> list[int]:
    """The extents of loops."""
    return [loop_extent(schedule, loop) for loop in loops]


def iterations(schedule: UntypedSchedule, loops: Sequence[LoopRV]) -> int:
    """The iterations of nested loops, for the example sizes: for costs."""
    return prod(map(at_hint, extents(schedule, loops)))


def spatial_loops(schedule: UntypedSchedule, block: SBlockRV) -> tuple[list[LoopRV], list[LoopRV]]:
    """A root block's loops: those over its results, and those of its reduction."""
    loops = list(schedule.get_loops(block))
    if not loops:
        return [], []
    values = axis_values(schedule, loops[-1])
    axes = zip(values, schedule.get(block).iter_vars, strict=True)
    summed = [value for value, axis in axes if int(axis.iter_type) == 2]
    reduced = [x for x in loops if any(schedule.get(x).loop_var.same_as(v) for v in summed)]
    return [x for x in loops if x not in reduced], reduced


def parts_of(count: int, length: int) -> int:
    """How many blocks share each of `count` reductions of `length` elements; 1 where none does.

    One block for each keeps few SMs busy if they are few and long. Parts are equal: TVM cannot
    reduce across threads where there is a remainder.
    """
    most = min(MOST_PARTS // max(1, count), length // PART_LENGTH)
    parts = divisor_below(length, most)
    return parts if parts >= LEAST_PARTS else 1


def divide(schedule: UntypedSchedule, block: SBlockRV) -> bool:
    """Split few long reductions into parts, which a block before this one reduces; False if not.

    The parts and their order depend on the shapes alone.
    """
    spatial, reduced = spatial_loops(schedule, block)
    length = prod(extents(schedule, reduced))
    parts = parts_of(iterations(schedule, spatial), length) if is_number(length) else 1
    if parts == 1:
        return False
    for other in root_blocks(schedule):
        if not schedule.get_loops(other):
            schedule.add_unit_loop(other)  # TVM's rfactor fails where a block has no loop
    outer, _ = schedule.split(schedule.fuse(*reduced), [parts, None])
    schedule.rfactor(outer, 0)
    return True


def fuse_rows(schedule: UntypedSchedule) -> bool:
    """Fuse each row's reductions with the result that uses them; False if their rows differ."""
    (*reductions, sink) = root_blocks(schedule)
    if any(not is_reduction(schedule, b) for b in reductions):
        return False
    if is_reduction(schedule, sink):
        if len(schedule.get(sink).writes) > 1 or any(
            writes_result(schedule, b) for b in reductions
        ):
            return False
        reductions = [*reductions, sink]
        sink = schedule.cache_write(sink, 0, "global")
        (*reductions, sink) = root_blocks(schedule)
    if any(writes_result(schedule, b) for b in reductions):
        return False
    rows = row_axes(schedule, reductions, sink)
    if rows is None:
        return False
    try:
        _schedule_rows(schedule, reductions, sink, rows)
    except ScheduleError:
        return False
    return True


def row_axes(
    schedule: UntypedSchedule, reductions: Sequence[SBlockRV], sink: SBlockRV
) -> list[int] | None:
    """The sink's axes that all reductions keep; None when the reductions are not rows of it."""
    stored = extents(schedule, spatial_loops(schedule, sink)[0])
    block = int(schedule.get(sink).annotations.get(BLOCK_MARK, 0))
    if not block:
        return _kept_axes(schedule, reductions, stored)
    batch, blocks = (1, 0) if blocks_first(stored[:-1]) else (0, 1)
    shape = [stored[batch], stored[blocks] * block, *stored[2:-1]]
    rows = _kept_axes(schedule, reductions, shape)
    if rows is None:
        return None
    places = {0: [batch], 1: [blocks, len(stored) - 1]}
    return sorted(place for row in rows for place in places.get(row, [row]))


def _kept_axes(
    schedule: UntypedSchedule, reductions: Sequence[SBlockRV], shape: Sequence[int]
) -> list[int] | None:
    """The axes of a logical shape that all reductions keep; None when they are not its rows."""
    common: list[int] | None = None
    for block in reductions:
        kept = extents(schedule, spatial_loops(schedule, block)[0])
        if len(kept) == len(shape) and all(k in (1, n) for k, n in zip(kept, shape, strict=True)):
            rows = [i for i, (k, n) in enumerate(zip(kept, shape, strict=True)) if k == n]
        elif [n for n in kept if is_long(n)] == [n for n in shape if is_long(n)]:
            rows = list(range(len(shape)))
        else:
            return None
        if common is not None and rows != common:
            return None
        common = rows
    return common


def _schedule_rows(
    schedule: UntypedSchedule, reductions: Sequence[SBlockRV], sink: SBlockRV, rows: Sequence[int]
) -> None:
    loops = spatial_loops(schedule, sink)[0]
    outer = [loops[i] for i in rows]
    inner = [loop for i, loop in enumerate(loops) if i not in rows]
    alone = prod(extents(schedule, inner)) == 1
    longest = max(reductions, key=lambda own: iterations(schedule, spatial_loops(schedule, own)[1]))
    # In blocks of channels, adjacent results are not those of adjacent reductions.
    in_order = not int(schedule.get(sink).annotations.get(BLOCK_MARK, 0))
    sharing = _sharing(schedule, longest, alone, in_order)
    if sharing.threads == 1:
        thread = bind_elements(schedule, sink)
        for block in reversed(reductions):
            schedule.compute_at(block, thread)
            _set_scope(schedule, block, "local")
        return
    row = _bind_rows(schedule, outer or [_unit_loop_around(schedule, sink)], inner, sharing)
    column = schedule.fuse(*inner) if inner else schedule.add_unit_loop(sink)
    _, thread = schedule.split(column, [None, sharing.threads])
    schedule.bind(thread, sharing.axis)
    for block in reversed(reductions):
        schedule.compute_at(block, row)
        _set_scope(schedule, block, sharing.scope)
        reduced = spatial_loops(schedule, block)[1] or [schedule.add_unit_loop(block)]
        _, thread = schedule.split(schedule.fuse(*reduced), [None, sharing.threads])
        schedule.bind(thread, sharing.axis)


def _sharing(
    schedule: UntypedSchedule, block: SBlockRV, alone: bool = True, in_order: bool = True
) -> Sharing:
    """How threads share the reductions of a block, each `alone` or with a row of results.

    These are `in_order` where adjacent ones are of adjacent reductions.
    """
    spatial, reduced = spatial_loops(schedule, block)
    count, length = iterations(schedule, spatial), iterations(schedule, reduced)
    equal = in_order and all(map(is_number, extents(schedule, spatial)))
    if terms_are_adjacent(schedule, block):
        return share_adjacent(count, length, equal, alone)
    return share_consecutive(count, length, alone)


def fused_loops(schedule: UntypedSchedule, loops: Sequence[LoopRV]) -> LoopRV:
    """Adjacent loops as one; of several the extents of all but the first divide its index.

    TVM fails to divide by a sum, such as n + 1: a loop of that extent comes first.
    """
    if len(loops) == 1:
        return loops[0]
    first = [loop for loop in loops if is_sum(loop_extent(schedule, loop))]
    if first and loops[0] not in first:
        loops = [*first, *(loop for loop in loops if loop not in first)]
        schedule.reorder(*loops)
    return schedule.fuse(*loops)


def _bind_rows(
    schedule: UntypedSchedule, rows: Sequence[LoopRV], columns: Sequence[LoopRV], sharing: Sharing
) -> LoopRV:
    """Give each row its threads, in blocks of several rows; returns the row's loop.

    GPUs start few blocks in a microsecond, so that small rows share one. Blocks are equal, as their
    threads meet at barriers, and have a part of each axis, which TVM knows the extents of.
    """
    outer = list(rows)
    inner = list[LoopRV]()
    threads = sharing.threads
    if sharing.adjacent:
        if len(outer) + len(columns) > 1:
            schedule.reorder(*outer, *columns)
        block, row = schedule.split(fused_loops(schedule, outer), [None, sharing.adjacent])
        schedule.bind(block, "blockIdx.x")
        schedule.bind(row, "threadIdx.x")
        return row
    left = (
        1
        if threads > WARP
        else min(ROWS_THREADS // threads, iterations(schedule, rows) // LEAST_BLOCKS)
    )
    for i in reversed(range(len(rows))):
        extent = loop_extent(schedule, rows[i])
        part = divisor_below(extent, left) if is_number(extent) else 1
        if part > 1:
            outer[i], own = schedule.split(rows[i], [None, part])
            inner.insert(0, own)
            left //= part
    if len(outer) + len(inner) + len(columns) > 1:
        schedule.reorder(*outer, *inner, *columns)
    block = fused_loops(schedule, outer)
    schedule.bind(block, "blockIdx.x")
    if not inner:
        return block
    row = schedule.fuse(*inner)
    schedule.bind(row, "threadIdx.y")
    return row


def _unit_loop_around(schedule: UntypedSchedule, block: SBlockRV) -> LoopRV:
    """A loop of one iteration around all loops of a block, of which a scalar has none."""
    loops = list(schedule.get_loops(block))
    return schedule.add_unit_loop(loops[0] if loops else block)


def _set_scope(schedule: UntypedSchedule, block: SBlockRV, scope: str) -> None:
    for i in range(len(schedule.get(block).writes)):
        schedule.set_scope(block, i, scope)


def bind_elements(schedule: UntypedSchedule, block: SBlockRV, several: bool = False) -> LoopRV:
    """Give each element of a root block's result a thread; returns the thread's loop.

    A thread may have `several` elements, which are as far apart as a block has threads.
    """
    loops = spatial_loops(schedule, block)[0]
    if not loops:
        first = list(schedule.get_loops(block))
        loops = [schedule.add_unit_loop(first[0] if first else block)]
    if several:
        loops = without_divergence(schedule, block, loops)
    fused = fused_loops(schedule, loops)
    elements = at_hint(loop_extent(schedule, fused))
    items = items_of(elements) if several else 1
    threads = element_threads(elements)
    factors = [None, items, threads] if items > 1 else [None, threads]
    outer, *inner, thread = schedule.split(fused, factors)
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    for item in inner:
        schedule.annotate(item, "pragma_auto_unroll_max_step", items)
        schedule.annotate(item, "pragma_unroll_explicit", 0)
    return thread


def items_of(elements: int) -> int:
    """Elements of a thread, a power of two: GPUs start few blocks in a microsecond."""
    return min(MOST_ITEMS, 1 << (max(1, elements // FULL).bit_length() - 1))


def element_threads(elements: int) -> int:
    """Threads of a block that computes elements.

    One element has one thread: TVM drops the bound of an axis with nothing in it to choose.
    """
    most = MANY_THREADS if elements >= FULL else ELEMENT_THREADS
    return min(most, -(-elements // WARP) * WARP) if elements > 1 else 1


def separate(schedule: UntypedSchedule) -> UntypedSchedule:
    """Make each root block a kernel, a reduction one with what is computed of its result alone."""
    blocks = root_blocks(schedule)
    while blocks:
        block = blocks.pop(0)
        if is_reduction(schedule, block):
            if blocks and (fused := _with_epilogue(schedule, block, blocks[0])) is not None:
                schedule = fused
                del blocks[0]
            else:
                _separate_reduction(schedule, block)
        elif (tiles := find_tiles(schedule, block)) is not None:
            bind_tiles(schedule, block, tiles)
        else:
            bind_elements(schedule, block, several=True)
    return schedule


def _with_epilogue(
    schedule: UntypedSchedule, block: SBlockRV, following: SBlockRV
) -> UntypedSchedule | None:
    """A reduction in one kernel with the next block, if only that uses it, once for each result."""
    if is_reduction(schedule, following) or writes_result(schedule, block):
        return None
    loops = spatial_loops(schedule, following)[0]
    same = iterations(schedule, loops) == iterations(schedule, spatial_loops(schedule, block)[0])
    users = [schedule.get(own) for own in schedule.get_consumers(block)]
    alone = len(users) == 1 and users[0].same_as(schedule.get(following))
    rows = row_axes(schedule, [block], following) if same and alone else None
    if rows is None:
        return None
    together = schedule.copy()
    try:
        _schedule_rows(together, [block], following, rows)
    except ScheduleError:
        return None
    return together


def _separate_reduction(schedule: UntypedSchedule, block: SBlockRV) -> None:
    spatial, reduced = spatial_loops(schedule, block)
    sharing = _sharing(schedule, block)
    if sharing.threads == 1:
        single = len(schedule.get(block).writes) == 1
        copy = schedule.cache_write(block, 0, "local") if single else None
        thread = bind_elements(schedule, block)
        if copy is not None:
            schedule.reverse_compute_at(copy, thread)
        return
    rows = spatial or [schedule.add_unit_loop(reduced[0])]
    column = schedule.fuse(*list(schedule.get_loops(block))[len(rows) :])
    _, thread = schedule.split(column, [None, sharing.threads])
    _bind_rows(schedule, rows, [], sharing)
    schedule.bind(thread, sharing.axis)
