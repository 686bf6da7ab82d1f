"""Lowerings of operators that are loops over memory: scans, scatters, selection of the largest."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.kernels.group import TensorInfo
from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import (
    cast,
    is_float,
    is_nan,
    maximum,
    minimum,
    normal_axis,
    safe_index,
    wide,
)
from compiler.kernels.ops.lowering import Context, flatten_index, lowering, unflatten_index
from compiler.kernels.ops.mathematics import dtype_of
from compiler.kernels.ops.reducers import highest, lowest

COPY_CHUNK = 1 << 15
"""Elements that one block copies."""

COMBINATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": wrapping.add,
    "mul": wrapping.multiply,
    "max": maximum,
    "min": minimum,
}
"""The value that scatters store, by ONNX's attribute `reduction`."""

Emit = Callable[..., None]


def loops(context: Context, inputs: Sequence[te.Tensor], emit: Emit) -> list[te.Tensor]:
    """The results of statements over flat buffers: `emit(*inputs, *outputs)` writes them."""
    outputs = [info for info in context.outputs if info.dtype]
    sources = [tirx.decl_buffer(t.shape, str(t.dtype), f"source{i}") for i, t in enumerate(inputs)]
    results = [tirx.decl_buffer(o.shape, o.dtype, f"result{i}") for i, o in enumerate(outputs)]

    def build(read: Sequence[Any], written: Sequence[Any]) -> Any:
        with IRBuilder() as builder, T.seq_scope():
            emit(*[T.buffer_proxy(buffer) for buffer in (*read, *written)])
        return builder.get()

    made = te.extern(
        [info.shape for info in outputs],
        list(inputs),
        build,
        name=context.operator.type,
        dtype=[info.dtype for info in outputs],
        in_buffers=sources,
        out_buffers=results,
    )
    return [made] if isinstance(made, te.Tensor) else list(made)


def _around(info: TensorInfo, axis: int) -> tuple[int, int, int]:
    """Elements before, along and after an axis."""
    return prod(info.shape[:axis]), info.shape[axis], prod(info.shape[axis + 1 :])


@lowering("CumSum")
def lower_cumulative_sum(context: Context) -> list[te.Tensor]:
    """Running sums along an axis, from either end, with or without the element itself."""
    axis = normal_axis(context.integers(1)[0], len(context.output.shape))
    outer, length, inner = _around(context.output, axis)
    exclusive, reverse = context.attribute("exclusive", 0), context.attribute("reverse", 0)
    zero = tirx.const(0, context.output.dtype)

    def emit(data: Any, out: Any) -> None:
        with T.parallel(0, outer) as o, T.serial(0, length) as k, T.serial(0, inner) as i:
            step = length - 1 - k if reverse else k
            at = (o * length + step) * inner + i
            before = at + inner if reverse else at - inner
            with T.If(tirx.EQ(k, 0)):
                with T.Then():
                    out[at] = zero if exclusive else data[at]
                with T.Else():
                    out[at] = wrapping.add(out[before], data[before] if exclusive else data[at])

    return loops(context, [context.tensor(0)], emit)


def combine(kind: str, old: Any, new: Any) -> Any:
    """The value that a scatter of a kind stores over an old one; kinds are ONNX's reductions."""
    if dtype_of(old) == "bool" and kind != "none":
        return tirx.any(old, new) if kind in ("add", "max") else tirx.all(old, new)
    return COMBINATIONS[kind](old, new)


def _combine(context: Context, old: Any, new: Any) -> Any:
    kind = context.attribute("reduction", "none")
    if kind not in COMBINATIONS:
        raise context.fail(f"the reduction '{kind}' is unknown")
    return combine(kind, old, new)


