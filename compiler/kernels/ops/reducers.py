"""Reducers and their identities, and reductions over axes."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import te, tirx
from tvm.ir import Var

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.long_sums import INNER_SUMS, LONG_SUM, WIDE_RUN, divided_axis
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
from compiler.kernels.sizes import is_long

Reducer = Callable[..., Any]

ALONG_MEMORY = "along memory"
"""The mark of a stage whose terms are consecutive, though its innermost axis is in their index."""

WHERE_READ = "computed where it is read"
"""The mark of a stage that may be an expression, where it has few terms: whether each term of a
reader repeats them, or all share one result."""

NO_MARKS: Mapping[str, int] = {}


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


def _reducer(
    combine: Callable[[Any, Any], Scalar], identity: Callable[[str], Scalar], name: str
) -> Reducer:
    """A reduction over axes; the identity where one has no elements.

    TVM initialises no result in registers where the loop over an axis is left out.
    """
    reduced: Reducer = te.comm_reducer(combine, identity, name=name)

    def reducer(value: Scalar, axis: Sequence[Any]) -> Scalar:
        extents = [x.dom.extent for x in axis]
        if any(isinstance(extent, tirx.IntImm) and int(extent) == 0 for extent in extents):
            return identity(dtype_of(value))
        return reduced(value, axis=axis)

    return reducer


max_reducer = _reducer(maximum, lowest, "maximum")


min_reducer = _reducer(minimum, highest, "minimum")


def zero(dtype: str) -> Scalar:
    """The identity of a sum."""
    return tirx.const(0, dtype)


sum_reducer = _reducer(wrapping.add, zero, "sum")


def one(dtype: str) -> Scalar:
    """The identity of a multiplication."""
    return tirx.const(1, dtype)


product_reducer = _reducer(wrapping.multiply, one, "times")


def in_runs(total: te.Tensor, lanes: int = 1) -> te.Tensor:
    """A tensor whose elements are sums; long ones of floats are added up in runs.

    They are long if they have more terms than `lanes` accumulators add well. The sums of runs are
    added in float64.
    """
    reduction: Any = total.op.body[0]
    if not isinstance(reduction, tirx.Reduce) or not is_float(str(total.dtype)):
        return total
    axes = list(reduction.axis)
    indices = [axis.var for axis in total.op.axis]
    if not all(isinstance(axis.dom.extent, tirx.IntImm) for axis in axes):
        return total  # as `run_of` of symbols
    extents = [int(axis.dom.extent) for axis in axes]
    if prod(extents) <= LONG_SUM * lanes:
        return total
    cut, part = divided_axis(extents, WIDE_RUN * lanes)
    runs = [*extents[:cut], ceil_div(extents[cut], part)]
    steps = [te.reduce_axis((0, n), f"step{i}") for i, n in enumerate((part, *extents[cut + 1 :]))]

    def of_run(*index: Any) -> Scalar:
        outer, own = index[: len(runs)], index[len(runs) :]
        position = outer[-1] * part + steps[0].var
        values = (*own, *outer[:-1], position, *(axis.var for axis in steps[1:]))
        variables = (*indices, *(axis.var for axis in axes))
        term = with_variables(reduction.source[0], dict(zip(variables, values, strict=True)))
        if extents[cut] % part:
            term = tirx.if_then_else(position < extents[cut], term, zero(str(total.dtype)))
        return sum_reducer(term, axis=steps)

    name, dtype = str(total.op.name), str(total.dtype)
    marks = {ALONG_MEMORY: 1} if lanes > 1 else {}
    sums = te.compute((*runs, *total.shape), of_run, name=f"{name}_runs", attrs=marks)
    numbers = [te.reduce_axis((0, n), f"run{i}") for i, n in enumerate(runs)]

    def of_all(*index: Any) -> Scalar:
        return sum_reducer(cast(sums(*numbers, *index), "float64"), axis=numbers)

    whole = te.compute(total.shape, of_all, name=f"{name}_wide")
    return te.compute(total.shape, lambda *i: cast(whole(*i), dtype), name=name)


def with_variables(value: Scalar, by: Mapping[Var, Any]) -> Scalar:
    """An expression with other values of some of its variables."""

    def replaced(variable: Var, mutator: Any) -> Any:
        return by.get(variable, variable)

    return tvm_ffi.structural_mutate(value, ((Var, replaced),))


def reduce_axes(
    source: Callable[..., Scalar],
    shape: Sequence[int],
    axes: Sequence[int],
    reducer: Reducer,
    name: str,
    marks: Mapping[str, int] = NO_MARKS,
) -> te.Tensor:
    """Reduce `source(index)` over some axes of a shape; they stay, with one element each."""
    variables = {axis: te.reduce_axis((0, shape[axis]), f"r{axis}") for axis in sorted(axes)}
    kept = tuple(1 if axis in variables else n for axis, n in enumerate(shape))

    def body(*indices: Any) -> Any:
        at = [variables.get(axis, index) for axis, index in enumerate(indices)]
        return reducer(source(*at), axis=list(variables.values()))

    if not variables:
        return te.compute(kept, source, name=name)
    total = te.compute(kept, body, name=name, attrs=dict(marks))
    if reducer is not sum_reducer:
        return total
    long = [axis for axis, n in enumerate(shape) if is_long(n)]
    return in_runs(total, INNER_SUMS if long and long[-1] in variables else 1)


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

    return te.compute(output.shape, body, name=context.type)


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
