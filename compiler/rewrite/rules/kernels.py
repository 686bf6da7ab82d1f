"""Kernels of convolutions enlarged by zeros, so that convolutions of several sizes are one."""

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Fill,
    Identity,
    Pattern,
    Tensor,
    Unknown,
    Window,
    add,
    apply,
    concat,
    conv,
    extent,
    halves,
    mul,
    reshape,
    tensors,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.extents import all_are, per_channel, windows

x = Tensor("x")
w, v, s = tensors("w v s", constant=True)
b, c = tensors("b c", rank=1, constant=True)
strides, dilations = Unknown("strides"), Unknown("dilations")
pads, small_pads = Unknown("pads"), Unknown("small pads")
group, margin = Unknown("group"), Unknown("margin")
window = Window()
small = Window(pads=small_pads)
LARGEST = 5
"""The largest kernel that is suggested."""


def _cases(**ranks: int) -> tuple[Case, ...]:
    """Images of one and two spatial axes; ranks of more tensors relative to the image's."""
    return tuple(
        Case(
            rank=2 + n,
            ranks={name: 2 + n + more for name, more in ranks.items()},
            numbers={**windows("", spatial=n), "small pads": 2 * n, "margin": 2 * n},
        )
        for n in (1, 2)
    )


def _enlarged(weight: Pattern) -> Apply:
    """A kernel with a margin of zeros."""

    def around(bindings: Bindings) -> tuple[Any, ...]:
        begins, ends = _ends(bindings.value(margin))
        return (0, 0, *begins, 0, 0, *ends)

    return apply("Pad", weight, pads=around)


