"""A graph of tensor expressions with fewer stages: the others are computed where they are read."""

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx
from tvm.ir import Range
from tvm.sym import Analyzer
from tvm.te import _ffi_api

from compiler.kernels.inlining.expand import expand

Keep = Callable[[te.Tensor], bool]


def inline_stages(results: Sequence[te.Tensor], keep: Keep) -> list[te.Tensor]:
    """The same results from stages of which only reductions, results and those kept are left."""
    order = _inputs_first(results)
    whole = {t for t in order if _is_reduction(t) or keep(t)} | set(results)
    kept: dict[te.Tensor, te.Tensor] = {}

    def leaf(tensor: te.Tensor, indices: Sequence[Any]) -> Any:
        if isinstance(tensor.op, te.ComputeOp) and tensor not in whole:
            return None
        return kept.get(tensor, tensor)(*indices)

    for tensor in order:
        if tensor in whole and tensor not in kept:
            op = _rebuilt(tensor.op, leaf)
            for i in range(op.num_outputs):
                kept[tensor.op.output(i)] = op.output(i)
    return [kept.get(tensor, tensor) for tensor in results]


def _inputs_first(results: Sequence[te.Tensor]) -> list[te.Tensor]:
    """The computed tensors, each after those that it reads."""
    order: list[te.Tensor] = []
    seen: set[te.Tensor] = set()
    pending = [(tensor, False) for tensor in reversed(results)]
    while pending:
        tensor, done = pending.pop()
        if done:
            order.append(tensor)
        elif tensor not in seen and isinstance(tensor.op, te.ComputeOp):
            seen.add(tensor)
            pending.append((tensor, True))
            pending.extend((other, False) for other in reversed(tensor.op.input_tensors))
    return order


def _is_reduction(tensor: te.Tensor) -> bool:
    return isinstance(tensor.op.body[0], tirx.Reduce)


def _rebuilt(op: te.ComputeOp, leaf: Any) -> te.ComputeOp:
    """An operation that computes the stages it reads, but for those that are leaves."""
    analyzer = Analyzer()
    for axis in (*op.axis, *op.reduce_axis):
        analyzer.bind(axis.var, Range.from_min_extent(axis.dom.min, axis.dom.extent))

    def inlined(value: Any) -> Any:
        return expand([value], leaf, analyzer).nested()

    first = op.body[0]
    if isinstance(first, tirx.Reduce):
        source = [inlined(value) for value in first.source]
        condition = inlined(first.condition)
        body = [
            tirx.Reduce(first.combiner, source, first.axis, condition, i, first.init)
            for i in range(len(op.body))
        ]
    else:
        body = [inlined(value) for value in op.body]
    return _ffi_api.ComputeOp(op.name, op.tag, op.attrs, op.axis, body)
