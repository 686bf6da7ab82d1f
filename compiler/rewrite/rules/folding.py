"""Scales, shifts and pointwise convolutions folded into the weights of a convolution."""

from collections.abc import Sequence
from typing import Any

from compiler.rewrite.patterns import (
    Bindings,
    Pattern,
    Tensor,
    Unknown,
    Window,
    add,
    conv,
    matmul,
    mul,
    reshape,
    tensors,
    transpose,
)
from compiler.rewrite.rule import Case, Condition, Rule
from compiler.rewrite.rules.extents import all_are, per_channel, pointwise, windows

x = Tensor("x")
w, v, s = tensors("w v s", constant=True)
b, c = tensors("b c", rank=1, constant=True)
group = Unknown("group")
window = Window()
inner = Window.named("inner")


def _cases(**ranks: int) -> tuple[Case, ...]:
    """Images of one and two spatial axes; ranks of more tensors relative to the image's."""
    return tuple(
        Case(
            rank=2 + n,
            ranks={name: 2 + n + more for name, more in ranks.items()},
            numbers=windows("", "inner", spatial=n),
        )
        for n in (1, 2)
    )


def _outputs(bindings: Bindings) -> tuple[Any, ...]:
    """The shape in which a vector scales the outputs of a kernel."""
    return (bindings.shape(w)[0], *(1,) * (len(bindings.shape(w)) - 1))


def _inputs(bindings: Bindings) -> tuple[Any, ...]:
    """The shape in which a vector scales the inputs of a dense kernel."""
    return (1, bindings.shape(w)[1], *(1,) * (len(bindings.shape(w)) - 2))


def _vector(bindings: Bindings) -> tuple[Any, ...]:
    return (bindings.shape(w)[0],)


def _scales_outputs(bindings: Bindings) -> list[Condition]:
    shape = bindings.shape(w)
    return [*per_channel(bindings.shape(s), shape[0], len(shape))]


def _scales_inputs(bindings: Bindings) -> list[Condition]:
    """The conditions that s has one number for each channel of the image x, which is not spread."""
    shape = bindings.shape(w)
    if len(bindings.shape(x)) != len(shape):
        return [False]
    same = bindings.shape(x)[1] == shape[1]
    return [same, *per_channel(bindings.shape(s), shape[1], len(shape))]


SCALE_RESULT = Rule(
    name="fold-scale-after-convolution",
    source=(mul(conv(x, w, b, window, group), s),),
    target=(conv(x, mul(w, reshape(s, _outputs)), mul(b, reshape(s, _vector)), window, group),),
    guard=_scales_outputs,
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A scale for each channel after a convolution is in its weights and bias."""

SHIFT_RESULT = Rule(
    name="fold-shift-after-convolution",
    source=(add(conv(x, w, b, window, group), s),),
    target=(conv(x, w, add(b, reshape(s, _vector)), window, group),),
    guard=_scales_outputs,
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A constant for each channel added to a convolution is in its bias."""

SCALE_IMAGE = Rule(
    name="fold-scale-before-convolution",
    source=(conv(mul(x, s), w, b, window),),
    target=(conv(x, mul(w, reshape(s, _inputs)), b, window),),
    guard=_scales_inputs,
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A scale for each channel before a convolution is in its weights; pads stay zeros."""

SCALE_DEPTHWISE_IMAGE = Rule(
    name="fold-scale-before-depthwise-convolution",
    source=(conv(mul(x, s), w, b, window, group),),
    target=(conv(x, mul(w, reshape(s, _outputs)), b, window, group),),
    guard=lambda m: [
        len(m.shape(x)) == len(m.shape(w)),
        m.value(group) == m.shape(x)[1],
        m.shape(w)[0] == m.shape(x)[1],
        *_scales_outputs(m),
    ],
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A scale for each channel before a depthwise convolution is in its weights."""


def _matrix(weight: Tensor) -> Pattern:
    """A kernel of one element as a matrix."""
    return reshape(weight, lambda m: m.shape(weight)[:2])


def _inner_is_pointwise(bindings: Bindings) -> Sequence[Condition]:
    """The conditions that the convolution with the weights v maps each pixel by itself."""
    return pointwise(bindings, v, "inner")


def _taps_first(bindings: Bindings) -> tuple[int, ...]:
    """The order of axes that makes a kernel a batch of matrices, one for each tap."""
    return (*range(2, len(bindings.shape(w))), 0, 1)


def _taps_last(bindings: Bindings) -> tuple[int, ...]:
    rank = len(bindings.shape(w))
    return (rank - 2, rank - 1, *range(rank - 2))


def _shifts_inputs(bindings: Bindings) -> list[Condition]:
    return [
        *_scales_inputs(bindings),
        *all_are(1, bindings.shape(w)[2:]),
        # the constant is added to pixels, and pads stay zeros
        *all_are(0, bindings.value(Unknown("pads"))),
    ]


def _column(tensor: Tensor) -> Pattern:
    return reshape(tensor, lambda m: (m.shape(w)[1], 1))


SHIFT_IMAGE = Rule(
    name="fold-shift-before-pointwise-convolution",
    source=(conv(add(x, s), w, b, window),),
    target=(conv(x, w, add(b, reshape(matmul(_matrix(w), _column(s)), _vector)), window),),
    guard=_shifts_inputs,
    cases=(*_cases(s=0), *_cases(s=-1)),
)
"""A constant for each channel before an unpadded 1x1 convolution is in its bias."""


def _bias_through(weight: Tensor, bias: Tensor) -> Pattern:
    """The result of a pointwise convolution on a bias."""
    column = reshape(bias, lambda m: (m.shape(bias)[0], 1))
    return reshape(matmul(_matrix(weight), column), lambda m: (m.shape(weight)[0],))


POINTWISE_AFTER = Rule(
    name="fold-pointwise-after-convolution",
    source=(conv(conv(x, w, b, window), v, c, inner),),
    target=(
        conv(
            x,
            transpose(matmul(_matrix(v), transpose(w, _taps_first)), _taps_last),
            add(_bias_through(v, b), c),
            window,
        ),
    ),
    guard=_inner_is_pointwise,
    cases=_cases(),
)
"""A 1x1 convolution of a convolution is one, which has fewer operations if it widens."""

POINTWISE_BEFORE = Rule(
    name="fold-pointwise-before-convolution",
    source=(conv(conv(x, v, None, inner), w, b, window),),
    target=(
        conv(x, transpose(matmul(transpose(w, _taps_first), _matrix(v)), _taps_last), b, window),
    ),
    guard=_inner_is_pointwise,
    cases=_cases(),
)
"""A convolution of a 1x1 convolution without bias is one; its pads are zeros for both."""

FOLDING = (
    SCALE_RESULT,
    SHIFT_RESULT,
    SCALE_IMAGE,
    SCALE_DEPTHWISE_IMAGE,
    SHIFT_IMAGE,
    POINTWISE_AFTER,
    POINTWISE_BEFORE,
)
