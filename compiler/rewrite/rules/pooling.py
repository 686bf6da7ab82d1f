"""Pooling through Concat and Add, and average pooling exchanged with 1x1 convolutions."""

from typing import Any

from compiler.net.operators.pooling import WINDOW_POOLS
from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    OneOf,
    Pattern,
    Tensor,
    Unknown,
    Window,
    add,
    apply,
    concat,
    conv,
    reshape,
    tensors,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.extents import pointwise, same_but, windows

x, y = tensors("x y")
w = Tensor("w", constant=True)
b = Tensor("b", rank=1, constant=True)
axis = Unknown("axis")
window = Window()

POOL = OneOf("pool", frozenset({*WINDOW_POOLS, "GlobalAveragePool", "GlobalMaxPool"}))
"""One of the operators that map each channel of each image by itself."""
AVERAGE = OneOf("average", frozenset({"AveragePool", "GlobalAveragePool"}))
"""One of the linear ones."""


def _windowed(name: str, kinds: frozenset[str]) -> tuple[Any, ...]:
    """Operators with windows of two elements, and those of whole images, on one or two axes."""
    operators: list[Any] = []
    for n in (1, 2):
        small = {
            "kernel_shape": (2,) * n,
            "strides": (1,) * n,
            "pads": (1,) * n + (0,) * n,
            "dilations": (1,) * n,
        }
        for kind in sorted(kinds):
            attributes = {} if kind.startswith("Global") else small
            operators.append((n, {name: (kind, tuple(sorted(attributes.items())))}))
    return tuple(operators)


POOLS = tuple(
    Case(rank=2 + n, unknowns={**unknowns, "axis": axis})
    for n, unknowns in _windowed("pool", POOL.kinds)
    for axis in (0, 1)
)
AVERAGES = tuple(
    Case(rank=2 + n, unknowns=unknowns, numbers=windows("", spatial=n))
    for n, unknowns in _windowed("average", AVERAGE.kinds)
)


def _pool(x: Pattern) -> Apply:
    return apply(POOL, x)


def _average(x: Pattern) -> Apply:
    return apply(AVERAGE, x)


POOL_OF_CONCAT = Rule(
    name="pool-of-concat",
    source=(_pool(concat(x, y, axis=axis)),),
    target=(concat(_pool(x), _pool(y), axis=axis),),
    # along a spatial axis, windows would reach across both parts
    guard=lambda m: (m.value(axis) < 2,),
    cases=POOLS,
)
"""Pooling of a Concat of channels or images need not wait for all parts."""


def _channels_or_images(bindings: Bindings) -> list[Condition]:
    shapes = bindings.shape(x), bindings.shape(y)
    return [bindings.value(axis) < 2, *same_but(*shapes, bindings.value(axis))]


CONCAT_OF_POOLS = POOL_OF_CONCAT.reversed("concat-of-pools", guard=_channels_or_images)
"""Equal poolings of channels or images are one of all of them."""

AVERAGE_OF_SUM = Rule(
    name="average-of-sum",
    source=(_average(add(x, y)),),
    target=(add(_average(x), _average(y)),),
    guard=lambda m: equal(m.shape(x), m.shape(y)),
    cases=AVERAGES,
    searched=False,
)
"""Average pooling is linear; for derivations."""

SUM_OF_AVERAGES = AVERAGE_OF_SUM.reversed("sum-of-averages", searched=True)
"""The sum of average poolings is one of the sum."""


def _each_channel(bindings: Bindings) -> tuple[Any, ...]:
    return (bindings.shape(w)[0], *(1,) * (len(bindings.shape(w)) - 2))


POINTWISE_OF_AVERAGE = Rule(
    name="pointwise-convolution-of-average",
    source=(conv(_average(x), w, b, window),),
    target=(add(_average(conv(x, w, None, window)), reshape(b, _each_channel)),),
    guard=lambda m: pointwise(m, w),
    cases=AVERAGES,
)
"""A 1x1 convolution before the average merges with others of the image (Inception).

The bias comes after it: an average may count pads as zeros.
"""

AVERAGE_OF_POINTWISE = Rule(
    name="average-of-pointwise-convolution",
    source=(_average(conv(x, w, None, window)),),
    target=(conv(_average(x), w, None, window),),
    guard=lambda m: pointwise(m, w),
    cases=AVERAGES,
)
"""A 1x1 convolution without a bias after the average has fewer pixels."""

GLOBAL_AVERAGE = Rule(
    name="global-average-of-pointwise-convolution",
    source=(apply("GlobalAveragePool", conv(x, w, b, window)),),
    target=(conv(apply("GlobalAveragePool", x), w, b, window),),
    guard=lambda m: pointwise(m, w),
    cases=tuple(Case(rank=2 + n, numbers=windows("", spatial=n)) for n in (1, 2)),
)
"""A 1x1 convolution after the average of all pixels has one pixel."""

POOLING = (
    POOL_OF_CONCAT,
    CONCAT_OF_POOLS,
    AVERAGE_OF_SUM,
    SUM_OF_AVERAGES,
    POINTWISE_OF_AVERAGE,
    AVERAGE_OF_POINTWISE,
    GLOBAL_AVERAGE,
)
