"""Lowerings of reductions over axes: sums, multiplications, extremes, norms, positions."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from tvm import te, tirx
from tvm.ir import Expr

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import Scalar, absolute, cast, is_float, is_nan, sort_key, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call, dtype_of
from compiler.kernels.ops.reducers import (
    WHERE_READ,
    Reducer,
    finished,
    max_reducer,
    min_reducer,
    position_combiner,
    position_identity,
    product_reducer,
    reduce_axes,
    sum_reducer,
)
from compiler.kernels.sizes import as_size, extent_constant
from compiler.net.operators import OPERATORS, PARTIAL_RANGES
from compiler.tensors.arithmetic import maximum
from compiler.tensors.dtypes import ELEMENT_BYTES


def chosen_axes(context: Context) -> list[int]:
    """The axes that a reduction reduces, by the operator table."""
    entry = OPERATORS[context.type]
    if entry.facts.reduces is None:
        raise context.fail("it reduces windows, not axes")
    return list(entry.facts.reduces(context))


def _square(x: Scalar) -> Scalar:
    return wrapping.multiply(x, x)


def _same(x: Scalar) -> Scalar:
    return x


def _divided(count: int, dtype: str, x: Scalar) -> Scalar:
    return x / extent_constant(count, dtype)


def _working(context: Context) -> str:
    """The dtype in which a reduction is computed."""
    dtype = context.output.dtype
    if dtype == "bool":
        return "uint8"  # TVM's own reducers know no least bool
    through_floats = OPERATORS[context.type].facts.through_floats
    return wide(dtype) if is_float(dtype) or not through_floats else "float64"


def reduction(
    context: Context,
    reducer: Reducer,
    before: Callable[[Scalar], Scalar] = _same,
    after: Callable[[Scalar], Scalar] = _same,
) -> te.Tensor:
    """A reduction of a function of the elements, with a last function of the total."""
    data = context.tensor(0)
    shape = context.shape(0)
    axes = chosen_axes(context)
    dtype = _working(context)
    if context.operand(0).dtype == "bool" and reducer not in (max_reducer, min_reducer):
        raise context.fail("only ReduceMax and ReduceMin take bool")
    total = reduce_axes(
        lambda *i: before(cast(data(*i), dtype)),
        shape,
        axes,
        reducer,
        context.type,
        marks={WHERE_READ: 1},
    )
    return finished(context, total, axes, after)


lowering("ReduceSum")(partial(reduction, reducer=sum_reducer))
lowering("ReduceMax")(partial(reduction, reducer=max_reducer))
lowering("ReduceMin")(partial(reduction, reducer=min_reducer))
lowering("ReduceProd")(partial(reduction, reducer=product_reducer))
lowering("ReduceL1")(partial(reduction, reducer=sum_reducer, before=absolute))
lowering("ReduceL2")(partial(reduction, reducer=sum_reducer, before=_square, after=tirx.sqrt))
lowering("ReduceSumSquare")(partial(reduction, reducer=sum_reducer, before=_square))
lowering("ReduceLogSum")(partial(reduction, reducer=sum_reducer, after=partial(call, "log")))


@lowering("ReduceMean")
def lower_mean(context: Context) -> te.Tensor:
    """A sum divided by the number of its elements; of no elements 0, as onnxruntime has it."""
    shape = context.shape(0)
    count = as_size(maximum(1, prod(shape[axis] for axis in chosen_axes(context))))
    return reduction(context, sum_reducer, after=partial(_divided, count, _working(context)))


@lowering("ReduceLogSumExp")
def lower_log_sum_exp(context: Context) -> te.Tensor:
    """log(sum(e**x)), with the largest element taken out so that nothing overflows."""
    data = context.tensor(0)
    shape = context.shape(0)
    axes = chosen_axes(context)
    dtype = _working(context)
    if not axes:
        return te.compute(context.output.shape, lambda *i: data(*i), name="ReduceLogSumExp")
    top = reduce_axes(
        lambda *i: cast(data(*i), dtype), shape, axes, max_reducer, "largest", marks={WHERE_READ: 0}
    )
    zero = tirx.const(0, dtype)

    def shift(*at: Any) -> Scalar:
        value = top(*[0 if axis in axes else i for axis, i in enumerate(at)])
        return tirx.Select(tirx.isfinite(value), value, zero)

    total = reduce_axes(
        lambda *i: call("exp", cast(data(*i), dtype) - shift(*i)),
        shape,
        axes,
        sum_reducer,
        "total",
        marks={WHERE_READ: 1},
    )
    logarithm = te.compute(
        total.shape, lambda *i: call("log", total(*i)) + shift(*i), name="logarithm"
    )
    return finished(context, logarithm, axes, _same)


def _pair_reducer(combine: Callable[[Any, Any], list[Scalar]], identity: list[Scalar]) -> Reducer:
    """TVM's form of a reduction of pairs: it reads the names of `pair`'s parameters."""

    def pair(a: Any, b: Any) -> tuple[Scalar, ...]:
        return tuple(combine(a, b))

    return te.comm_reducer(pair, lambda *_: tuple(identity), name="position")


def found(variable: Any, value: Scalar, identity: Sequence[Scalar]) -> list[Scalar]:
    """A position and its value, or none for a NaN that is not the first element."""
    if not is_float(dtype_of(value)):
        return [variable, value]
    ignored = tirx.all(is_nan(value), variable > 0)
    pairs = zip(identity, (variable, value), strict=True)
    return [tirx.Select(ignored, nothing, given) for nothing, given in pairs]


@lowering("ArgMax", "ArgMin")
def lower_extreme_position(context: Context) -> te.Tensor:
    """The position of the largest or smallest element along an axis.

    NaN is neither, unless it comes first: then it is the result, as onnxruntime has it.
    """
    data = context.tensor(0)
    shape = context.shape(0)
    axis: int = context["axis"]
    if prod(shape) == 1:  # TVM's simplifier loses a pair of results without loops
        return te.compute(context.output.shape, lambda *_: tirx.const(0, "int64"), name="position")
    largest = context.type == "ArgMax"
    last = bool(context["select_last_index"])
    if ELEMENT_BYTES[context.operand(0).dtype] <= 4:
        return _packed_position(context, axis, largest, last)
    combine = position_combiner(largest, last)
    identity = position_identity(largest, last)
    dtype = wide(context.operand(0).dtype)
    reducer = _pair_reducer(combine, identity(dtype))
    variable = te.reduce_axis((0, shape[axis]), "r")
    kept = tuple(1 if a == axis else n for a, n in enumerate(shape))

    def body(*indices: Any) -> Sequence[Expr]:
        at = [variable if a == axis else i for a, i in enumerate(indices)]
        pair = found(variable, cast(data(*at), dtype), identity(dtype))
        return reducer(tuple(pair), axis=[variable])

    position, _ = te.compute(kept, body, name="position")
    return finished(context, position, [axis], _same)


def _packed_position(context: Context, axis: int, largest: bool, last: bool) -> te.Tensor:
    """The least integer of a key above a position, which a loop of vectors finds.

    The position counts from the end if the last of equals is wanted.
    """
    data = context.tensor(0)
    shape = context.shape(0)
    end = extent_constant(shape[axis] - 1, "int64")
    bits = tirx.const(32, "int64")

    def packed(*indices: Any) -> Scalar:
        at = indices[axis].astype("int64")
        value = data(*indices)
        key = sort_key(value, "int32", largest).astype("int64")
        if is_float(dtype_of(value)):
            first, ignored = (
                limit("int32").astype("int64") for limit in (tirx.min_value, tirx.max_value)
            )
            no_number = is_nan(cast(value, wide(dtype_of(value))))
            key = tirx.Select(no_number, tirx.Select(at > 0, ignored, first), key)
        return (key << bits) + (end - at if last else at)

    def position(total: Scalar) -> Scalar:
        at = total & tirx.const(2**32 - 1, "int64")
        return end - at if last else at

    total = reduce_axes(packed, shape, [axis], min_reducer, "position")
    return finished(context, total, [axis], position)


@lowering(PARTIAL_RANGES)
def lower_partial_ranges(context: Context) -> list[te.Tensor]:
    """The range of the whole tensor for each part."""
    data = context.tensor(0)
    shape = context.shape(0)
    axes = range(len(shape))
    first = [0 for _ in shape]
    extremes = (
        reduce_axes(lambda *i: data(*i), shape, axes, reducer, PARTIAL_RANGES)
        for reducer in (min_reducer, max_reducer)
    )
    return [_repeated(x, first, context.output.shape) for x in extremes]


def _repeated(tensor: te.Tensor, index: Sequence[int], shape: Sequence[int]) -> te.Tensor:
    """One element of a tensor as all elements of a shape."""

    def body(*_: Any) -> Any:
        return tensor(*index)

    return te.compute(shape, body, name="repeated")
