"""Merging and splitting of convolutions: along output and input channels, batch and groups."""

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.rewrite.patterns import (
    Apply,
    Bindings,
    Computed,
    Fill,
    Pattern,
    Unknown,
    Window,
    add,
    concat,
    conv,
    cut,
    extent,
    halves,
    tensors,
)
from compiler.rewrite.rule import Condition, Rule, equal
from compiler.rewrite.rules.extents import IMAGES, same_but

x, y = tensors("x y")
w, v = tensors("w v", constant=True)
b, c = tensors("b c", rank=1, constant=True)
window = Window()
group, second_group = Unknown("group"), Unknown("second group")
start, stop = Unknown("start"), Unknown("stop")
first, filters = Unknown("first"), Unknown("filters")


def _no_bias(weight: Any) -> Fill:
    return Fill(0.0, lambda m: (m.shape(weight)[0],), weight)


MERGE_SIBLINGS = Rule(
    name="merge-sibling-convolutions",
    source=(conv(x, w, b, window), conv(x, v, c, window)),
    target=halves(
        conv(x, concat(w, v, axis=0), concat(b, c, axis=0), window), 1, extent(w, 0), extent(v, 0)
    ),
    guard=lambda m: equal(m.shape(w)[1:], m.shape(v)[1:]),
    symmetric=True,
    cases=IMAGES,
)
"""Convolutions of one image, with kernels of one size, are one of more channels."""

NARROW = Rule(
    name="narrow-convolution",
    source=(cut(conv(x, w, b, window), 1, start, stop),),
    target=(conv(x, cut(w, 0, start, stop), cut(b, 0, start, stop), window),),
    cases=IMAGES,
)
"""A part of the channels of a convolution is a convolution with that part of the weights."""