def _ends(values: Any) -> tuple[Any, Any]:
    """The numbers before the first element and after the last, along each axis."""
    return values[: len(values) // 2], values[len(values) // 2 :]


def _larger_pads(bindings: Bindings) -> tuple[Any, ...]:
    """The pads of an image for a kernel with a margin."""
    steps = (*bindings.value(dilations), *bindings.value(dilations))
    sides = zip(bindings.value(pads), steps, bindings.value(margin), strict=True)
    return tuple(pad + step * extra for pad, step, extra in sides)


def _sizes(bindings: Bindings) -> Iterable[Mapping[Unknown, Any]]:
    """Odd kernels become square ones of the next sizes."""
    kernel = bindings.shape(w)[2:]
    for size in range(3, LARGEST + 1, 2):
        extra = [size - n for n in kernel]
        if min(extra) >= 0 and max(extra) > 0 and all(n % 2 == 0 for n in extra):
            yield {margin: tuple(n // 2 for n in extra) * 2}


ENLARGE = Rule(
    name="enlarge-kernel",
    source=(conv(x, w, b, window, group),),
    target=(conv(x, _enlarged(w), b, Window(pads=_larger_pads), group),),
    guard=lambda m: [n >= 0 for n in m.value(margin)],
    parameters=_sizes,
    cases=_cases(),
    searched=False,
)
"""A kernel is a larger one with zeros around it, which merges with others of that size."""


def _fitting(bindings: Bindings) -> Iterable[Mapping[Unknown, Any]]:
    """The margin for which the pads of the smaller kernel become those of the larger."""
    steps = (*bindings.value(dilations), *bindings.value(dilations))
    pairs = zip(bindings.value(pads), bindings.value(small_pads), steps, strict=True)
    return ({margin: tuple((large - small) // step for large, small, step in pairs)},)


def _fits(bindings: Bindings) -> list[Condition]:
    """The conditions that a margin makes the kernel v as large as w, at the same place."""
    begins, ends = _ends(bindings.value(margin))
    sizes = zip(bindings.shape(v)[2:], begins, ends, strict=True)
    steps = (*bindings.value(dilations), *bindings.value(dilations))
    sides = zip(bindings.value(small_pads), steps, bindings.value(margin), strict=True)
    return [
        *(n >= 0 for n in bindings.value(margin)),
        sum(bindings.value(margin)) > 0,
        *equal([size + low + high for size, low, high in sizes], bindings.shape(w)[2:]),
        *equal([pad + step * extra for pad, step, extra in sides], bindings.value(pads)),
    ]


def _smaller(bindings: Bindings) -> list[Condition]:
    return [bindings.shape(v)[1] == bindings.shape(w)[1], *_fits(bindings)]


MERGE_SIZES = Rule(
    name="merge-convolutions-of-two-sizes",
    source=(conv(x, w, b, window), conv(x, v, c, small)),
    target=halves(
        conv(x, concat(w, _enlarged(v), axis=0), concat(b, c, axis=0), window),
        1,
        extent(w, 0),
        extent(v, 0),
    ),
    guard=_smaller,
    parameters=_fitting,
    cases=_cases(),
)
"""Convolutions of one image are one with the larger kernel (Inception's branches)."""

SUM_SIZES = Rule(
    name="sum-convolutions-of-two-sizes",
    source=(add(conv(x, w, b, window, group), conv(x, v, c, small, group)),),
    target=(conv(x, add(w, _enlarged(v)), add(b, c), window, group),),
    guard=lambda m: [m.shape(v)[0] == m.shape(w)[0], *_smaller(m)],
    parameters=_fitting,
    cases=_cases(),
)
"""The sum of convolutions of one image is one with the larger kernel (RepVGG's branches)."""


def _centre(bindings: Bindings) -> Iterable[Mapping[Unknown, Any]]:
    """The margin around a kernel of one element, if the image keeps its size."""
    steps = (*bindings.value(dilations), *bindings.value(dilations))
    return (
        {margin: tuple(pad // step for pad, step in zip(bindings.value(pads), steps, strict=True))},
    )


def _keeps_place(bindings: Bindings) -> list[Condition]:
    """The conditions that a kernel of one element in a margin maps each pixel to itself."""
    begins, ends = _ends(bindings.value(margin))
    steps = (*bindings.value(dilations), *bindings.value(dilations))
    sides = zip(steps, bindings.value(margin), strict=True)
    sizes = [low + 1 + high for low, high in zip(begins, ends, strict=True)]
    return [
        *(n >= 0 for n in bindings.value(margin)),
        *all_are(1, bindings.value(strides)),
        *equal(sizes, bindings.shape(w)[2:]),
        *equal([step * extra for step, extra in sides], bindings.value(pads)),
        bindings.shape(w)[0] == bindings.shape(x)[1],
    ]


def _pixel(bindings: Bindings) -> tuple[Any, ...]:
    """The shape of a dense kernel of one element."""
    rank = len(bindings.shape(w))
    channels = bindings.shape(x)[1]
    return (channels, channels, *(1,) * (rank - 2))


def _column(bindings: Bindings) -> tuple[Any, ...]:
    """The shape of a depthwise kernel of one element."""
    return (bindings.shape(x)[1], *(1,) * (len(bindings.shape(w)) - 1))


def _depthwise(bindings: Bindings) -> list[Condition]:
    channels = bindings.shape(x)[1]
    return [bindings.value(group) == channels, *_keeps_place(bindings)]


IDENTITY = reshape(Identity(extent(x, 1), w), _pixel)
ONES = Fill(1.0, _column, w)

SKIP = Rule(
    name="fold-skip-into-convolution",
    source=(add(conv(x, w, b, window), x),),
    target=(conv(x, add(w, _enlarged(IDENTITY)), b, window),),
    guard=_keeps_place,
    parameters=_centre,
    cases=_cases(),
)
"""A convolution plus its image is one whose kernel has the identity in its centre."""

DEPTHWISE_SKIP = Rule(
    name="fold-skip-into-depthwise-convolution",
    source=(add(conv(x, w, b, window, group), x),),
    target=(conv(x, add(w, _enlarged(ONES)), b, window, group),),
    guard=_depthwise,
    parameters=_centre,
    cases=_cases(),
)
"""A depthwise convolution plus its image is one with 1 added in the centre of its kernel."""


def _scaled(conditions: Any) -> Any:
    """A guard with the condition that s has one number for each channel."""

    def guard(m: Bindings) -> list[Condition]:
        rank = len(m.shape(w))
        return [*per_channel(m.shape(s), m.shape(x)[1], rank), *conditions(m)]

    return guard


SCALED_SKIP = Rule(
    name="fold-scaled-skip-into-convolution",
    source=(add(conv(x, w, b, window), mul(x, s)),),
    target=(conv(x, add(w, _enlarged(mul(IDENTITY, reshape(s, _column)))), b, window),),
    guard=_scaled(_keeps_place),
    parameters=_centre,
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A convolution plus its image, scaled by channel, is one with the scale in its centre."""

SCALED_DEPTHWISE_SKIP = Rule(
    name="fold-scaled-skip-into-depthwise-convolution",
    source=(add(conv(x, w, b, window, group), mul(x, s)),),
    target=(conv(x, add(w, _enlarged(reshape(s, _column))), b, window, group),),
    guard=_scaled(_depthwise),
    parameters=_centre,
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A depthwise convolution plus its image, scaled by channel, is one depthwise convolution."""

t = Tensor("t", constant=True)


def _vector(bindings: Bindings) -> tuple[Any, ...]:
    """The shape of a bias for the image's channels."""
    return (bindings.shape(x)[1],)


def _affine(conditions: Any) -> Any:
    """A guard with the conditions that s and t have one number for each channel."""

    def guard(m: Bindings) -> list[Condition]:
        rank = len(m.shape(w))
        return [*per_channel(m.shape(t), m.shape(x)[1], rank), *_scaled(conditions)(m)]

    return guard


AFFINE_SKIP = Rule(
    name="fold-affine-skip-into-convolution",
    source=(add(conv(x, w, b, window), add(mul(x, s), t)),),
    target=(
        conv(
            x,
            add(w, _enlarged(mul(IDENTITY, reshape(s, _column)))),
            add(b, reshape(t, _vector)),
            window,
        ),
    ),
    guard=_affine(_keeps_place),
    parameters=_centre,
    cases=(*_cases(s=0, t=0), *_cases(s=-1, t=-1)),
)
"""A convolution plus its normalised image is one convolution (RepVGG's identity branch)."""

AFFINE_DEPTHWISE_SKIP = Rule(
    name="fold-affine-skip-into-depthwise-convolution",
    source=(add(conv(x, w, b, window, group), add(mul(x, s), t)),),
    target=(
        conv(
            x,
            add(w, _enlarged(reshape(s, _column))),
            add(b, reshape(t, _vector)),
            window,
            group,
        ),
    ),
    guard=_affine(_depthwise),
    parameters=_centre,
    cases=(*_cases(s=0, t=0), *_cases(s=-1, t=-1)),
)
"""A depthwise convolution plus its normalised image is one (MobileOne's identity branch)."""

KERNELS = (
    ENLARGE,
    MERGE_SIZES,
    SUM_SIZES,
    SKIP,
    DEPTHWISE_SKIP,
    SCALED_SKIP,
    SCALED_DEPTHWISE_SKIP,
    AFFINE_SKIP,
    AFFINE_DEPTHWISE_SKIP,
)
