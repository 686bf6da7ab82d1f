"""Reducers and their identities, and reductions over axes."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import te, tirx

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import (
    Scalar,
    cast,
    is_float,
    is_nan,
    maximum,
    minimum,
)
from compiler.kernels.ops.lowering import Context
from compiler.kernels.ops.mathematics import dtype_of

Reducer = Callable[..., Any]


def lowest(dtype: str) -> Scalar:
    """The identity of a maximum."""
    if dtype == "bool":
        return tirx.const(0, "bool")
    return -tirx.infinity(dtype) if is_float(dtype) else tirx.min_value(dtype)


def highest(dtype: str) -> Scalar:
    """The identity of a minimum."""
    if dtype == "bool":
        return tirx.const(1, "bool")
    return tirx.infinity(dtype) if is_float(dtype) else tirx.max_value(dtype)


max_reducer: Reducer = te.comm_reducer(maximum, lowest, name="maximum")


min_reducer: Reducer = te.comm_reducer(minimum, highest, name="minimum")


def _plus(a: Scalar, b: Scalar) -> Scalar:
    return wrapping.add(a, b)


def zero(dtype: str) -> Scalar:
    """The identity of a sum."""
    return tirx.const(0, dtype)


sum_reducer: Reducer = te.comm_reducer(_plus, zero, name="sum")


def _times(a: Scalar, b: Scalar) -> Scalar:
    return wrapping.multiply(a, b)


def one(dtype: str) -> Scalar:
    """The identity of a multiplication."""
    return tirx.const(1, dtype)


product_reducer: Reducer = te.comm_reducer(_times, one, name="times")


def reduce_axes(
    source: Callable[..., Scalar],
    shape: Sequence[int],
    axes: Sequence[int],
    reducer: Reducer,
    name: str,
) -> te.Tensor:
    """Reduce `source(index)` over some axes of a shape; they stay, with one element each."""
    variables = {axis: te.reduce_axis((0, shape[axis]), f"r{axis}") for axis in sorted(axes)}
    kept = tuple(1 if axis in variables else n for axis, n in enumerate(shape))

    def body(*indices: Any) -> Any:
        at = [variables.get(axis, index) for axis, index in enumerate(indices)]
        return reducer(source(*at), axis=list(variables.values()))

    if prod(shape) == 0:
        return te.compute(
            kept, lambda *_: identity_of(reducer, dtype_of(source(*[0 for _ in shape])))
        )
    if not variables:
        return te.compute(kept, source, name=name)
    return te.compute(kept, body, name=name)


def identity_of(reducer: Reducer, dtype: str) -> Scalar:
    """The result of a reduction over no elements."""
    if reducer is max_reducer:
        return lowest(dtype)
    if reducer is min_reducer:
        return highest(dtype)
    return tirx.const(1 if reducer is product_reducer else 0, dtype)


def squeezed(indices: Sequence[Any], axes: Sequence[int], rank: int) -> list[Any]:
    """The index with 0 put in at the reduced axes, when the result does not keep them."""
    rest = iter(indices)
    return [0 if axis in axes else next(rest) for axis in range(rank)]


def finished(
    context: Context, total: te.Tensor, axes: Sequence[int], finish: Callable[[Scalar], Scalar]
) -> te.Tensor:
    """Apply a last function to a reduction that kept its axes, giving the declared result."""
    output = context.output
    rank = len(total.shape)

    def body(*indices: Any) -> Scalar:
        at = indices if len(indices) == rank else squeezed(indices, axes, rank)
        pinned = [0 if axis in axes else i for axis, i in enumerate(at)]
        return cast(finish(total(*pinned)), output.dtype)

    return te.compute(output.shape, body, name=context.operator.type)


def position_combiner(largest: bool, last: bool) -> Callable[[Any, Any], list[Scalar]]:
    """Which of two pairs (position, value) a search for the largest or smallest keeps.

    A negative position is none. Of equals the first or last is kept, and NaN, of which `found`
    leaves only one at the start, is kept before all: so the order of the reduction changes nothing.
    It may be evaluated for the value after the position has changed, as TVM's threads do.
    """

    def combine(a: Any, b: Any) -> list[Scalar]:
        better = wrapping.greater(b[1], a[1]) if largest else wrapping.less(b[1], a[1])
        better = tirx.any(better, is_nan(b[1])) if is_float(dtype_of(b[1])) else better
        later = b[0] > a[0] if last else b[0] < a[0]
        unset = a[0] < tirx.const(0, "int32")
        known = b[0] >= tirx.const(0, "int32")
        take = tirx.any(unset, better, tirx.all(wrapping.equal(b[1], a[1]), later, known))
        return [tirx.Select(take, b[0], a[0]), tirx.Select(take, b[1], a[1])]

    return combine


def position_identity(largest: bool, last: bool) -> Callable[[str], list[Scalar]]:
    """No position, and a value that every other one beats, for a dtype of the values.

    It is another one for each search: TVM distinguishes combiners of pairs by these alone.
    """
    worst = lowest if largest else highest
    return lambda dtype: [tirx.const(-2 if last else -1, "int32"), worst(dtype)]
