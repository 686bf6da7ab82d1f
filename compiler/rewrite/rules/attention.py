"""Projections of attention: their scale in the weights, heads as batches, and transposed ones."""

from typing import Any

from compiler.rewrite.patterns import (
    Bindings,
    Pattern,
    Tensor,
    Unknown,
    add,
    matmul,
    mul,
    reshape,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.extents import all_are

x = Tensor("x")
(w,) = tensors("w", rank=2, constant=True)
(b,) = tensors("b", rank=1, constant=True)
s = Tensor("s", constant=True)
perm, shape = Unknown("perm"), Unknown("shape")

HEADS_FIRST = (0, 2, 1, 3)
TRANSPOSED_HEADS = (0, 2, 3, 1)


def _project(x: Pattern) -> Pattern:
    return add(matmul(x, w), b)


SCALE = Rule(
    name="fold-number-after-projection",
    source=(mul(add(matmul(x, w), b), s),),
    target=(add(matmul(x, mul(w, s)), mul(b, s)),),
    guard=lambda m: [
        len(m.shape(x)) >= 2,
        # a number of more axes would give the bias more axes
        len(m.shape(s)) <= 1,
        *all_are(1, m.shape(s)),
    ],
    cases=tuple(Case(ranks={"x": n, "w": 2, "b": 1, "s": rank}) for n in (2, 3) for rank in (0, 1)),
)
"""The scale of Q K^T, once before the scores, is in the weights and bias of Q or K."""

TRANSPOSED = Rule(
    name="transposed-projection",
    source=(transpose(matmul(x, w), perm),),
    target=(matmul(transpose(w, (1, 0)), transpose(x, perm)),),
    guard=lambda m: (
        len(m.shape(x)) > 2,
        tuple(m.value(perm)) == _swapped(len(m.shape(x))),
    ),
    cases=tuple(
        Case(ranks={"x": n, "w": 2}, unknowns={"perm": (*range(n - 2), n - 1, n - 2)})
        for n in (3, 4)
    ),
)
"""(x W)^T = W^T x^T: K^T without its transpose, if x^T exists already."""


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _splits_heads(bindings: Bindings, order: tuple[int, ...]) -> list[Condition]:
    """The conditions that a Reshape splits the columns of a projection into heads."""
    if len(bindings.shape(x)) != 3 or len(bindings.value(shape)) != 4:
        return [False]
    return [
        tuple(bindings.value(perm)) == order,
        *equal(bindings.shape(x)[:2], bindings.value(shape)[:2]),
    ]


def _with_bias(bindings: Bindings, order: tuple[int, ...]) -> list[Condition]:
    same = bindings.shape(b)[0] == bindings.shape(w)[1]
    return [same, *_splits_heads(bindings, order)]


def _row_batches(bindings: Bindings) -> tuple[Any, ...]:
    """The shape of a batch of sequences that all heads read."""
    images, *matrix = bindings.shape(x)
    return (images, 1, *matrix)


def _head_weights(bindings: Bindings) -> tuple[Any, ...]:
    _, _, heads, size = bindings.value(shape)
    return (bindings.shape(w)[0], heads, size)


def _column_batches(bindings: Bindings) -> tuple[Any, ...]:
    images, rows, width = bindings.shape(x)
    return (images, 1, width, rows)


def _head_rows(bindings: Bindings) -> tuple[Any, ...]:
    _, _, heads, size = bindings.value(shape)
    return (heads, 1, size)


def _head_columns(bindings: Bindings) -> tuple[Any, ...]:
    _, _, heads, size = bindings.value(shape)
    return (heads, size, 1)


_CASES = {
    order: (Case(ranks={"x": 3, "w": 2, "b": 1}, unknowns={"perm": order}, numbers={"shape": 4}),)
    for order in (HEADS_FIRST, TRANSPOSED_HEADS)
}
_HEADS = matmul(reshape(x, _row_batches), transpose(reshape(w, _head_weights), (1, 0, 2)))
_COLUMNS = matmul(
    transpose(reshape(w, _head_weights), (1, 2, 0)),
    reshape(transpose(x, (0, 2, 1)), _column_batches),
)

HEADS = Rule(
    name="heads-of-projection",
    source=(transpose(reshape(matmul(x, w), shape), perm),),
    target=(_HEADS,),
    guard=lambda m: _splits_heads(m, HEADS_FIRST),
    cases=_CASES[HEADS_FIRST],
)
"""The heads of Q, K or V are a batch of MatMuls, without a Transpose of the results."""

BIASED_HEADS = Rule(
    name="heads-of-biased-projection",
    source=(transpose(reshape(_project(x), shape), perm),),
    target=(add(_HEADS, reshape(b, _head_rows)),),
    guard=lambda m: _with_bias(m, HEADS_FIRST),
    cases=_CASES[HEADS_FIRST],
)
"""The heads of a projection with a bias are a batch of MatMuls and an Add."""

COLUMNS = Rule(
    name="transposed-heads-of-projection",
    source=(transpose(reshape(matmul(x, w), shape), perm),),
    target=(_COLUMNS,),
    guard=lambda m: _splits_heads(m, TRANSPOSED_HEADS),
    cases=_CASES[TRANSPOSED_HEADS],
)
"""The transposed heads of K are a batch of MatMuls of the transposed weights."""

BIASED_COLUMNS = Rule(
    name="transposed-heads-of-biased-projection",
    source=(transpose(reshape(_project(x), shape), perm),),
    target=(add(_COLUMNS, reshape(b, _head_columns)),),
    guard=lambda m: _with_bias(m, TRANSPOSED_HEADS),
    cases=_CASES[TRANSPOSED_HEADS],
)
"""The transposed heads of a projection with a bias are a batch of MatMuls and an Add."""

ATTENTION = (SCALE, TRANSPOSED, HEADS, BIASED_HEADS, COLUMNS, BIASED_COLUMNS)
