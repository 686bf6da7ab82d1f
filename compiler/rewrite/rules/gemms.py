"""Merging, splitting and reordering of matrix multiplications."""

from compiler.rewrite.patterns import (
    Bindings,
    Pattern,
    Tensor,
    Unknown,
    add,
    concat,
    cut,
    extent,
    halves,
    matmul,
    reshape,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.extents import axis_of, same_but

x, y, z, u = tensors("x y z u")
w, v = tensors("w v", rank=2, constant=True)
axis, perm = Unknown("axis"), Unknown("perm")
start, stop = Unknown("start"), Unknown("stop")
rows, last, columns = axis_of(x, 2), axis_of(x, 1), axis_of(y, 1)

BATCHED = tuple(Case(ranks={"x": n, "y": n, "z": n, "u": n, "w": 2, "v": 2}) for n in (2, 3, 4))
"""Matrices and batches of them."""


def _along_last(bindings: Bindings) -> list[Condition]:
    return [bindings.value(axis) == len(bindings.shape(x)) - 1]


MERGE_SIBLINGS = Rule(
    name="merge-sibling-matmuls",
    source=(matmul(x, w), matmul(x, v)),
    target=halves(matmul(x, concat(w, v, axis=1)), last, extent(w, 1), extent(v, 1)),
    guard=lambda m: (len(m.shape(x)) >= 2,),
    symmetric=True,
    cases=BATCHED,
)
"""MatMuls of one tensor are one with all columns (Q, K and V; gates of a recurrent layer)."""

NARROW = Rule(
    name="narrow-matmul",
    source=(cut(matmul(x, w), axis, start, stop),),
    target=(matmul(x, cut(w, 1, start, stop)),),
    guard=_along_last,
    cases=tuple(Case(ranks={"x": n}, unknowns={"axis": n - 1}) for n in (2, 3, 4)),
)
"""A part of the columns of a MatMul is a MatMul with that part of the weights."""

MERGE_ROWS = Rule(
    name="merge-rows-of-matmuls",
    source=(matmul(x, w), matmul(y, w)),
    target=halves(matmul(concat(x, y, axis=rows), w), rows, extent(x, -2), extent(y, -2)),
    guard=lambda m: same_but(m.shape(x), m.shape(y), -2),
    symmetric=True,
    cases=BATCHED,
)
"""MatMuls with the same weights are one of more rows (time steps whose inputs are known)."""

MERGE_SUMMED = Rule(
    name="merge-summed-matmuls",
    source=(add(matmul(x, w), matmul(y, v)),),
    target=(matmul(concat(x, y, axis=last), concat(w, v, axis=0)),),
    guard=lambda m: [
        len(m.shape(x)) >= 2,
        *same_but(m.shape(x), m.shape(y), -1),
        m.shape(w)[1] == m.shape(v)[1],
    ],
    cases=BATCHED,
)
"""The sum of MatMuls is one of longer rows (the input and state of a recurrent layer)."""

SPLIT_ROWS = Rule(
    name="split-matmul-of-concat",
    source=(matmul(concat(x, y, axis=axis), w),),
    target=(
        add(
            matmul(x, cut(w, 0, 0, extent(x, -1))),
            matmul(y, cut(w, 0, extent(x, -1), extent(w, 0))),
        ),
    ),
    guard=lambda m: [len(m.shape(x)) >= 2, *_along_last(m)],
    cases=tuple(Case(ranks={"x": n, "y": n}, unknowns={"axis": n - 1}) for n in (2, 3, 4)),
)
"""A MatMul of a Concat starts on the part that is ready first."""

SUM_SIBLINGS = Rule(
    name="sum-sibling-matmuls",
    source=(add(matmul(x, y), matmul(x, z)),),
    target=(matmul(x, add(y, z)),),
    guard=lambda m: [_matrices(m, x, y, z), *equal(m.shape(y), m.shape(z))],
    cases=(*BATCHED, Case(ranks={"x": 3, "y": 2, "z": 2})),
)
"""The sum of MatMuls of one tensor is one with the sum of the others (of weights: for free)."""

SUM_ROWS = Rule(
    name="sum-rows-of-matmuls",
    source=(add(matmul(x, z), matmul(y, z)),),
    target=(matmul(add(x, y), z),),
    guard=lambda m: [_matrices(m, x, y, z), *equal(m.shape(x), m.shape(y))],
    cases=(*BATCHED, Case(ranks={"x": 3, "y": 3, "z": 2})),
)
"""The sum of MatMuls with the same weights is one of the sum."""

DISTRIBUTE_LEFT = SUM_ROWS.reversed("distribute-matmul-over-left-add", searched=False)
"""A MatMul of a sum need not wait for the sum."""

DISTRIBUTE_RIGHT = SUM_SIBLINGS.reversed("distribute-matmul-over-right-add", searched=False)
"""A MatMul with a sum need not wait for the sum."""


def _matrices(bindings: Bindings, *tensors: Tensor) -> bool:
    """Whether tensors are matrices or batches of them: vectors multiply in other ways."""
    return all(len(bindings.shape(tensor)) >= 2 for tensor in tensors)


ASSOCIATE = Rule(
    name="associate-matmuls-to-the-right",
    source=(matmul(matmul(x, y), z),),
    target=(matmul(x, matmul(y, z)),),
    guard=lambda m: (_matrices(m, x, y, z),),
    cases=(*BATCHED, Case(ranks={"x": 3, "y": 2, "z": 2}), Case(ranks={"x": 3, "y": 3, "z": 2})),
)
"""(x y) z = x (y z): the cheaper order first, or two weights as one."""

ASSOCIATE_LEFT = ASSOCIATE.reversed("associate-matmuls-to-the-left")
"""x (y z) = (x y) z: the cheaper order first."""

CONCAT_COLUMNS = Rule(
    name="concat-of-sibling-matmuls",
    source=(concat(matmul(x, y), matmul(x, z), axis=axis),),
    target=(matmul(x, concat(y, z, axis=columns)),),
    guard=lambda m: [
        _matrices(m, x, y, z),
        m.value(axis) == max(len(m.shape(x)), len(m.shape(y))) - 1,
        *same_but(m.shape(y), m.shape(z), -1),
    ],
    cases=(
        *(Case(rank=n, unknowns={"axis": n - 1}) for n in (2, 3)),
        Case(ranks={"x": 3, "y": 2, "z": 2}, unknowns={"axis": 2}),
    ),
)
"""The Concat of MatMuls of one tensor is one with all columns."""

SPLIT_COLUMNS = Rule(
    name="split-columns-of-matmul",
    source=(matmul(x, concat(y, z, axis=axis)),),
    target=(concat(matmul(x, y), matmul(x, z), axis=columns),),
    guard=lambda m: [
        len(m.shape(x)) == len(m.shape(y)),
        _matrices(m, x, y, z),
        m.value(axis) == len(m.shape(y)) - 1,
        *same_but(m.shape(y), m.shape(z), -1),
    ],
    cases=tuple(Case(rank=n, unknowns={"axis": n - 1}) for n in (2, 3)),
)
"""A MatMul with a Concat of columns is a MatMul for each part."""

CONCAT_ROWS = Rule(
    name="concat-of-matmuls-with-same-weights",
    source=(concat(matmul(x, w), matmul(y, w), axis=axis),),
    target=(matmul(concat(x, y, axis=axis), w),),
    guard=lambda m: [
        m.value(axis) < len(m.shape(x)) - 1,
        *same_but(m.shape(x), m.shape(y), m.value(axis)),
    ],
    cases=tuple(
        Case(ranks={"x": n, "y": n}, unknowns={"axis": i}) for n in (2, 3) for i in range(n - 1)
    ),
)
"""The Concat of MatMuls with the same weights is one of more rows."""

SPLIT_MATMUL_ROWS = CONCAT_ROWS.reversed("split-rows-of-matmul")
"""A MatMul of a Concat of rows starts on the rows that are ready first."""


def _equal_pairs(bindings: Bindings) -> list[Condition]:
    return [
        *equal(bindings.shape(x), bindings.shape(z)),
        *equal(bindings.shape(y), bindings.shape(u)),
        len(bindings.shape(x)) == len(bindings.shape(y)),
    ]


MERGE_BATCHES = Rule(
    name="merge-batches-of-matmuls",
    source=(matmul(x, y), matmul(z, u)),
    target=halves(
        matmul(concat(x, z, axis=0), concat(y, u, axis=0)), 0, extent(x, 0), extent(z, 0)
    ),
    guard=lambda m: [
        len(m.shape(x)) >= 3,
        m.shape(x)[0] == m.shape(y)[0],
        *_equal_pairs(m),
    ],
    symmetric=True,
    cases=BATCHED[1:],
    searched=False,
)
"""Batches of MatMuls of equal shapes are one larger batch (the heads of two attentions)."""


def _stacked(tensor: Tensor) -> Pattern:
    """A matrix as a batch of one."""
    return reshape(tensor, lambda m: (1, *m.shape(tensor)))


def _unstacked(x: Pattern) -> Pattern:
    return reshape(x, _matrix_shape)


def _matrix_shape(bindings: Bindings) -> tuple[int, int]:
    return bindings.shape(x)[0], bindings.shape(y)[1]


_STACK = matmul(concat(_stacked(x), _stacked(z), axis=0), concat(_stacked(y), _stacked(u), axis=0))

STACK = Rule(
    name="stack-matmuls",
    source=(matmul(x, y), matmul(z, u)),
    target=(_unstacked(cut(_STACK, 0, 0, 1)), _unstacked(cut(_STACK, 0, 1, 2))),
    guard=lambda m: [len(m.shape(x)) == 2, *_equal_pairs(m)],
    symmetric=True,
    cases=BATCHED[:1],
    searched=False,
)
"""MatMuls of equal shapes are a batch of two."""


def _swapped(bindings: Bindings) -> tuple[int, ...]:
    """The order of axes that transposes each matrix of a batch."""
    rank = len(bindings.shape(x))
    return (*range(rank - 2), rank - 1, rank - 2)


TRANSPOSE = Rule(
    name="transpose-of-matmul",
    source=(transpose(matmul(x, y), perm),),
    target=(matmul(transpose(y, perm), transpose(x, perm)),),
    guard=lambda m: (
        len(m.shape(x)) == len(m.shape(y)),
        tuple(m.value(perm)) == _swapped(m),
    ),
    cases=tuple(Case(rank=n, unknowns={"perm": (*range(n - 2), n - 1, n - 2)}) for n in (2, 3, 4)),
)
"""The transpose of a MatMul is that of the transposes in the other order."""

MERGE_TRANSPOSES = TRANSPOSE.reversed("matmul-of-transposes")
"""A MatMul of transposes is the transpose of one in the other order."""

GEMMS = (
    MERGE_SIBLINGS,
    NARROW,
    MERGE_ROWS,
    MERGE_SUMMED,
    SPLIT_ROWS,
    SUM_SIBLINGS,
    SUM_ROWS,
    DISTRIBUTE_LEFT,
    DISTRIBUTE_RIGHT,
    ASSOCIATE,
    ASSOCIATE_LEFT,
    CONCAT_COLUMNS,
    SPLIT_COLUMNS,
    CONCAT_ROWS,
    SPLIT_MATMUL_ROWS,
    MERGE_BATCHES,
    STACK,
    TRANSPOSE,
    MERGE_TRANSPOSES,
)
