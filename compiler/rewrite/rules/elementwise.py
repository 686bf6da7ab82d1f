"""Elementwise operators: sums and multiplications, and every one through Concat and Slice."""

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.net.operators import OPERATORS, Kind
from compiler.net.operators.elementwise import ARITHMETIC
from compiler.net.spec import Slot
from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Computed,
    OneOf,
    Pattern,
    Tensor,
    Unknown,
    add,
    apply,
    concat,
    cut,
    halves,
    mul,
    relu,
    sub,
    tensors,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.extents import broadcasts_to, same_but

x, y, z, u = tensors("x y z u")
axis, start, stop = Unknown("axis"), Unknown("start"), Unknown("stop")

_ONE_TENSOR = (Slot("T"),)
UNARY = OneOf(
    "unary",
    frozenset(
        name
        for name, entry in OPERATORS.items()
        if entry.kind is Kind.ELEMENTWISE
        and entry.inputs == entry.outputs == _ONE_TENSOR
        and not entry.decided
        and "float32" in entry.dtypes(0)
    ),
)
"""One of the operators on one floating-point tensor, whose attributes do not depend on shapes."""
BINARY = OneOf("binary", frozenset({*ARITHMETIC, "Max", "Min"}))
"""One of the operators on two floating-point tensors of one type, which are broadcast."""

AXES = tuple(Case(rank=n, unknowns={"axis": i}) for n in (1, 2, 3, 4) for i in range(n))
"""Every axis of tensors of up to four."""
BROADCAST = (
    *(Case(rank=n) for n in (1, 2, 3)),
    Case(ranks={"x": 2, "y": 1, "z": 2}),
    Case(ranks={"x": 1, "y": 2, "z": 1}),
)


def _commute(kind: str) -> Rule:
    return Rule(
        name=f"commute-{kind.lower()}",
        source=(apply(kind, x, y),),
        target=(apply(kind, y, x),),
        cases=BROADCAST,
        searched=False,
    )


def _associate(kind: str) -> Rule:
    return Rule(
        name=f"associate-{kind.lower()}",
        source=(apply(kind, apply(kind, x, y), z),),
        target=(apply(kind, x, apply(kind, y, z)),),
        cases=BROADCAST,
    )


COMMUTE_ADD, COMMUTE_MUL = _commute("Add"), _commute("Mul")
"""The operands of a sum or multiplication may change places; for derivations."""

ASSOCIATE_ADD, ASSOCIATE_MUL = _associate("Add"), _associate("Mul")
"""(x + y) + z = x + (y + z): the operands that are ready first, or constant, are added first."""

DISTRIBUTE = Rule(
    name="distribute-mul-over-add",
    source=(mul(add(x, y), z),),
    target=(add(mul(x, z), mul(y, z)),),
    cases=BROADCAST,
    searched=False,
)
"""(x + y) z = x z + y z; for derivations."""

FACTOR = DISTRIBUTE.reversed("factor-mul-of-add", searched=True)
"""x z + y z = (x + y) z: one multiplication less."""

DIFFERENCE = Rule(
    name="sub-is-add-of-neg",
    source=(sub(x, y),),
    target=(add(x, apply("Neg", y)),),
    cases=BROADCAST,
    searched=False,
)
"""x - y = x + (-y); for derivations."""

SUM_OF_NEGATIVE = DIFFERENCE.reversed("add-of-neg-is-sub", searched=True)
"""x + (-y) = x - y: one operator less."""

RELU_OF_RELU = Rule(name="relu-of-relu", source=(relu(relu(x)),), target=(relu(x),))
"""Relu of Relu is Relu."""


def _unary(x: Pattern) -> Apply:
    return apply(UNARY, x)


def _binary(x: Pattern, y: Pattern) -> Apply:
    return apply(BINARY, x, y)


UNARY_OF_CONCAT = Rule(
    name="unary-of-concat",
    source=(_unary(concat(x, y, axis=axis)),),
    target=(concat(_unary(x), _unary(y), axis=axis),),
    cases=AXES,
)
"""An elementwise operator on a Concat need not wait for all parts."""

CONCAT_OF_UNARY = UNARY_OF_CONCAT.reversed("concat-of-unary")
"""Equal elementwise operators before a Concat are one after it."""

UNARY_OF_SLICE = Rule(
    name="unary-of-slice",
    source=(_unary(cut(x, axis, start, stop)),),
    target=(cut(_unary(x), axis, start, stop),),
    cases=AXES,
)
"""Equal elementwise operators on the parts of a tensor are one on all of it."""