def _copy(size: int, data: Any, out: Any) -> None:
    chunk = min(size, COPY_CHUNK)
    with T.parallel(0, -(-size // chunk)) as block, T.serial(0, chunk) as i:
        with T.If(block * chunk + i < size), T.Then():
            out[block * chunk + i] = data[block * chunk + i]


@lowering("ScatterElements")
def lower_scatter_elements(context: Context) -> list[te.Tensor]:
    """Copy a tensor, then store or combine single elements at indices along an axis."""
    shape, places = context.output.shape, context.info(1).shape
    axis = normal_axis(context.attribute("axis", 0), len(shape))

    def emit(data: Any, indices: Any, updates: Any, out: Any) -> None:
        _copy(prod(shape), data, out)
        if not prod(places):
            return
        with T.serial(0, prod(places)) as i:
            at = unflatten_index(i, places)
            at[axis] = safe_index(indices[i], shape[axis])
            target = flatten_index(at, shape)
            out[target] = _combine(context, out[target], updates[i])

    return loops(context, [context.tensor(i) for i in range(3)], emit)


@lowering("ScatterND")
def lower_scatter_nd(context: Context) -> list[te.Tensor]:
    """Copy a tensor, then store or combine slices at index tuples."""
    shape, places = context.output.shape, context.info(1).shape
    depth, count, inner = places[-1], prod(places[:-1]), prod(shape[places[-1] :])

    def emit(data: Any, indices: Any, updates: Any, out: Any) -> None:
        _copy(prod(shape), data, out)
        with T.serial(0, count) as i, T.serial(0, inner) as j:
            chosen = [safe_index(indices[i * depth + k], shape[k]) for k in range(depth)]
            target = flatten_index(chosen, shape[:depth]) * inner + j
            out[target] = _combine(context, out[target], updates[i * inner + j])

    return loops(context, [context.tensor(i) for i in range(3)], emit)


def sorts_before(a: Any, b: Any) -> Any:
    """Whether a comes after b in order, where NaN comes last."""
    if not is_float(dtype_of(a)):
        return wrapping.greater(a, b)
    a, b = cast(a, wide(dtype_of(a))), cast(b, wide(dtype_of(b)))
    return tirx.any(a > b, tirx.all(is_nan(a), tirx.Not(is_nan(b))))


@lowering("TopK")
def lower_top_k(context: Context) -> list[te.Tensor]:
    """The k largest or smallest elements along an axis in order, by insertion; first of equals.

    NaN counts as the largest, as when numpy sorts: it comes first of the largest.
    """
    info, output = context.info(0), context.output
    axis = normal_axis(context.attribute("axis", -1), len(info.shape))
    outer, length, inner = _around(info, axis)
    k, largest = output.shape[axis], context.attribute("largest", 1)
    worst = lowest(info.dtype) if largest else highest(info.dtype)

    def better(x: Any, values: Any, positions: Any, at: Any) -> Any:
        beats = sorts_before(x, values[at]) if largest else sorts_before(values[at], x)
        return tirx.any(positions[at] < tirx.const(0, "int64"), beats)

    def insert(x: Any, step: Any, base: Any, values: Any, positions: Any) -> None:
        with T.serial(0, k) as back:
            place = k - 1 - back
            at = base + place * inner
            above = base + tirx.max(place - 1, 0) * inner
            with T.If(tirx.all(place > 0, better(x, values, positions, above))):
                with T.Then():
                    values[at] = values[above]
                    positions[at] = positions[above]
                with T.Else(), T.If(better(x, values, positions, at)), T.Then():
                    values[at] = x
                    positions[at] = step.astype("int64")

    def emit(data: Any, values: Any, positions: Any) -> None:
        with T.parallel(0, outer * inner) as row:
            base = row // inner * (k * inner) + row % inner
            with T.serial(0, k) as place:
                values[base + place * inner] = worst
                positions[base + place * inner] = tirx.const(-1, "int64")
            with T.serial(0, length) as step:
                x = data[row // inner * (length * inner) + step * inner + row % inner]
                last = base + (k - 1) * inner
                with T.If(better(x, values, positions, last)), T.Then():
                    insert(x, step, base, values, positions)

    return loops(context, [context.tensor(0)], emit)
