"""Reshapes through elementwise operators and MatMuls, and 1x1 convolutions as MatMuls."""

from typing import Any

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Pattern,
    Tensor,
    Unknown,
    Window,
    add,
    apply,
    conv,
    matmul,
    reshape,
    tensors,
)
from compiler.rewrite.rule import Case, Rule, equal
from compiler.rewrite.rules.elementwise import BINARY, UNARY
from compiler.rewrite.rules.extents import broadcasts_to, pointwise, windows

x, y, z = tensors("x y z")
w = Tensor("w", constant=True)
v = Tensor("v", rank=2, constant=True)
b = Tensor("b", rank=1, constant=True)
shape = Unknown("shape")
window = Window()

SHAPES = tuple(Case(rank=n, numbers={"shape": k}) for n in (1, 2, 3) for k in (1, 2, 3) if n != k)
"""Tensors that become ones of more or fewer axes."""


def _shaped(x: Pattern) -> Apply:
    return reshape(x, shape)


UNARY_OF_RESHAPE = Rule(
    name="unary-of-reshape",
    source=(apply(UNARY, _shaped(x)),),
    target=(_shaped(apply(UNARY, x)),),
    cases=SHAPES,
)
"""An elementwise operator before a Reshape fuses with what computes the tensor."""

RESHAPE_OF_UNARY = UNARY_OF_RESHAPE.reversed("reshape-of-unary")
"""An elementwise operator after a Reshape lets the Reshape meet another."""

BINARY_OF_RESHAPES = Rule(
    name="binary-of-reshapes",
    source=(apply(BINARY, _shaped(x), _shaped(y)),),
    target=(_shaped(apply(BINARY, x, y)),),
    guard=lambda m: equal(m.shape(x), m.shape(y)),
    cases=SHAPES,
)
"""An elementwise operator before a Reshape fuses with what computes its operands."""

RESHAPE_OF_BINARY = BINARY_OF_RESHAPES.reversed("reshape-of-binary", searched=False)
"""Reshapes of operands, which may meet others."""

NUMBER_OF_RESHAPE = Rule(
    name="binary-of-reshape-and-number",
    source=(apply(BINARY, _shaped(x), z),),
    target=(_shaped(apply(BINARY, x, z)),),
    guard=lambda m: (
        len(m.shape(z)) <= len(m.value(shape)),
        *broadcasts_to(m.shape(z), m.shape(x)),
    ),
    cases=tuple(
        Case(ranks={"x": n, "z": rank}, numbers={"shape": k})
        for n, k in ((1, 2), (2, 1), (2, 3), (3, 2))
        for rank in (0, 1)
    ),
)
"""A number meets what computes the tensor (the scale of attention the weights of Q or K)."""


def _columns(bindings: Bindings) -> tuple[Any, ...]:
    return (*bindings.value(shape)[:-1], bindings.shape(v)[1])


MATMUL_OF_RESHAPE = Rule(
    name="matmul-of-reshaped-rows",
    source=(matmul(_shaped(x), v),),
    target=(reshape(matmul(x, v), _columns),),
    guard=lambda m: (
        len(m.value(shape)) >= 2,
        len(m.shape(x)) >= 2,
        m.value(shape)[-1] == m.shape(x)[-1],
    ),
    cases=tuple(Case(rank=n, numbers={"shape": k}) for n, k in ((3, 2), (2, 3), (4, 2))),
)
"""A MatMul of rows in another shape, which then meets others of the same tensor."""


def _matrix(bindings: Bindings) -> tuple[Any, ...]:
    return bindings.shape(w)[:2]


def _flat(bindings: Bindings) -> tuple[Any, ...]:
    """The shape of an image whose pixels are the columns of a matrix."""
    images, channels, *space = bindings.shape(x)
    size: Any = 1
    for extent in space:
        size = size * extent
    return (images, channels, size)


def _image(bindings: Bindings) -> tuple[Any, ...]:
    images, _, *space = bindings.shape(x)
    return (images, bindings.shape(w)[0], *space)


def _each_row(bindings: Bindings) -> tuple[Any, ...]:
    return (bindings.shape(w)[0], 1)


POINTWISE = Rule(
    name="pointwise-convolution-is-matmul",
    source=(conv(x, w, b, window),),
    target=(
        reshape(add(matmul(reshape(w, _matrix), reshape(x, _flat)), reshape(b, _each_row)), _image),
    ),
    guard=lambda m: pointwise(m, w),
    cases=tuple(Case(rank=2 + n, numbers=windows("", spatial=n)) for n in (1, 2)),
    searched=False,
)
"""A 1x1 convolution is a batched MatMul of its weights and the pixels of each image."""

RESHAPES = (
    UNARY_OF_RESHAPE,
    RESHAPE_OF_UNARY,
    BINARY_OF_RESHAPES,
    RESHAPE_OF_BINARY,
    NUMBER_OF_RESHAPE,
    MATMUL_OF_RESHAPE,
    POINTWISE,
)
