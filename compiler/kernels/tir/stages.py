"""A graph of tensor expressions with fewer stages: the others are computed where they are read."""

from collections.abc import Callable, Sequence, Set
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.ir import Range
from tvm.sym import Analyzer
from tvm.te import _ffi_api
from tvm_ffi import convert

from compiler.kernels.ops.reducers import WHERE_READ
from compiler.kernels.sizes import tensor_extents
from compiler.kernels.tir.expand import expand, identity, inputs_first
from compiler.tensors.extents import Extent

Keep = Callable[[te.Tensor], bool]


def inline_stages(results: Sequence[te.Tensor], keep: Keep, few_terms: int = 0) -> list[te.Tensor]:
    """The same results from stages of which only reductions, results and those kept are left.

    Marked reductions are expressions where these have at most `few_terms`.
    """
    order = inputs_first(results)
    reductions = _reductions(order, {prod(tensor_extents(own)) for own in results}, few_terms)
    whole = {identity(t) for t in order if keep(t)} | reductions
    whole |= set(map(identity, results))
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


def _reductions(order: Sequence[te.Tensor], elements: Set[Extent], few_terms: int) -> set[Any]:
    """The stages that stay loops over terms, of stages in order, with the results' elements.

    An expression of several terms repeats those of the expressions that it reads. Results that are
    as many as the terms in all are rows, each of which is reduced once.
    """
    loops: set[Any] = set()
    repeated: dict[Any, int] = {}
    for tensor in order:
        terms = max((repeated.get(identity(x), 1) for x in tensor.op.input_tensors), default=1)
        if isinstance(tensor.op.body[0], tirx.Reduce):
            own = _few_terms(tensor, few_terms)
            terms *= own
            if terms > few_terms or prod(tensor_extents(tensor)) * own in elements:
                loops.add(identity(tensor))
                terms = 1
        repeated[identity(tensor)] = terms if int(tensor.op.attrs.get(WHERE_READ, 1)) else 1
    return loops


def _few_terms(tensor: te.Tensor, few_terms: int) -> int:
    """The terms of a reduction that is marked, more than a few for others."""
    extents = [axis.dom.extent for axis in tensor.op.body[0].axis]
    fixed = all(isinstance(extent, tirx.IntImm) for extent in extents)
    marked = fixed and WHERE_READ in tensor.op.attrs
    return prod(map(int, extents)) if marked else few_terms + 1


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
            tirx.Reduce(first.combiner, source, first.axis, condition, i, init=first.init)
            for i in range(len(op.body))
        ]
    else:
        body = [inlined(value) for value in op.body]
    return _ffi_api.ComputeOp(op.name, op.tag, op.attrs, op.axis, body)
