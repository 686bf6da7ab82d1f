"""A graph of tensor expressions with fewer stages: the others are computed where they are read."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx
from tvm.ir import Range
from tvm.sym import Analyzer
from tvm.te import _ffi_api
from tvm_ffi import convert

from compiler.kernels.tir.expand import expand, identity, inputs_first

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
            tirx.Reduce(first.combiner, source, first.axis, condition, i, init=first.init)
            for i in range(len(op.body))
        ]
    else:
        body = [inlined(value) for value in op.body]
    return _ffi_api.ComputeOp(op.name, op.tag, op.attrs, op.axis, body)
