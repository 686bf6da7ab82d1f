"""A group as one PrimFunc without a schedule."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import IRModule, s_tir, te, tirx
from tvm.ir import Range
from tvm.sym import Analyzer
from tvm.te import _ffi_api
from tvm.tirx import PrimFunc
from tvm_ffi import convert

from compiler.errors import KernelError
from compiler.kernels.group import Group
from compiler.kernels.ops.layout import BLOCK_MARK, stored_tensor
from compiler.kernels.ops.lowering import Emitter
from compiler.kernels.tir.expand import expand, identity, inputs_first
from compiler.net.operators import KINDS, Kind

Keep = Callable[[te.Tensor], bool]


def inline_stages(results: Sequence[te.Tensor], keep: Keep) -> list[te.Tensor]:
    """The same results from stages of which only reductions, results and those kept are left."""
    order = inputs_first(results)
    whole = {identity(t) for t in order if isinstance(t.op.body[0], tirx.Reduce) or keep(t)} | set(
        map(identity, results)
    )
    kept: dict[Any, te.Tensor] = {}

    def leaf(tensor: te.Tensor, indices: Sequence[Any]) -> Any:
        if isinstance(tensor.op, te.ComputeOp) and identity(tensor) not in whole:
            return None
        return kept.get(identity(tensor), tensor)(*indices)

    for tensor in order:
        if identity(tensor) in whole and identity(tensor) not in kept:
            op = _rebuilt(tensor.op, leaf)
            kept |= {(tensor.op, i): op.output(i) for i in range(op.num_outputs)}
    return [kept.get(identity(tensor), tensor) for tensor in results]


def _rebuilt(op: te.ComputeOp, leaf: Any) -> te.ComputeOp:
    """An operation that computes the stages it reads, but for those that are leaves."""
    analyzer = Analyzer()
    for axis in (*op.axis, *op.reduce_axis):
        analyzer.bind(axis.var, Range.from_min_extent(axis.dom.min, axis.dom.extent))

    def inlined(value: Any) -> Any:
        return expand([value], leaf, analyzer).nested()

    first = op.body[0]
    if isinstance(first, tirx.Reduce):
        source = convert([inlined(value) for value in first.source])
        condition = inlined(first.condition)
        body = [
            tirx.Reduce(first.combiner, source, first.axis, condition, i, first.init)
            for i in range(len(op.body))
        ]
    else:
        body = [inlined(value) for value in op.body]
    return _ffi_api.ComputeOp(op.name, op.tag, op.attrs, op.axis, body)


KEEP_ATTRIBUTE = "keep"
"""The mark of a stage that is computed once for all its readers, in memory."""


def generic_function(group: Group, keep: bool = True, merge: bool = False) -> PrimFunc:
    """A group, without a schedule, on its reads and writes as they are stored.

    Its stages are reductions, results and, with `keep`, those marked to be kept for their readers.
    With `merge`, results that can share a loop do.
    """
    if is_opaque(group) and any(info.block for info in (*group.reads, *group.writes)):
        raise KernelError("an opaque operator reads and writes row-major tensors only")
    emitter = Emitter(group)
    logical = zip(emitter.lower_all(), group.writes, strict=True)
    results = [stored_tensor(tensor, info) for tensor, info in logical]
    tensors = distinct(results, emitter)
    if merge and _can_merge(tensors):
        shape, attributes = tensors[0].shape, tensors[0].op.attrs
        made = te.compute(
            shape, lambda *i: tuple(t(*i) for t in tensors), "merged", attrs=attributes
        )
        tensors = list(made)
    if not is_opaque(group):
        tensors = inline_stages(tensors, lambda tensor: keep and KEEP_ATTRIBUTE in tensor.op.attrs)
    transformed = s_tir.transform.ConvertSSA()(
        IRModule({"main": te.create_prim_func([*emitter.placeholders, *tensors])})
    )
    return transformed["main"]


def _can_merge(tensors: Sequence[te.Tensor]) -> bool:
    """Whether tensors are computed element by element, and are of one shape and layout."""
    first = tensors[0]
    return len(tensors) > 1 and all(
        isinstance(tensor.op, te.ComputeOp)
        and not isinstance(tensor.op.body[0], tirx.Reduce)
        and [*map(int, tensor.shape)] == [*map(int, first.shape)]
        and tensor.op.attrs.get(BLOCK_MARK) == first.op.attrs.get(BLOCK_MARK)
        for tensor in tensors
    )


def is_opaque(group: Group) -> bool:
    """Whether a group has an operator whose kernel is written by hand."""
    return any(KINDS[operator.type] is Kind.OPAQUE for operator in group.operators)


def distinct(results: Sequence[te.Tensor], emitter: Emitter) -> list[te.Tensor]:
    """Results as separate tensors: one that is an input or given twice is copied."""
    taken = list(emitter.placeholders)
    tensors: list[te.Tensor] = []
    for tensor in results:
        if any(tensor.same_as(other) for other in taken):
            tensor = te.compute(tensor.shape, tensor.__call__, name="copy")
        taken.append(tensor)
        tensors.append(tensor)
    return tensors