SLICE_OF_UNARY = UNARY_OF_SLICE.reversed("slice-of-unary")
"""Of an elementwise operator only the part that is read is computed."""


def _axes(bindings: Bindings) -> Iterable[Mapping[Unknown, Any]]:
    """The axes along which two tensors can be concatenated."""
    left, right = bindings.shape(x), bindings.shape(y)
    differ = [i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b]
    return [{axis: i} for i in (differ or range(len(left)))]


def _extent(tensor: Tensor) -> Computed:
    def of(bindings: Bindings) -> Any:
        along: int = bindings.value(axis)
        return bindings.shape(tensor)[along]

    return of


MERGE_UNARY = Rule(
    name="merge-unary",
    source=(_unary(x), _unary(y)),
    target=halves(_unary(concat(x, y, axis=axis)), axis, _extent(x), _extent(y)),
    guard=lambda m: same_but(m.shape(x), m.shape(y), m.value(axis)),
    parameters=_axes,
    symmetric=True,
    cases=AXES,
    searched=False,
)
"""Equal elementwise operators on two tensors are one on their Concat."""

MERGE_BINARY = Rule(
    name="merge-binary",
    source=(_binary(x, z), _binary(y, u)),
    target=halves(
        _binary(concat(x, y, axis=axis), concat(z, u, axis=axis)), axis, _extent(x), _extent(y)
    ),
    guard=lambda m: [*_pairs(m), *same_but(m.shape(x), m.shape(y), m.value(axis))],
    parameters=_axes,
    symmetric=True,
    cases=AXES,
    searched=False,
)
"""Equal elementwise operators on two pairs of tensors are one on their Concats."""


def _pairs(bindings: Bindings) -> list[Condition]:
    return [
        *equal(bindings.shape(x), bindings.shape(z)),
        *equal(bindings.shape(y), bindings.shape(u)),
    ]


BINARY_OF_CONCATS = Rule(
    name="binary-of-concats",
    source=(_binary(concat(x, y, axis=axis), concat(z, u, axis=axis)),),
    target=(concat(_binary(x, z), _binary(y, u), axis=axis),),
    guard=_pairs,
    cases=AXES,
)
"""An elementwise operator on two Concats need not wait for all parts."""

CONCAT_OF_BINARY = BINARY_OF_CONCATS.reversed("concat-of-binary")
"""Equal elementwise operators before a Concat are one after it."""

NUMBER_OF_CONCAT = Rule(
    name="binary-of-concat-and-number",
    source=(_binary(concat(x, y, axis=axis), z),),
    target=(concat(_binary(x, z), _binary(y, z), axis=axis),),
    guard=lambda m: broadcasts_to(m.shape(z), m.shape(x)),
    cases=tuple(
        Case(ranks={"x": n, "y": n, "z": rank}, unknowns={"axis": i})
        for n in (1, 2, 3)
        for i in range(n)
        for rank in (0, 1)
    ),
)
"""An operator on a Concat and a number is one on each part and the number."""

CONCAT_WITH_NUMBER = NUMBER_OF_CONCAT.reversed("concat-of-binary-with-number")
"""Operators on some tensors and the same number are one on their Concat."""

SLICE_OF_BINARY = Rule(
    name="slice-of-binary",
    source=(cut(_binary(x, y), axis, start, stop),),
    target=(_binary(cut(x, axis, start, stop), cut(y, axis, start, stop)),),
    guard=lambda m: equal(m.shape(x), m.shape(y)),
    cases=AXES,
)
"""Of an elementwise operator only the part that is read is computed."""

BINARY_OF_SLICES = SLICE_OF_BINARY.reversed("binary-of-slices")
"""An operator on the same parts of two tensors is that part of one on all."""

ELEMENTWISE = (
    COMMUTE_ADD,
    COMMUTE_MUL,
    ASSOCIATE_ADD,
    ASSOCIATE_MUL,
    DISTRIBUTE,
    FACTOR,
    DIFFERENCE,
    SUM_OF_NEGATIVE,
    RELU_OF_RELU,
    UNARY_OF_CONCAT,
    CONCAT_OF_UNARY,
    UNARY_OF_SLICE,
    SLICE_OF_UNARY,
    MERGE_UNARY,
    MERGE_BINARY,
    BINARY_OF_CONCATS,
    CONCAT_OF_BINARY,
    NUMBER_OF_CONCAT,
    CONCAT_WITH_NUMBER,
    SLICE_OF_BINARY,
    BINARY_OF_SLICES,
)
