"""Transposes through elementwise operators, Concat and Slice."""

from itertools import permutations
from typing import Any

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Pattern,
    Unknown,
    apply,
    concat,
    cut,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Rule, equal
from compiler.rewrite.rules.elementwise import BINARY, UNARY
from compiler.rewrite.rules.extents import broadcasts_to

x, y, z = tensors("x y z")
axis, perm = Unknown("axis"), Unknown("perm")
start, stop = Unknown("start"), Unknown("stop")

ORDERS = (
    *((0, 1), (1, 0)),
    *permutations(range(3)),
    *((0, 2, 1, 3), (0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2)),
)
PERMS = tuple(Case(rank=len(p), unknowns={"perm": p}) for p in ORDERS)
"""The orders of two and three axes, and of four those of heads and of channels last."""
AXES = tuple(
    Case(rank=len(p), unknowns={"perm": p, "axis": i}) for p in ORDERS for i in range(len(p))
)


def _turned(x: Pattern) -> Apply:
    return transpose(x, perm)


def _before(bindings: Bindings) -> Any:
    """The axis of the tensor that becomes `axis` of its transpose."""
    return bindings.value(perm)[bindings.value(axis)]


def _after(bindings: Bindings) -> int:
    """The axis of the transpose that `axis` of the tensor becomes."""
    return tuple(bindings.value(perm)).index(bindings.value(axis))


UNARY_OF_TRANSPOSE = Rule(
    name="unary-of-transpose",
    source=(apply(UNARY, _turned(x)),),
    target=(_turned(apply(UNARY, x)),),
    cases=PERMS,
)
"""An elementwise operator before a Transpose fuses with what computes the tensor."""

TRANSPOSE_OF_UNARY = UNARY_OF_TRANSPOSE.reversed("transpose-of-unary")
"""An elementwise operator after a Transpose lets the Transpose meet another."""

BINARY_OF_TRANSPOSES = Rule(
    name="binary-of-transposes",
    source=(apply(BINARY, _turned(x), _turned(y)),),
    target=(_turned(apply(BINARY, x, y)),),
    guard=lambda m: equal(m.shape(x), m.shape(y)),
    cases=PERMS,
)
"""One Transpose of a result instead of two of the operands."""

TRANSPOSE_OF_BINARY = BINARY_OF_TRANSPOSES.reversed("transpose-of-binary", searched=False)
"""Two Transposes of operands, which may meet others."""

NUMBER_OF_TRANSPOSE = Rule(
    name="binary-of-transpose-and-number",
    source=(apply(BINARY, _turned(x), z),),
    target=(_turned(apply(BINARY, x, z)),),
    guard=lambda m: broadcasts_to(m.shape(z), m.shape(x)),
    cases=tuple(
        Case(ranks={"x": len(p), "z": rank}, unknowns={"perm": p})
        for p in ORDERS
        for rank in (0, 1)
    ),
)
"""A number meets what computes the tensor (the scale of attention the weights of Q or K)."""

TRANSPOSE_WITH_NUMBER = NUMBER_OF_TRANSPOSE.reversed("transpose-of-binary-with-number")
"""A number after a Transpose lets the Transpose meet another."""

CONCAT_OF_TRANSPOSES = Rule(
    name="concat-of-transposes",
    source=(concat(_turned(x), _turned(y), axis=axis),),
    target=(_turned(concat(x, y, axis=_before)),),
    cases=AXES,
)
"""One Transpose of a Concat instead of one of each part."""

TRANSPOSE_OF_CONCAT = Rule(
    name="transpose-of-concat",
    source=(_turned(concat(x, y, axis=axis)),),
    target=(concat(_turned(x), _turned(y), axis=_after),),
    cases=AXES,
)
"""A Transpose of a Concat need not wait for all parts."""

SLICE_OF_TRANSPOSE = Rule(
    name="slice-of-transpose",
    source=(cut(_turned(x), axis, start, stop),),
    target=(_turned(cut(x, _before, start, stop)),),
    cases=AXES,
)
"""Of a Transpose only the part that is read is computed."""

TRANSPOSE_OF_SLICE = Rule(
    name="transpose-of-slice",
    source=(_turned(cut(x, axis, start, stop)),),
    target=(cut(_turned(x), _after, start, stop),),
    cases=AXES,
)
"""Equal Transposes of the parts of a tensor are one of all of it."""

TRANSPOSES = (
    UNARY_OF_TRANSPOSE,
    TRANSPOSE_OF_UNARY,
    BINARY_OF_TRANSPOSES,
    TRANSPOSE_OF_BINARY,
    NUMBER_OF_TRANSPOSE,
    TRANSPOSE_WITH_NUMBER,
    CONCAT_OF_TRANSPOSES,
    TRANSPOSE_OF_CONCAT,
    SLICE_OF_TRANSPOSE,
    TRANSPOSE_OF_SLICE,
)
