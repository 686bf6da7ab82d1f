"""Resizes by scales exchanged with 1x1 convolutions, elementwise operators and Concat."""

from typing import Any

from compiler.graph.rewriting.attributes import with_defaults
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
    tensors,
)
from compiler.rewrite.rule import Case, Condition, Rule, equal
from compiler.rewrite.rules.elementwise import BINARY, UNARY
from compiler.rewrite.rules.extents import pointwise, same_but, windows

x, y = tensors("x y")
w = Tensor("w", constant=True)
b = Tensor("b", rank=1, constant=True)
axis, resize = Unknown("axis"), Unknown("resize")
RESIZE = OneOf("resize", frozenset({"Resize"}))
window = Window()


def _resized(x: Pattern) -> Apply:
    return apply(RESIZE, x)


def resize_example(mode: str, spatial: int) -> dict[str, Any]:
    """The unknowns of a Resize that doubles an image of some spatial axes."""
    scales = (1.0, 1.0, *[2.0] * spatial)
    explicit = {"mode": mode, "scales": scales, "roi": (), "sizes": ()}
    attributes = with_defaults("Resize", explicit, [(1,) * len(scales)])
    return {"resize": ("Resize", tuple(sorted(attributes.items())))}


def _cases(*modes: str, **unknowns: Any) -> tuple[Case, ...]:
    return tuple(
        Case(
            rank=2 + n,
            unknowns={**resize_example(mode, n), **unknowns},
            numbers=windows("", spatial=n),
        )
        for n in (1, 2)
        for mode in modes
    )


def _attributes(bindings: Bindings) -> dict[str, Any]:
    _, attributes = bindings.value(resize)
    return dict(attributes)


def _in_space(bindings: Bindings) -> list[Condition]:
    """The conditions that pixels are weighted means, by weights that all channels share."""
    attributes = _attributes(bindings)
    return [
        attributes["scales"][:2] == (1, 1),
        # it writes a constant outside of the image, not a mean of pixels
        attributes["coordinate_transformation_mode"] != "tf_crop_and_resize",
        attributes["axes"][:2] == (0, 1),
    ]


def _nearest(bindings: Bindings) -> list[Condition]:
    """The conditions that pixels are copied."""
    return [
        _attributes(bindings)["mode"] == "nearest",
        _attributes(bindings)["coordinate_transformation_mode"] != "tf_crop_and_resize",
    ]


POINTWISE_OF_RESIZE = Rule(
    name="pointwise-convolution-of-resize",
    source=(conv(_resized(x), w, b, window),),
    target=(_resized(conv(x, w, b, window)),),
    guard=lambda m: [*pointwise(m, w), *_in_space(m)],
    cases=_cases("nearest", "linear", "cubic"),
)
"""A 1x1 convolution before an enlarging Resize has fewer pixels."""

RESIZE_OF_POINTWISE = POINTWISE_OF_RESIZE.reversed("resize-of-pointwise-convolution")
"""A 1x1 convolution after a shrinking Resize has fewer pixels."""

UNARY_OF_RESIZE = Rule(
    name="unary-of-resize",
    source=(apply(UNARY, _resized(x)),),
    target=(_resized(apply(UNARY, x)),),
    guard=_nearest,
    cases=_cases("nearest"),
)
"""An elementwise operator before an enlarging Resize has fewer elements."""

RESIZE_OF_UNARY = UNARY_OF_RESIZE.reversed("resize-of-unary")
"""An elementwise operator after a shrinking Resize has fewer elements."""

BINARY_OF_RESIZES = Rule(
    name="binary-of-resizes",
    source=(apply(BINARY, _resized(x), _resized(y)),),
    target=(_resized(apply(BINARY, x, y)),),
    guard=lambda m: [*equal(m.shape(x), m.shape(y)), *_nearest(m)],
    cases=_cases("nearest"),
)
"""One Resize of a result instead of two of the operands."""

SUM_OF_RESIZES = Rule(
    name="sum-of-resizes",
    source=(add(_resized(x), _resized(y)),),
    target=(_resized(add(x, y)),),
    guard=lambda m: [*equal(m.shape(x), m.shape(y)), *_in_space(m)],
    cases=_cases("linear", "cubic"),
)
"""One Resize of a sum instead of two: interpolation is linear."""

CONCAT_OF_RESIZES = Rule(
    name="concat-of-resizes",
    source=(concat(_resized(x), _resized(y), axis=axis),),
    target=(_resized(concat(x, y, axis=axis)),),
    guard=lambda m: [
        m.value(axis) < 2,
        *same_but(m.shape(x), m.shape(y), m.value(axis)),
        *_in_space(m),
    ],
    cases=(*_cases("nearest", "linear", axis=1), *_cases("nearest", axis=0)),
)
"""Equal Resizes of channels or images are one of all of them."""

RESIZE_OF_CONCAT = Rule(
    name="resize-of-concat",
    source=(_resized(concat(x, y, axis=axis)),),
    target=(concat(_resized(x), _resized(y), axis=axis),),
    guard=lambda m: [m.value(axis) < 2, *_in_space(m)],
    cases=(*_cases("nearest", "linear", axis=1), *_cases("nearest", axis=0)),
)
"""A Resize of a Concat need not wait for all parts."""

RESIZING = (
    POINTWISE_OF_RESIZE,
    RESIZE_OF_POINTWISE,
    UNARY_OF_RESIZE,
    RESIZE_OF_UNARY,
    BINARY_OF_RESIZES,
    SUM_OF_RESIZES,
    CONCAT_OF_RESIZES,
    RESIZE_OF_CONCAT,
)
