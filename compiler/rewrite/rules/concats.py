"""Concat and Slice: exchanged along two axes, and the binary forms of what terms simplify."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from compiler.rewrite.patterns import (
    Bindings,
    Unknown,
    concat,
    cut,
    reshape,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.elementwise import AXES
from compiler.rewrite.rules.extents import same_but

x, y, z, u = tensors("x y z u")
axis, other = Unknown("axis"), Unknown("other axis")
start, stop, first, last = (Unknown(name) for name in ("start", "stop", "first", "last"))
perm, second = Unknown("perm"), Unknown("second perm")
shape, middle = Unknown("shape"), Unknown("middle shape")

PAIRS = tuple(
    Case(rank=n, unknowns={"axis": i, "other axis": j})
    for n in (2, 3, 4)
    for i, j in permutations(range(n), 2)
)
"""Every two axes of tensors of up to four."""


def _differ(bindings: Bindings) -> bool:
    return bindings.value(axis) != bindings.value(other)


def _grid(bindings: Bindings) -> Sequence[Condition]:
    """The conditions that four tensors are the quarters of one."""
    b = bindings.value(other)
    return [
        _differ(bindings),
        *same_but(bindings.shape(x), bindings.shape(z), b),
        *same_but(bindings.shape(y), bindings.shape(u), b),
    ]


EXCHANGE = Rule(
    name="exchange-concats",
    source=(concat(concat(x, y, axis=axis), concat(z, u, axis=axis), axis=other),),
    target=(concat(concat(x, z, axis=other), concat(y, u, axis=other), axis=axis),),
    guard=_grid,
    cases=PAIRS,
)
"""A Concat of rows of quarters is one of columns of quarters."""

ASSOCIATE = Rule(
    name="concat-of-concat",
    source=(concat(concat(x, y, axis=axis), z, axis=axis),),
    target=(concat(x, concat(y, z, axis=axis), axis=axis),),
    cases=AXES,
    searched=False,
)
"""Concats along one axis are one Concat."""

WHOLE = Rule(
    name="slice-of-all",
    source=(cut(x, axis, 0, stop),),
    target=(x,),
    guard=lambda m: (m.value(stop) == _past(m),),
    cases=AXES,
    searched=False,
)
"""A slice of all elements is the tensor."""

NESTED = Rule(
    name="slice-of-slice",
    source=(cut(cut(x, axis, start, stop), axis, first, last),),
    target=(
        cut(
            x,
            axis,
            lambda m: m.value(start) + m.value(first),
            lambda m: m.value(start) + m.value(last),
        ),
    ),
    cases=AXES,
    searched=False,
)
"""A slice of a slice is one slice."""

ADJACENT = Rule(
    name="concat-of-adjacent-slices",
    source=(concat(cut(x, axis, start, stop), cut(x, axis, stop, last), axis=axis),),
    target=(cut(x, axis, start, last),),
    cases=AXES,
    searched=False,
)
"""Adjacent slices one after the other are one slice."""


def _past(bindings: Bindings) -> Any:
    """Where the second part of a Concat begins."""
    along: int = bindings.value(axis)
    return bindings.shape(x)[along]


LEFT_PART = Rule(
    name="slice-of-left-of-concat",
    source=(cut(concat(x, y, axis=axis), axis, start, stop),),
    target=(cut(x, axis, start, stop),),
    guard=lambda m: (m.value(stop) <= _past(m),),
    cases=AXES,
    searched=False,
)
"""A slice of a Concat is one of the first part, if it ends there."""

RIGHT_PART = Rule(
    name="slice-of-right-of-concat",
    source=(cut(concat(x, y, axis=axis), axis, start, stop),),
    target=(cut(y, axis, lambda m: m.value(start) - _past(m), lambda m: m.value(stop) - _past(m)),),
    guard=lambda m: (m.value(start) >= _past(m),),
    cases=AXES,
    searched=False,
)
"""A slice of a Concat is one of the second part, if it starts there."""

BOTH_PARTS = Rule(
    name="slice-of-concat",
    source=(cut(concat(x, y, axis=axis), axis, start, stop),),
    target=(
        concat(
            cut(x, axis, start, _past), cut(y, axis, 0, lambda m: m.value(stop) - _past(m)), axis
        ),
    ),
    guard=lambda m: (m.value(start) < _past(m), m.value(stop) > _past(m)),
    cases=AXES,
    searched=False,
)
"""A slice of a Concat is a Concat of slices of both parts."""

SLICE_EACH = Rule(
    name="slice-each-part-of-concat",
    source=(cut(concat(x, y, axis=axis), other, start, stop),),
    target=(concat(cut(x, other, start, stop), cut(y, other, start, stop), axis=axis),),
    guard=lambda m: (_differ(m),),
    cases=PAIRS,
)
"""A slice of a Concat along another axis is a Concat of slices."""


def _differ_along_axis(bindings: Bindings) -> Sequence[Condition]:
    shapes = bindings.shape(x), bindings.shape(y)
    return [_differ(bindings), *same_but(*shapes, bindings.value(axis))]


CONCAT_SLICES = SLICE_EACH.reversed("concat-of-equal-slices", guard=_differ_along_axis)
"""A Concat of equal slices is one slice of a Concat."""

EXCHANGE_SLICES = Rule(
    name="exchange-slices",
    source=(cut(cut(x, axis, start, stop), other, first, last),),
    target=(cut(cut(x, other, first, last), axis, start, stop),),
    guard=lambda m: (_differ(m),),
    cases=PAIRS,
    searched=False,
)
"""Slices along two axes may change places."""

PERMS = tuple(
    Case(rank=n, unknowns={"perm": p, "second perm": q})
    for n in (2, 3)
    for p in permutations(range(n))
    for q in permutations(range(n))
)

COMPOSE_TRANSPOSES = Rule(
    name="transpose-of-transpose",
    source=(transpose(transpose(x, perm), second),),
    target=(transpose(x, lambda m: tuple(m.value(perm)[i] for i in m.value(second))),),
    cases=PERMS,
    searched=False,
)
"""Two Transposes are one."""

NO_TRANSPOSE = Rule(
    name="transpose-in-order",
    source=(transpose(x, perm),),
    target=(x,),
    guard=lambda m: equal(m.value(perm), range(len(m.value(perm)))),
    cases=tuple(Case(rank=n, unknowns={"perm": tuple(range(n))}) for n in (1, 2, 3, 4)),
    searched=False,
)
"""A Transpose that keeps the order is its tensor."""

COMPOSE_RESHAPES = Rule(
    name="reshape-of-reshape",
    source=(reshape(reshape(x, middle), shape),),
    target=(reshape(x, shape),),
    cases=tuple(
        Case(rank=n, numbers={"middle shape": m, "shape": k})
        for n, m, k in ((2, 1, 2), (1, 2, 1), (2, 3, 2))
    ),
    searched=False,
)
"""Two Reshapes are one."""

NO_RESHAPE = Rule(
    name="reshape-to-same",
    source=(reshape(x, shape),),
    target=(x,),
    guard=lambda m: equal(m.value(shape), m.shape(x)),
    cases=tuple(Case(rank=n, numbers={"shape": n}) for n in (1, 2, 3)),
    searched=False,
)
"""A Reshape that keeps the shape is its tensor."""

CONCATS = (
    EXCHANGE,
    ASSOCIATE,
    WHOLE,
    NESTED,
    ADJACENT,
    LEFT_PART,
    RIGHT_PART,
    BOTH_PARTS,
    SLICE_EACH,
    CONCAT_SLICES,
    EXCHANGE_SLICES,
    COMPOSE_TRANSPOSES,
    NO_TRANSPOSE,
    COMPOSE_RESHAPES,
    NO_RESHAPE,
)