SPLIT = Rule(
    name="split-convolution",
    source=(conv(x, w, b, window),),
    target=(
        concat(
            conv(x, cut(w, 0, 0, first), cut(b, 0, 0, first), window),
            conv(x, cut(w, 0, first, extent(w, 0)), cut(b, 0, first, extent(w, 0)), window),
            axis=1,
        ),
    ),
    guard=lambda m: (m.value(first) > 0, m.value(first) < m.shape(w)[0]),
    parameters=lambda m: [{first: m.shape(w)[0] // 2}],
    cases=IMAGES,
    searched=False,
)
"""A convolution is two of half the channels, which run next to each other."""

SUM_SIBLINGS = Rule(
    name="sum-sibling-convolutions",
    source=(add(conv(x, w, b, window, group), conv(x, v, c, window, group)),),
    target=(conv(x, add(w, v), add(b, c), window, group),),
    guard=lambda m: equal(m.shape(w), m.shape(v)),
    cases=IMAGES,
)
"""The sum of convolutions of one image is one with the sum of the weights."""

MERGE_SUMMED = Rule(
    name="merge-summed-convolutions",
    source=(add(conv(x, w, b, window), conv(y, v, c, window)),),
    target=(conv(concat(x, y, axis=1), concat(w, v, axis=1), add(b, c), window),),
    guard=lambda m: [
        *same_but(m.shape(x), m.shape(y), 1),
        *same_but(m.shape(w), m.shape(v), 1),
    ],
    cases=IMAGES,
)
"""The sum of convolutions of two images is one of both images' channels (a deeper GEMM)."""

SUM_IMAGES = Rule(
    name="sum-images-of-convolutions",
    source=(add(conv(x, w, b, window, group), conv(y, w, c, window, group)),),
    target=(conv(add(x, y), w, add(b, c), window, group),),
    guard=lambda m: equal(m.shape(x), m.shape(y)),
    cases=IMAGES,
)
"""The sum of convolutions with the same weights is one of the sum of the images."""

DISTRIBUTE = Rule(
    name="distribute-convolution-over-add",
    source=(conv(add(x, y), w, b, window, group),),
    target=(add(conv(x, w, b, window, group), conv(y, w, _no_bias(w), window, group)),),
    guard=lambda m: equal(m.shape(x), m.shape(y)),
    cases=IMAGES,
    searched=False,
)
"""A convolution of a sum need not wait for the sum."""

DISTRIBUTE_WEIGHTS = Rule(
    name="distribute-convolution-over-weights",
    source=(conv(x, add(w, v), b, window, group),),
    target=(add(conv(x, w, b, window, group), conv(x, v, _no_bias(w), window, group)),),
    guard=lambda m: equal(m.shape(w), m.shape(v)),
    cases=IMAGES,
    searched=False,
)
"""A convolution with a sum of weights is a sum of convolutions; for derivations."""

SPLIT_CHANNELS = Rule(
    name="split-convolution-of-concat",
    source=(conv(concat(x, y, axis=1), w, b, window),),
    target=(
        add(
            conv(x, cut(w, 1, 0, extent(x, 1)), b, window),
            conv(y, cut(w, 1, extent(x, 1), extent(w, 1)), _no_bias(w), window),
        ),
    ),
    cases=IMAGES,
)
"""A convolution of a Concat starts on the part that is ready first."""

MERGE_BATCHES = Rule(
    name="merge-convolutions-over-batch",
    source=(conv(x, w, b, window, group), conv(y, w, b, window, group)),
    target=halves(conv(concat(x, y, axis=0), w, b, window, group), 0, extent(x, 0), extent(y, 0)),
    guard=lambda m: same_but(m.shape(x), m.shape(y), 0),
    symmetric=True,
    cases=IMAGES,
)
"""Convolutions of two images with the same weights are one of a larger batch."""

SPLIT_BATCH = Rule(
    name="split-convolution-over-batch",
    source=(conv(concat(x, y, axis=0), w, b, window, group),),
    target=(concat(conv(x, w, b, window, group), conv(y, w, b, window, group), axis=0),),
    cases=IMAGES,
)
"""A convolution of a batch of two images is two, each of which waits for its image only."""


def _same_groups(bindings: Bindings) -> list[Condition]:
    """The conditions that the groups of two convolutions have one size."""
    return [
        *equal(bindings.shape(w)[1:], bindings.shape(v)[1:]),
        bindings.shape(w)[0] * bindings.value(second_group)
        == bindings.shape(v)[0] * bindings.value(group),
    ]


def _grouped(left: Pattern, right: Pattern) -> Apply:
    """The convolution with the groups of two."""
    weight, bias = concat(w, v, axis=0), concat(b, c, axis=0)
    image = concat(left, right, axis=1)
    return conv(image, weight, bias, window, lambda m: m.value(group) + m.value(second_group))


MERGE_GROUPS = Rule(
    name="merge-grouped-convolutions",
    source=(conv(x, w, b, window, group), conv(y, v, c, window, second_group)),
    target=halves(_grouped(x, y), 1, extent(w, 0), extent(v, 0)),
    guard=lambda m: [*same_but(m.shape(x), m.shape(y), 1), *_same_groups(m)],
    symmetric=True,
    cases=IMAGES,
    searched=False,
)
"""Convolutions of two images, with groups of one size, are one with the groups of both.

Without equal inputs and outputs in each group the channels of the second would be wrong.
"""

MERGE_GROUPED_SIBLINGS = Rule(
    name="merge-sibling-grouped-convolutions",
    source=(conv(x, w, b, window, group), conv(x, v, c, window, second_group)),
    target=halves(_grouped(x, x), 1, extent(w, 0), extent(v, 0)),
    guard=lambda m: [m.value(group) > 1, *_same_groups(m)],
    symmetric=True,
    cases=IMAGES,
)
"""Depthwise convolutions of one image are one of two copies of it (NASNet's cells)."""


def _parts(bindings: Bindings) -> Iterable[Mapping[Unknown, Any]]:
    """Half of the groups first."""
    groups = bindings.value(group)
    return [{first: groups // 2, filters: bindings.shape(w)[0] // groups}]


def _part(start: Computed, stop: Computed, groups: Computed) -> Pattern:
    """The convolution of the groups from `start` to before `stop`."""

    def inputs(number: Computed) -> Computed:
        return lambda m: number(m) * m.shape(w)[1]

    def outputs(number: Computed) -> Computed:
        return lambda m: number(m) * m.value(filters)

    channels = cut(x, 1, inputs(start), inputs(stop))
    weight, bias = (cut(t, 0, outputs(start), outputs(stop)) for t in (w, b))
    return conv(channels, weight, bias, window, groups)


SPLIT_GROUPS = Rule(
    name="split-grouped-convolution",
    source=(conv(x, w, b, window, group),),
    target=(
        concat(
            _part(lambda m: 0, lambda m: m.value(first), lambda m: m.value(first)),
            _part(
                lambda m: m.value(first),
                lambda m: m.value(group),
                lambda m: m.value(group) - m.value(first),
            ),
            axis=1,
        ),
    ),
    guard=lambda m: (
        m.value(first) > 0,
        m.value(first) < m.value(group),
        m.value(group) * m.value(filters) == m.shape(w)[0],
    ),
    parameters=_parts,
    cases=IMAGES,
    searched=False,
)
"""A grouped convolution is two of half the groups, which run next to each other."""

CONVOLUTIONS = (
    MERGE_SIBLINGS,
    NARROW,
    SPLIT,
    SUM_SIBLINGS,
    MERGE_SUMMED,
    SUM_IMAGES,
    DISTRIBUTE,
    DISTRIBUTE_WEIGHTS,
    SPLIT_CHANNELS,
    MERGE_BATCHES,
    SPLIT_BATCH,
    MERGE_GROUPS,
    MERGE_GROUPED_SIBLINGS,
    SPLIT_GROUPS,
)
