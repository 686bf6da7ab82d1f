"""Scales and shifts of normalisations, and factors of rows, moved past a MatMul."""

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Fill,
    Pattern,
    Tensor,
    Unknown,
    add,
    apply,
    matmul,
    mul,
    reshape,
    tensors,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal

x, r = tensors("x r")
w = Tensor("w", rank=2, constant=True)
g, b = tensors("g b", rank=1, constant=True)
axis, epsilon, stash = Unknown("axis"), Unknown("epsilon"), Unknown("stash")

ROWS = tuple(
    Case(
        ranks={"x": n, "w": 2, "g": 1, "b": 1},
        unknowns={"axis": n - 1, "epsilon": 1e-05, "stash": 1},
    )
    for n in (2, 3)
)
FACTORS = tuple(Case(rank=n, ranks={"w": 2}) for n in (2, 3))


def _normalised(kind: str, *inputs: Pattern) -> Apply:
    return apply(kind, *inputs, axis=axis, epsilon=epsilon, stash_type=stash)


ONES = Fill(1.0, lambda m: m.shape(g), g)


def _of_rows(bindings: Bindings) -> list[Condition]:
    """The conditions that each row is normalised, and each of its elements has a scale."""
    return [
        len(bindings.shape(x)) >= 2,
        bindings.value(axis) == len(bindings.shape(x)) - 1,
        *equal(bindings.shape(g), bindings.shape(w)[:1]),
    ]


SCALED = mul(reshape(g, lambda m: (m.shape(w)[0], 1)), w)
ROW = reshape(b, lambda m: (1, m.shape(w)[0]))


def _fold_scale(kind: str, name: str) -> Rule:
    return Rule(
        name=name,
        source=(matmul(_normalised(kind, x, g), w),),
        target=(matmul(_normalised(kind, x, ONES), SCALED),),
        guard=_of_rows,
        cases=ROWS,
    )


FOLD_LAYER_SCALE = _fold_scale("LayerNormalization", "fold-scale-of-layer-normalisation")
FOLD_RMS_SCALE = _fold_scale("RMSNormalization", "fold-scale-of-rms-normalisation")
"""The scale of a normalisation is in the weights of a MatMul that reads it."""

FOLD_LAYER_SHIFT = Rule(
    name="fold-scale-and-shift-of-layer-normalisation",
    source=(matmul(_normalised("LayerNormalization", x, g, b), w),),
    target=(
        add(
            matmul(_normalised("LayerNormalization", x, ONES), SCALED),
            reshape(matmul(ROW, w), lambda m: (m.shape(w)[1],)),
        ),
    ),
    guard=lambda m: [*_of_rows(m), *equal(m.shape(b), m.shape(w)[:1])],
    cases=ROWS,
)
"""The scale and shift of a normalisation are in the weights and bias of a layer that reads it."""


def _factor_of_rows(bindings: Bindings) -> list[Condition]:
    shape = bindings.shape(r)
    return [
        len(shape) >= 2,
        *equal(shape, (*bindings.shape(x)[:-1], 1)),
    ]


FACTOR_AFTER = Rule(
    name="move-factor-of-rows-after-matmul",
    source=(matmul(mul(x, r), w),),
    target=(mul(matmul(x, w), r),),
    guard=_factor_of_rows,
    cases=FACTORS,
)
"""A MatMul need not wait for the factor of each row (the root mean square of RMS norm)."""

FACTOR_BEFORE = FACTOR_AFTER.reversed("move-factor-of-rows-before-matmul")
"""The factor of each row before a MatMul, if its columns are fewer there."""

DIVISOR_AFTER = Rule(
    name="move-divisor-of-rows-after-matmul",
    source=(matmul(apply("Div", x, r), w),),
    target=(apply("Div", matmul(x, w), r),),
    guard=_factor_of_rows,
    cases=FACTORS,
)
"""A MatMul need not wait for the divisor of each row."""

DIVISOR_BEFORE = DIVISOR_AFTER.reversed("move-divisor-of-rows-before-matmul")
"""The divisor of each row before a MatMul, if its columns are fewer there."""

NORMALISATIONS = (
    FOLD_LAYER_SCALE,
    FOLD_RMS_SCALE,
    FOLD_LAYER_SHIFT,
    FACTOR_AFTER,
    FACTOR_BEFORE,
    DIVISOR_AFTER,
    DIVISOR_BEFORE,
)
