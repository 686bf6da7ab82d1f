"""The meaning of operators in proofs: ONNX's, over the reals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import prod
from typing import Any

import z3

from tests.rewrite.rules.divisions import Index, divided
from tests.rewrite.rules.sums import (
    Sum,
    call,
    number,
    pick,
    read,
    scaled,
    times,
    total,
    where,
)
from tests.rewrite.rules.tensors import (
    Indices,
    Symbolic,
    Use,
    aligned,
    as_formula,
    blocks,
    broadcast,
    holding,
    inside,
    numbered,
    unnumbered,
    window_positions,
    windows,
)

Denotation = Callable[[Use], Symbolic]

DENOTATIONS: dict[str, Denotation] = {}


def denotes(*kinds: str) -> Callable[[Denotation], Denotation]:
    """Register the meaning of operators."""

    def register(function: Denotation) -> Denotation:
        DENOTATIONS.update(dict.fromkeys(kinds, function))
        return function

    return register


def combined(use: Use, combine: Callable[[Sequence[Sum]], Sum]) -> Symbolic:
    """An operator on the same elements of its inputs, which are broadcast."""
    shape = broadcast(use, [x.shape for x in use.inputs])

    def at(indices: Indices) -> Sum:
        return combine([x.at(aligned(use, x.shape, shape, indices)) for x in use.inputs])

    return Symbolic(shape, at)


@denotes("Add")
def _add(use: Use) -> Symbolic:
    return combined(use, lambda values: values[0] + values[1])


@denotes("Sub")
def _sub(use: Use) -> Symbolic:
    return combined(use, lambda values: values[0] + scaled(values[1], Fraction(-1)))


@denotes("Mul")
def _mul(use: Use) -> Symbolic:
    return combined(use, lambda values: times(use.reasoner, values[0], values[1]))


@denotes("Div")
def _div(use: Use) -> Symbolic:
    return combined(use, lambda values: ratio(use, values[0], values[1]))


@denotes("Neg")
def _neg(use: Use) -> Symbolic:
    return combined(use, lambda values: scaled(values[0], Fraction(-1)))


@denotes("Reciprocal")
def _reciprocal(use: Use) -> Symbolic:
    return combined(use, lambda values: reciprocal(use, values[0]))


@denotes("Identity")
def _identity(use: Use) -> Symbolic:
    return use.inputs[0]


def ratio(use: Use, value: Sum, divisor: Sum) -> Sum:
    """A sum divided by another."""
    return times(use.reasoner, value, reciprocal(use, divisor))


def reciprocal(use: Use, value: Sum) -> Sum:
    """One divided by a sum; the reciprocal of 0 is any number, but always the same."""
    if len(value) == 1 and not (value[0].factors or value[0].variables or value[0].conditions):
        return number(1 / value[0].coefficient)
    return call(use.reasoner, "Reciprocal", value)


def integer(value: Index) -> Sum:
    """An integer as a number."""
    return number(value) if isinstance(value, int) else read("integer", value)


def parameter(value: Any) -> Sum:
    """An attribute that is a number; one that is not known stands for any."""
    return number(value) if isinstance(value, int | float) else read("parameter", value)


@denotes("Transpose")
def _transpose(use: Use) -> Symbolic:
    (x,) = use.inputs
    perm = use["perm"]
    use.require(z3.BoolVal(sorted(perm) == list(range(len(x.shape)))))

    def at(indices: Indices) -> Sum:
        return x.at(tuple(indices[perm.index(axis)] for axis in range(len(perm))))

    return Symbolic(tuple(x.shape[axis] for axis in perm), at)


@denotes("Concat")
def _concat(use: Use) -> Symbolic:
    axis = use["axis"]
    return reduce(lambda left, right: _two(use, left, right, axis), use.inputs)


def _two(use: Use, left: Symbolic, right: Symbolic, axis: int) -> Symbolic:
    first = left.shape[axis]
    use.require_same(_but(left.shape, axis), _but(right.shape, axis))

    def at(indices: Indices) -> Sum:
        index = indices[axis]
        return pick(
            use.reasoner,
            index < first,
            lambda: left.at(indices),
            lambda: right.at(with_index(indices, axis, index - first)),
        )

    return Symbolic(with_index(left.shape, axis, first + right.shape[axis]), at)


def _but(shape: Sequence[Index], axis: int) -> Sequence[Index]:
    return (*shape[:axis], *shape[axis + 1 :])


def with_index(indices: Sequence[Index], axis: int, index: Index) -> Indices:
    """Indices of which one is another."""
    return (*indices[:axis], index, *indices[axis + 1 :])


@denotes("Slice")
def _slice(use: Use) -> Symbolic:
    (x,) = use.inputs
    axis, start, stop = use["axis"], use["start"], use["stop"]
    for condition in (0 <= start, start <= stop, stop <= x.shape[axis]):
        use.require(as_formula(condition))

    def at(indices: Indices) -> Sum:
        return x.at(with_index(indices, axis, indices[axis] + start))

    return Symbolic(with_index(x.shape, axis, stop - start), at)


@denotes("Pad")
def _pad(use: Use) -> Symbolic:
    (x,) = use.inputs
    assert use["mode"] == "constant"
    rank = len(x.shape)
    before, after = use["pads"][:rank], use["pads"][rank:]
    use.require(z3.BoolVal(len(after) == rank))

    def at(indices: Indices) -> Sum:
        moved = tuple(i - b for i, b in zip(indices, before, strict=True))
        pairs = zip(moved, x.shape, strict=True)
        conditions = holding(use.reasoner, [c for pair in pairs for c in inside(*pair)])
        with use.reasoner.assuming(conditions):
            return where(conditions, x.at(moved))

    extents = zip(before, x.shape, after, strict=True)
    return Symbolic(tuple(b + n + a for b, n, a in extents), at)


@denotes("Reshape")
def _reshape(use: Use) -> Symbolic:
    (x,) = use.inputs
    shape = tuple(use["shape"])
    use.require_same([prod(x.shape)], [prod(shape)])
    found = blocks(use.reasoner, x.shape, shape)

    def at(indices: Indices) -> Sum:
        places: list[Index] = []
        i = j = 0
        for old, new in found:
            outer, inner = shape[j : j + new], x.shape[i : i + old]
            part = indices[j : j + new]
            same = old == new == 1
            places += part if same else unnumbered(use.reasoner, numbered(part, outer), inner)
            i, j = i + old, j + new
        return x.at(tuple(places))

    return Symbolic(shape, at)


@denotes("MatMul")
def _matmul(use: Use) -> Symbolic:
    a, b = use.inputs
    use.require(z3.BoolVal(len(a.shape) >= 2 and len(b.shape) >= 2))
    use.require_same(a.shape[-1:], b.shape[-2:-1])
    batch = broadcast(use, [a.shape[:-2], b.shape[:-2]])

    def at(indices: Indices) -> Sum:
        *outer, row, column = indices
        left = aligned(use, a.shape[:-2], batch, tuple(outer))
        right = aligned(use, b.shape[:-2], batch, tuple(outer))

        def body(inner: Indices) -> Sum:
            value = a.at((*left, row, *inner))
            return times(use.reasoner, value, b.at((*right, *inner, column)))

        return total(use.reasoner, a.shape[-1:], body)

    rows, columns = a.shape[-2:-1], b.shape[-1:]
    return Symbolic((*batch, *rows, *columns), at)


def transposed(x: Symbolic) -> Symbolic:
    """The transpose of a matrix."""
    return Symbolic(x.shape[::-1], lambda indices: x.at(indices[::-1]))


@denotes("Gemm")
def _gemm(use: Use) -> Symbolic:
    flags = use["transA"], use["transB"]
    matrices = zip(use.inputs[:2], flags, strict=True)
    a, b = (transposed(x) if flag else x for x, flag in matrices)
    result = DENOTATIONS["MatMul"](replace(use, inputs=(a, b)))
    alpha, beta = parameter(use["alpha"]), parameter(use["beta"])
    bias = use.inputs[2] if len(use.inputs) > 2 else None
    if bias is not None:
        use.require_same(broadcast(use, [result.shape, bias.shape]), result.shape)

    def at(indices: Indices) -> Sum:
        value = times(use.reasoner, alpha, result.at(indices))
        if bias is None:
            return value
        added = bias.at(aligned(use, bias.shape, result.shape, indices))
        return value + times(use.reasoner, beta, added)

    return Symbolic(result.shape, at)


@denotes("Conv")
def _conv(use: Use) -> Symbolic:
    x, weight, *biases = use.inputs
    group, kernel = use["group"], weight.shape[2:]
    use.require(z3.BoolVal(len(x.shape) == len(weight.shape)))
    each = _outputs_of_group(use, weight.shape[0], group)
    use.require_same([weight.shape[1] * group], [x.shape[1]])
    for bias in biases:
        use.require_same(bias.shape, weight.shape[:1])
    counts = windows(use, kernel)

    def at(indices: Indices) -> Sum:
        image, channel, *place = indices
        first = 0 if use.reasoner.same(group, 1) else divided(channel, each) * weight.shape[1]

        def body(inner: Indices) -> Sum:
            positions, conditions = window_positions(use, tuple(place), inner[1:])
            with use.reasoner.assuming(conditions):
                value = x.at((image, first + inner[0], *positions))
                both = times(use.reasoner, value, weight.at((channel, *inner)))
            return where(conditions, both)

        value = total(use.reasoner, weight.shape[1:], body)
        return value + tuple(term for bias in biases for term in bias.at((channel,)))

    return Symbolic((x.shape[0], weight.shape[0], *counts), at)


def _outputs_of_group(use: Use, outputs: Index, group: Index) -> Index:
    """The output channels of each group; they must divide."""
    if use.reasoner.same(group, 1):
        return outputs
    use.require(as_formula(group >= 1))
    return use.divide_exactly(outputs, group)
