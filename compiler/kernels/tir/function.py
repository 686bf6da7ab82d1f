"""A group as one PrimFunc without a schedule."""

from collections.abc import Sequence
from typing import Any

from tvm import IRModule, s_tir, te, tirx
from tvm.tirx import PrimFunc

from compiler.errors import KernelError
from compiler.kernels.group import Group
from compiler.kernels.ops.layout import BLOCK_MARK, stored_tensor
from compiler.kernels.ops.lowering import Emitter
from compiler.kernels.sizes import tensor_extents
from compiler.kernels.tir.stages import inline_stages
from compiler.net.operators import KINDS, Kind
from compiler.tensors.exact import same_extents

KEEP_ATTRIBUTE = "keep"
"""The mark of a stage that is computed once for all its readers, in memory."""


def generic_function(
    group: Group, keep: bool = True, merge: bool = False, few_terms: int = 0
) -> PrimFunc:
    """A group, without a schedule, on its reads and writes as they are stored.

    Its stages are reductions of more than `few_terms`, results and, with `keep`, those marked to be
    kept for their readers. With `merge`, results that can share a loop do.
    """
    if is_opaque(group) and any(info.block for info in (*group.reads, *group.writes)):
        raise KernelError("an opaque operator reads and writes row-major tensors only")
    emitter = Emitter(group)
    logical = zip(emitter.lower_all(), group.writes, strict=True)
    results = [stored_tensor(tensor, info) for tensor, info in logical]
    tensors = distinct(results, emitter)
    if merge and _can_merge(tensors):
        tensors = _merged(tensors)
    if not is_opaque(group):
        tensors = inline_stages(
            tensors, lambda tensor: keep and KEEP_ATTRIBUTE in tensor.op.attrs, few_terms
        )
    return _with_single_definitions(te.create_prim_func([*emitter.placeholders, *tensors]))


def _can_merge(tensors: Sequence[te.Tensor]) -> bool:
    """Whether tensors are computed element by element, and are of one shape and layout."""
    first = tensors[0]
    return len(tensors) > 1 and all(
        isinstance(tensor.op, te.ComputeOp)
        and not isinstance(tensor.op.body[0], tirx.Reduce)
        and same_extents(tensor_extents(tensor), tensor_extents(first))
        and tensor.op.attrs.get(BLOCK_MARK) == first.op.attrs.get(BLOCK_MARK)
        for tensor in tensors
    )


def _merged(tensors: Sequence[te.Tensor]) -> list[te.Tensor]:
    """The same tensors as results of one operation."""
    shape, attributes = tensors[0].shape, tensors[0].op.attrs
    made = te.compute(shape, lambda *i: tuple(t(*i) for t in tensors), "merged", attrs=attributes)
    return list(made)


def _with_single_definitions(function: PrimFunc) -> PrimFunc:
    """A function whose variables are defined once: reducers such as ArgMax's repeat their operand,
    and with it the values that it binds."""
    transformed = s_tir.transform.ConvertSSA()(IRModule({"main": function}))
    return transformed["main"]


def with_parameters(function: PrimFunc, parameters: Sequence[Any]) -> PrimFunc:
    """A function with other parameters, buffers or variables, and the same body."""
    return PrimFunc(parameters, function.body, function.ret_type, function.attrs)


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
