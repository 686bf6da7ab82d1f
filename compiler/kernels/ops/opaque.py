"""Lowerings of operators that are loops over memory: what they are written in, and scatters."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import (
    maximum,
    minimum,
    safe_index,
)
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import dtype_of
from compiler.kernels.sizes import RUN_ATTRIBUTE, expression, is_long, is_number, tensor_extents
from compiler.tensors.row_major import flatten_index, unflatten_index

ROLLED = "rolled"
"""The name of loops that LLVM must not unroll."""

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
    shapes = [[*map(expression, info.shape)] for info in outputs]
    results = [
        tirx.decl_buffer(shape, info.dtype, f"result{i}")
        for i, (shape, info) in enumerate(zip(shapes, outputs, strict=True))
    ]

    def build(read: Sequence[Any], written: Sequence[Any]) -> Any:
        with IRBuilder() as builder, T.seq_scope():
            emit(*[T.buffer_proxy(_flat(buffer)) for buffer in (*read, *written)])
        return builder.get()

    made = te.extern(
        shapes,
        list(inputs),
        build,
        name=context.type,
        dtype=[info.dtype for info in outputs],
        in_buffers=sources,
        out_buffers=results,
    )
    return [made] if isinstance(made, te.Tensor) else list(made)


def _flat(buffer: Any) -> Any:
    """A view of one axis, if sizes decide the axes: TVM leaves divisions by them in its indices."""
    extents = tensor_extents(buffer)
    if len(extents) < 2 or all(map(is_number, extents)):
        return buffer
    script: Any = T  # TVM's stubs leave out `decl_buffer`
    return script.decl_buffer((expression(prod(extents)),), str(buffer.dtype), data=buffer.data)


def workspace(elements: Any, dtype: str) -> Any:
    """A flat buffer that all launches of the statements share."""
    return T.buffer_proxy(T.alloc_buffer((expression(elements),), dtype))


def mutable(dtype: str = "int32", elements: Any = 1) -> Any:
    """A few elements in registers or on the stack, which statements change."""
    annotations = {"disable_lower_builtin": True}
    return T.buffer_proxy(T.alloc_local((expression(elements),), dtype, annotations=annotations))


def turns(count: Any) -> Any:
    """A loop of as many turns as a number or a size says."""
    return T.serial(0, expression(count))


def vector(elements: int) -> Any:
    """A loop whose turns are the elements of a vector."""
    script: Any = T  # TVM's stubs leave out `vectorized`
    return script.vectorized(0, elements)


@contextmanager
def launch(blocks: Any) -> Generator[Any]:
    """A launch of statements for each number below `blocks`.

    The attribute keeps one of a single block together when its loop is simplified away.
    """
    grid = T.parallel(0, expression(blocks))
    if is_long(blocks):
        with grid as block:
            yield block
    else:
        with T.attr(tirx.const(0, "int32"), "launch", tirx.const(1, "int32")), grid as block:
            yield block


def combine(kind: str, old: Any, new: Any) -> Any:
    """The value that a scatter of a kind stores over an old one; kinds are ONNX's reductions."""
    if dtype_of(old) == "bool" and kind != "none":
        return tirx.any(old, new) if kind in ("add", "max") else tirx.all(old, new)
    return COMBINATIONS[kind](old, new)


def _combine(context: Context, old: Any, new: Any) -> Any:
    kind = context["reduction"]
    if kind not in COMBINATIONS:
        raise context.fail(f"the reduction '{kind}' is unknown")
    return combine(kind, old, new)


def _copy(size: Any, data: Any, out: Any) -> None:
    if not is_number(size):
        parallel: Any = T.parallel  # TVM's stubs leave out its annotations
        with parallel(0, expression(size), annotations={RUN_ATTRIBUTE: COPY_CHUNK}) as i:
            out[i] = data[i]
        return
    chunk = min(size, COPY_CHUNK)
    with T.parallel(0, -(-size // chunk)) as block, T.serial(0, chunk) as i:
        with T.If(block * chunk + i < size), T.Then():
            out[block * chunk + i] = data[block * chunk + i]


@lowering("ScatterElements")
def lower_scatter_elements(context: Context) -> list[te.Tensor]:
    """Copy a tensor, then store or combine single elements at indices along an axis."""
    shape = context.output.shape
    places = context.shape(1)
    axis: int = context["axis"]

    def emit(data: Any, indices: Any, updates: Any, out: Any) -> None:
        _copy(prod(shape), data, out)
        if not prod(places):
            return
        with turns(prod(places)) as i:
            at = unflatten_index(i, places)
            at[axis] = safe_index(indices[i], shape[axis])
            target = flatten_index(at, shape)
            out[target] = _combine(context, out[target], updates[i])

    return loops(context, [context.tensor(i) for i in range(3)], emit)


@lowering("ScatterND")
def lower_scatter_nd(context: Context) -> list[te.Tensor]:
    """Copy a tensor, then store or combine slices at index tuples."""
    shape = context.output.shape
    places = context.shape(1)
    depth = places[-1]
    count = prod(places[:-1])
    inner = prod(shape[places[-1] :])

    def emit(data: Any, indices: Any, updates: Any, out: Any) -> None:
        _copy(prod(shape), data, out)
        with turns(count) as i, turns(inner) as j:
            chosen = [safe_index(indices[i * depth + k], shape[k]) for k in range(depth)]
            target = flatten_index(chosen, shape[:depth]) * inner + j
            out[target] = _combine(context, out[target], updates[i * inner + j])

    return loops(context, [context.tensor(i) for i in range(3)], emit)
