"""Lowerings of reductions over axes: sums, products, extremes, norms, positions."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import te, tirx

from compiler.kernels.ops.elementwise import (
    absolute,
    cast,
    is_float,
    is_nan,
    maximum,
    minimum,
    wide,
)
from compiler.kernels.ops.injective import normal_axis
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call, dtype_of

Scalar = Any
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
sum_reducer: Reducer = te.sum
product_reducer: Reducer = te.comm_reducer(
    lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="product"
)


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
    """What a reduction over no elements gives."""
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


def chosen_axes(context: Context) -> list[int]:
    """The axes to reduce, from input 1 or the attribute; all when none is given."""
    rank = len(context.info(0).shape)
    given: list[int] = context.attribute("axes") or []
    if context.has(1):
        given = context.integers(1)
    if given:
        return sorted({normal_axis(axis, rank) for axis in given})
    return [] if context.attribute("noop_with_empty_axes", 0) else list(range(rank))


def _square(x: Scalar) -> Scalar:
    return x * x


def _same(x: Scalar) -> Scalar:
    return x


_REDUCTIONS: dict[str, tuple[Callable[[Scalar], Scalar], Reducer, Callable[[Scalar], Scalar]]] = {
    "ReduceSum": (_same, sum_reducer, _same),
    "ReduceMax": (_same, max_reducer, _same),
    "ReduceMin": (_same, min_reducer, _same),
    "ReduceProd": (_same, product_reducer, _same),
    "ReduceL1": (absolute, sum_reducer, _same),
    "ReduceL2": (_square, sum_reducer, lambda x: _root(x)),
    "ReduceSumSquare": (_square, sum_reducer, _same),
    "ReduceLogSum": (_same, sum_reducer, lambda x: _log(x)),
}


def _root(x: Scalar) -> Scalar:
    return tirx.sqrt(x)


def _log(x: Scalar) -> Scalar:
    return call("log", x)


def _working(context: Context) -> str:
    """The dtype in which a reduction is computed."""
    dtype = context.output.dtype
    if dtype == "bool":
        return "uint8"  # TVM's own reducers know no least bool
    inexact = context.operator.type in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
    return wide(dtype) if is_float(dtype) or not inexact else "float64"


@lowering(*_REDUCTIONS, "ReduceMean")
def reduce_operator(context: Context) -> te.Tensor:
    """A reduction of a function of the elements, with a last function of the total."""
    data, shape, axes = context.tensor(0), context.info(0).shape, chosen_axes(context)
    dtype = _working(context)
    before, reducer, after = _REDUCTIONS.get(context.operator.type, (_same, sum_reducer, _same))
    if context.operator.type == "ReduceMean":
        count = max(1, prod(shape[axis] for axis in axes))  # of no elements 0, as onnxruntime
        after = lambda x: x / tirx.const(count, dtype)  # noqa: E731
    if context.info(0).dtype == "bool" and reducer not in (max_reducer, min_reducer):
        raise context.fail("only ReduceMax and ReduceMin take bool")
    if not axes and context.attribute("noop_with_empty_axes", 0):
        before, after = _identity_of(context.operator.type, before, after)
    total = reduce_axes(
        lambda *i: before(cast(data(*i), dtype)), shape, axes, reducer, context.operator.type
    )
    return finished(context, total, axes, after)


def _identity_of(
    type: str, before: Callable[[Scalar], Scalar], after: Callable[[Scalar], Scalar]
) -> tuple[Callable[[Scalar], Scalar], Callable[[Scalar], Scalar]]:
    """With no axes at all a mean divides by one; the other functions still apply."""
    return (before, _same) if type == "ReduceMean" else (before, after)


@lowering("ReduceLogSumExp")
def log_sum_exp(context: Context) -> te.Tensor:
    """log(sum(e**x)), with the largest element taken out so that nothing overflows."""
    data, shape, axes = context.tensor(0), context.info(0).shape, chosen_axes(context)
    dtype = _working(context)
    if not axes:
        return te.compute(context.output.shape, lambda *i: data(*i), name="ReduceLogSumExp")
    top = reduce_axes(lambda *i: cast(data(*i), dtype), shape, axes, max_reducer, "largest")
    zero = tirx.const(0, dtype)

    def shift(*at: Any) -> Scalar:
        value = top(*[0 if axis in axes else i for axis, i in enumerate(at)])
        return tirx.Select(tirx.isfinite(value), value, zero)

    total = reduce_axes(
        lambda *i: call("exp", cast(data(*i), dtype) - shift(*i)), shape, axes, sum_reducer, "total"
    )
    logarithm = te.compute(
        total.shape, lambda *i: call("log", total(*i)) + shift(*i), name="logarithm"
    )
    return finished(context, logarithm, axes, _same)


def position_combiner(largest: bool, last: bool) -> Callable[..., list[Scalar]]:
    """Which of two pairs (position, value) a search for the largest or smallest keeps.

    A negative position is none. Of equals the first or last is kept, and NaN, of which `found`
    leaves only one at the start, is kept before all: so the order of the reduction changes nothing.
    It may be evaluated for the value after the position has changed, as TVM's threads do.
    """

    def combine(a: Any, b: Any) -> list[Scalar]:
        better = b[1] > a[1] if largest else b[1] < a[1]
        better = tirx.any(better, is_nan(b[1])) if is_float(dtype_of(b[1])) else better
        later = b[0] > a[0] if last else b[0] < a[0]
        unset = a[0] < tirx.const(0, "int32")
        known = b[0] >= tirx.const(0, "int32")
        take = tirx.any(unset, better, tirx.all(tirx.EQ(b[1], a[1]), later, known))
        return [tirx.Select(take, b[0], a[0]), tirx.Select(take, b[1], a[1])]

    return combine


def position_identity(largest: bool, last: bool) -> Callable[[str], list[Scalar]]:
    """No position, and a value that every other one beats, for a dtype of the values.

    It is another one for each search: TVM tells combiners of pairs apart by these alone.
    """
    worst = lowest if largest else highest
    return lambda dtype: [tirx.const(-2 if last else -1, "int32"), worst(dtype)]


def found(variable: Any, value: Scalar, identity: Sequence[Scalar]) -> list[Scalar]:
    """A position and its value, or none for a NaN that is not the first element."""
    if not is_float(dtype_of(value)):
        return [variable, value]
    ignored = tirx.all(is_nan(value), variable > 0)
    pairs = zip(identity, (variable, value), strict=True)
    return [tirx.Select(ignored, nothing, given) for nothing, given in pairs]


@lowering("ArgMax", "ArgMin")
def extreme_position(context: Context) -> te.Tensor:
    """The position of the largest or smallest element along an axis.

    NaN is neither, unless it comes first: then it is the result, as onnxruntime has it.
    """
    data, shape = context.tensor(0), context.info(0).shape
    axis = normal_axis(context.attribute("axis", 0), len(shape))
    if prod(shape) == 1:  # TVM's simplifier loses a pair of results without loops
        return te.compute(context.output.shape, lambda *_: tirx.const(0, "int64"), name="position")
    largest = context.operator.type == "ArgMax"
    last = bool(context.attribute("select_last_index", 0))
    combine, identity = position_combiner(largest, last), position_identity(largest, last)
    dtype = wide(context.info(0).dtype)
    reducer = te.comm_reducer(
        lambda a, b: tuple(combine(a, b)), lambda *_: tuple(identity(dtype)), name="position"
    )
    variable = te.reduce_axis((0, shape[axis]), "r")
    kept = tuple(1 if a == axis else n for a, n in enumerate(shape))

    def body(*indices: Any) -> Any:
        at = [variable if a == axis else i for a, i in enumerate(indices)]
        pair = found(variable, cast(data(*at), dtype), identity(dtype))
        return reducer(tuple(pair), axis=[variable])

    position, _ = te.compute(kept, body, name="position")
    return finished(context, position, [axis], _same)
