"""GEMMs with a bias, and scales and shifts folded into the weights of a GEMM or MatMul."""

from typing import Any

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Computed,
    Fill,
    Pattern,
    Tensor,
    Unknown,
    add,
    concat,
    cut,
    extent,
    gemm,
    halves,
    matmul,
    mul,
    reshape,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.extents import axis_of, broadcasts_to, same_but

x, y = tensors("x y")
w, v = tensors("w v", rank=2, constant=True)
b, c = tensors("b c", rank=1, constant=True)
s = Tensor("s", constant=True)
transposed = Unknown("transposed")
start, stop = Unknown("start"), Unknown("stop")

BOTH_ORDERS = tuple(Case(unknowns={"transposed": n}) for n in (0, 1))
"""Weights as they are multiplied, and transposed."""
SCALARS = tuple(Case(ranks={"x": n, "w": 2, "s": rank}) for n in (2, 3) for rank in (0, 1))
VECTORS = tuple(Case(ranks={"x": n, "w": 2, "s": 1}) for n in (2, 3))


def _gemm(left: Pattern, right: Pattern, bias: Pattern) -> Apply:
    return gemm(left, right, bias, transposed)


def _columns(bindings: Bindings) -> int:
    """The axis of the weights along which the columns of the result are."""
    return 1 - bindings.value(transposed)


def _inner(bindings: Bindings) -> int:
    """The axis of the weights over which a GEMM sums."""
    return bindings.value(transposed)


def _width(weight: Tensor) -> Computed:
    """The columns of the result."""
    return lambda m: m.shape(weight)[_columns(m)]


def _width_of_v(bindings: Bindings) -> tuple[Any]:
    return (bindings.shape(v)[1],)


def _is_row(bindings: Bindings, bias: Tensor, weight: Tensor) -> Condition:
    """The condition that a bias has one number for each column."""
    return bindings.shape(bias)[0] == _width(weight)(bindings)


def _over_columns(bindings: Bindings) -> tuple[Any, ...]:
    """The shape in which a vector scales the columns of the result in the weights."""
    size = _width(w)(bindings)
    return (size, 1) if bindings.value(transposed) else (1, size)


def _over_inner(bindings: Bindings) -> tuple[Any, ...]:
    """The shape in which a vector scales the rows that a GEMM sums in the weights."""
    size = bindings.shape(w)[_inner(bindings)]
    return (1, size) if bindings.value(transposed) else (size, 1)


def _matrices(bindings: Bindings) -> list[Condition]:
    return [len(bindings.shape(x)) >= 2, len(bindings.shape(y)) >= 2]


MERGE_SIBLINGS = Rule(
    name="merge-sibling-gemms",
    source=(_gemm(x, w, b), _gemm(x, v, c)),
    target=halves(
        _gemm(x, concat(w, v, axis=_columns), concat(b, c, axis=0)), 1, _width(w), _width(v)
    ),
    guard=lambda m: (_is_row(m, b, w), _is_row(m, c, v)),
    symmetric=True,
    cases=BOTH_ORDERS,
)
"""GEMMs of one tensor are one with all columns."""

MERGE_PROJECTIONS = Rule(
    name="merge-sibling-projections",
    source=(add(matmul(x, w), b), add(matmul(x, v), c)),
    target=halves(
        add(matmul(x, concat(w, v, axis=1)), concat(b, c, axis=0)),
        axis_of(x, 1),
        extent(w, 1),
        extent(v, 1),
    ),
    guard=lambda m: (
        len(m.shape(x)) >= 2,
        m.shape(b)[0] == m.shape(w)[1],
        m.shape(c)[0] == m.shape(v)[1],
    ),
    symmetric=True,
    cases=tuple(Case(ranks={"x": n, "w": 2, "v": 2, "b": 1, "c": 1}) for n in (2, 3)),
)
"""MatMuls of one tensor with their biases are one (Q, K and V of BERT)."""

NARROW = Rule(
    name="narrow-gemm",
    source=(cut(_gemm(x, w, b), 1, start, stop),),
    target=(_gemm(x, cut(w, _columns, start, stop), cut(b, 0, start, stop)),),
    guard=lambda m: (_is_row(m, b, w),),
    cases=BOTH_ORDERS,
)
"""A part of the columns of a GEMM is one with that part of the weights."""

