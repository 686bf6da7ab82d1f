"""Which depthwise and pointwise convolutions can be fused, and where that pays."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.graph.separable import TILE_ROWS, ConvolutionShapes, are_separable, pays
from compiler.net.operators.canonical import complete_attributes


def pair(
    channels: int, rows: int, size: int, kernel: int
) -> tuple[ConvolutionShapes, ConvolutionShapes]:
    """A depthwise convolution of a square image, and a pointwise one of its result."""
    image = (1, channels, size, size)
    padded = {"group": channels, "pads": [kernel // 2] * 4}
    weights, result = ((channels, 1, kernel, kernel), (rows, channels, 1, 1)), (1, rows, size, size)
    first, second = (
        complete_attributes("Conv", own, [image, weight])
        for own, weight in zip((padded, {}), weights, strict=True)
    )
    return (
        ConvolutionShapes(image, weights[0], image, first),
        ConvolutionShapes(image, weights[1], result, second),
    )


@given(
    st.integers(2, 2000), st.integers(1, TILE_ROWS), st.integers(1, 200), st.sampled_from([3, 7])
)
def test_one_tile_of_channels_always_pays(channels: int, rows: int, size: int, kernel: int):
    assert pays(*pair(channels, rows, size, kernel), 4)


@given(st.integers(2, 900), st.integers(1, 900), st.integers(3, 60), st.integers(1, 9))
def test_more_rows_or_taps_never_pay_where_fewer_do_not(
    channels: int, rows: int, size: int, kernel: int
):
    if not pays(*pair(channels, rows, size, kernel), 4):
        assert not pays(*pair(channels, rows + 100, size, kernel), 4)
        assert not pays(*pair(channels, rows, size, kernel + 2), 4)


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "expected"),
    [(44, 28, 5, True), (176, 7, 7, True), (216, 42, 7, False), (432, 21, 3, True),
     (432, 21, 5, False), (864, 11, 7, False)],
)  # fmt: skip
def test_nasnets_cells(channels: int, size: int, kernel: int, expected: bool):
    """By hand: a launch of 2 us, against 2 * 25 * 432 * 441 FLOPs three times, and so on."""
    assert pays(*pair(channels, channels, size, kernel), 4) is expected


def test_what_can_be_separable():
    depthwise, pointwise = pair(8, 4, 5, 3)
    assert are_separable(depthwise, pointwise)
    strided = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    one = replace(pointwise, image=(1, 8, 1, 1), result=(1, 4, 1, 1))
    for first, second in (
        (replace(depthwise, attributes={**depthwise.attributes, "group": 4}), pointwise),
        (replace(depthwise, weight=(16, 1, 3, 3), result=(1, 16, 5, 5)), pointwise),
        (depthwise, replace(pointwise, attributes={**pointwise.attributes, "group": 2})),
        (depthwise, replace(pointwise, image=(1, 8, 3, 3))),
        (
            replace(depthwise, result=(1, 8, 1, 1)),
            replace(one, attributes={**one.attributes, **strided}),
        ),
        (pointwise, depthwise),
    ):
        assert not are_separable(first, second)
