"""The geometry of convolutions against brute force."""

from itertools import product

import numpy
from hypothesis import given
from hypothesis import strategies as st

from compiler.kernels.cpu.convolution import Convolution, Depth, transposed_phases


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    """One-channel convolutions of any stride, dilation and padding."""
    pairs = st.tuples(st.integers(1, 4), st.integers(1, 4))
    image = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    kernel, strides, dilations = draw(pairs), draw(pairs), draw(pairs)
    before = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    after = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padded = [max(n + a + b, s) for n, a, b, s in zip(image, before, after, span, strict=True)]
    rows, columns = ((p - s) // t + 1 for p, s, t in zip(padded, span, strides, strict=True))
    return Convolution(1, 1, 1, 1, image, kernel, strides, dilations, before, (rows, columns))


def filled(conv: Convolution, image: numpy.ndarray) -> numpy.ndarray:
    """The planes of an image, element by element, and NaN after them."""
    planes = conv.planes
    result = numpy.full(planes.phases * planes.plane + planes.pitch, numpy.nan)
    numbered = enumerate(product(planes.row_phases, planes.column_phases))
    for number, (a, b) in numbered:
        base = number * planes.plane
        result[base : base + planes.plane] = 0
        for y, x in product(range(planes.rows), range(planes.pitch)):
            row = y * conv.strides[0] + a - conv.pads[0]
            column = x * conv.strides[1] + b - conv.pads[1]
            if 0 <= row < conv.image[0] and 0 <= column < conv.image[1]:
                result[base + y * planes.pitch + x] = image[row, column]
    return result


@given(convolutions())
def test_every_tap_reads_its_input_element(conv: Convolution) -> None:
    image = numpy.arange(1.0, 1 + conv.image[0] * conv.image[1]).reshape(conv.image)
    planes = filled(conv, image)
    for i, j in product(range(conv.kernel[0]), range(conv.kernel[1])):
        shift = conv.planes.shift(i, j, conv.dilations)
        for y, x in product(range(conv.output[0]), range(conv.output[1])):
            row = y * conv.strides[0] + i * conv.dilations[0] - conv.pads[0]
            column = x * conv.strides[1] + j * conv.dilations[1] - conv.pads[1]
            inside = 0 <= row < conv.image[0] and 0 <= column < conv.image[1]
            want = image[row, column] if inside else 0
            assert planes[y * conv.planes.pitch + x + shift] == want


@given(convolutions())
def test_planes_avoid_the_page_size(conv: Convolution) -> None:
    assert conv.planes.plane % 1024


@given(*[st.integers(1, 6)] * 4, st.integers(0, 7), st.integers(1, 6))
def test_taps_outside_the_depth_are_left_out(
    image: int, kernel: int, stride: int, dilation: int, pad: int, output: int
) -> None:
    depth, live = Depth(image, kernel, stride, dilation, pad, output), 0
    for slice_ in range(output):
        inside = [k for k in range(kernel) if 0 <= depth.place(slice_, k) < image]
        first, last = int(depth.first_tap(slice_)), int(depth.last_tap(slice_))
        assert list(range(first, last)) == inside
        live += len(inside)
    assert depth.live_taps == live


@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.integers(0, 6), st.integers(1, 20)
)
def test_transposed_phases_cover_each_tap_of_each_result_once(
    stride: int, dilation: int, kernel: int, pad: int, extent: int
) -> None:
    seen = sorted(
        (q * stride + p.phase, p.first + j * p.step, q + p.offset + j * p.spacing)
        for p in transposed_phases(stride, dilation, kernel, pad, extent)
        for q in range(p.count)
        for j in range(p.taps)
    )
    want = sorted(
        (i * stride + k * dilation - pad, k, i)
        for i in range(-extent - 40, extent + 40)
        for k in range(kernel)
        if 0 <= i * stride + k * dilation - pad < extent
    )
    assert seen == want