MERGE_ROWS = Rule(
    name="merge-rows-of-gemms",
    source=(_gemm(x, w, b), _gemm(y, w, b)),
    target=halves(_gemm(concat(x, y, axis=0), w, b), 0, extent(x, 0), extent(y, 0)),
    symmetric=True,
    cases=BOTH_ORDERS,
)
"""GEMMs with the same weights are one of more rows (time steps whose inputs are known)."""

MERGE_SUMMED = Rule(
    name="merge-summed-gemms",
    source=(add(_gemm(x, w, b), _gemm(y, v, c)),),
    target=(_gemm(concat(x, y, axis=1), concat(w, v, axis=_inner), add(b, c)),),
    guard=lambda m: [
        *same_but(m.shape(x), m.shape(y), 1),
        *same_but(m.shape(w), m.shape(v), _inner(m)),
    ],
    cases=BOTH_ORDERS,
)
"""The sum of GEMMs is one of longer rows (the input and state of a recurrent layer)."""

SPLIT_ROWS = Rule(
    name="split-gemm-of-concat",
    source=(_gemm(concat(x, y, axis=1), w, b),),
    target=(
        add(
            _gemm(x, cut(w, _inner, 0, extent(x, 1)), b),
            _gemm(
                y,
                cut(w, _inner, extent(x, 1), lambda m: m.shape(w)[_inner(m)]),
                Fill(0.0, lambda m: (_width(w)(m),), w),
            ),
        ),
    ),
    cases=BOTH_ORDERS,
)
"""A GEMM of a Concat starts on the part that is ready first."""

SUM_SIBLINGS = Rule(
    name="sum-sibling-gemms",
    source=(add(_gemm(x, w, b), _gemm(x, v, c)),),
    target=(_gemm(x, add(w, v), add(b, c)),),
    guard=lambda m: equal(m.shape(w), m.shape(v)),
    cases=BOTH_ORDERS,
)
"""The sum of GEMMs of one tensor is one with the sum of the weights."""

TRANSPOSE_WEIGHTS = Rule(
    name="transpose-weights-of-gemm",
    source=(gemm(x, w, b, 1),),
    target=(gemm(x, transpose(w, (1, 0)), b, 0),),
    searched=False,
)
"""A GEMM with transposed weights is one with the transpose of the weights."""

WITHOUT_BIAS = Rule(
    name="matmul-of-gemm",
    source=(gemm(x, w, b, 0),),
    target=(add(matmul(x, w), b),),
    searched=False,
)
"""A GEMM with a bias is a MatMul and an Add."""

WITH_BIAS = Rule(
    name="gemm-of-matmul",
    source=(add(matmul(x, w), b),),
    target=(gemm(x, w, b, 0),),
    guard=lambda m: [len(m.shape(x)) == 2, m.shape(b)[0] == m.shape(w)[1]],
)
"""A MatMul and an Add of a bias are a GEMM."""

COMPOSE = Rule(
    name="compose-gemms",
    source=(gemm(gemm(x, w, b, 0), v, c, 0),),
    target=(
        gemm(
            x,
            matmul(w, v),
            add(reshape(matmul(reshape(b, lambda m: (1, m.shape(b)[0])), v), _width_of_v), c),
            0,
        ),
    ),
    guard=lambda m: (m.shape(b)[0] == m.shape(w)[1],),
)
"""A GEMM of a GEMM is one, which has fewer operations if the first widens."""

SCALE_RESULT = Rule(
    name="fold-scale-after-matmul",
    source=(mul(matmul(x, w), s),),
    target=(matmul(x, mul(w, s)),),
    guard=lambda m: [*equal(m.shape(s), m.shape(w)[1:]), len(m.shape(x)) >= 2],
    cases=VECTORS,
)
"""A scale for each column after a MatMul is in its weights."""

SCALE_ALL = Rule(
    name="fold-number-after-matmul",
    source=(mul(matmul(x, w), s),),
    target=(matmul(x, mul(w, s)),),
    guard=lambda m: [
        *broadcasts_to(m.shape(s), m.shape(w)),
        len(m.shape(s)) <= len(m.shape(x)),
        len(m.shape(x)) >= 2,
    ],
    cases=SCALARS,
)
"""A number that scales a MatMul is in its weights."""

SCALE_ROWS = Rule(
    name="fold-scale-before-matmul",
    source=(matmul(mul(x, s), w),),
    target=(matmul(x, mul(reshape(s, lambda m: (m.shape(w)[0], 1)), w)),),
    guard=lambda m: [
        *equal(m.shape(s), m.shape(w)[:1]),
        *equal(m.shape(x)[-1:], m.shape(w)[:1]),
        len(m.shape(x)) >= 2,
    ],
    cases=VECTORS,
)
"""A scale for each column of a tensor is in the weights of a MatMul that reads it."""

SCALE_INPUT = Rule(
    name="fold-number-before-matmul",
    source=(matmul(mul(x, s), w),),
    target=(matmul(x, mul(w, s)),),
    guard=lambda m: [
        *broadcasts_to(m.shape(s), m.shape(w)),
        len(m.shape(s)) <= len(m.shape(x)),
        len(m.shape(x)) >= 2,
    ],
    cases=SCALARS,
)
"""A number that scales a tensor is in the weights of a MatMul that reads it."""

SCALE_GEMM = Rule(
    name="fold-scale-after-gemm",
    source=(mul(_gemm(x, w, b), s),),
    target=(_gemm(x, mul(w, reshape(s, _over_columns)), mul(b, s)),),
    guard=lambda m: [_is_row(m, b, w), *equal(m.shape(s), m.shape(b))],
    cases=tuple(Case(ranks={"s": 1}, unknowns=case.unknowns) for case in BOTH_ORDERS),
)
"""A scale for each column after a GEMM is in its weights and bias."""

SHIFT_GEMM = Rule(
    name="fold-shift-after-gemm",
    source=(add(_gemm(x, w, b), c),),
    target=(_gemm(x, w, add(b, c)),),
    guard=lambda m: [_is_row(m, b, w), _is_row(m, c, w)],
    cases=BOTH_ORDERS,
)
"""A row added to a GEMM is in its bias."""

SCALE_GEMM_INPUT = Rule(
    name="fold-scale-before-gemm",
    source=(_gemm(mul(x, s), w, b),),
    target=(_gemm(x, mul(w, reshape(s, _over_inner)), b),),
    guard=lambda m: [
        len(m.shape(x)) == 2,
        *equal(m.shape(s), m.shape(x)[1:]),
        m.shape(w)[_inner(m)] == m.shape(x)[1],
    ],
    cases=tuple(Case(ranks={"s": 1}, unknowns=case.unknowns) for case in BOTH_ORDERS),
)
"""A scale for each column of a tensor is in the weights of a GEMM that reads it."""

SCALE_LEFT = Rule(
    name="move-number-before-matmul",
    source=(mul(matmul(x, y), s),),
    target=(matmul(mul(x, s), y),),
    guard=lambda m: [*broadcasts_to(m.shape(s), m.shape(x)), *_matrices(m)],
    cases=(
        *(Case(rank=n, ranks={"s": rank}) for n in (2, 3, 4) for rank in (0, 1)),
        Case(ranks={"x": 2, "y": 3, "s": 0}),
    ),
)
"""A number that scales a MatMul scales its left operand, which may be smaller."""

SCALE_RIGHT = Rule(
    name="move-number-to-right-of-matmul",
    source=(mul(matmul(x, y), s),),
    target=(matmul(x, mul(y, s)),),
    guard=lambda m: [*broadcasts_to(m.shape(s), m.shape(y)), *_matrices(m)],
    cases=(
        *(Case(rank=n, ranks={"s": rank}) for n in (2, 3, 4) for rank in (0, 1)),
        Case(ranks={"x": 3, "y": 2, "s": 0}),
    ),
)
"""A number that scales a MatMul scales its right operand, which may be smaller."""

SCALE_AFTER = SCALE_LEFT.reversed("move-number-after-matmul")
"""A number that scales the left operand of a MatMul scales the result."""

LINEAR_LAYERS = (
    MERGE_SIBLINGS,
    MERGE_PROJECTIONS,
    NARROW,
    MERGE_ROWS,
    MERGE_SUMMED,
    SPLIT_ROWS,
    SUM_SIBLINGS,
    TRANSPOSE_WEIGHTS,
    WITHOUT_BIAS,
    WITH_BIAS,
    COMPOSE,
    SCALE_RESULT,
    SCALE_ALL,
    SCALE_ROWS,
    SCALE_INPUT,
    SCALE_GEMM,
    SHIFT_GEMM,
    SCALE_GEMM_INPUT,
    SCALE_LEFT,
    SCALE_RIGHT,
    SCALE_AFTER,
)
