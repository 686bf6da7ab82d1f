"""Taps that read padding only are cropped, and nothing else changes."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.frontend.rules.dead_taps import live_taps
from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import shape_of
from tests.frontend.checks import parse

sizes = st.integers(1, 6)
paddings = st.integers(0, 30)


@settings(max_examples=200, deadline=None)
@given(sizes, sizes, st.integers(1, 3), st.integers(1, 9), st.tuples(paddings, paddings))
def test_cropping_keeps_every_read_of_the_image(
    image: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]
):
    outputs = (image + sum(pads) - (kernel - 1) * dilation - 1) // stride + 1
    assume(outputs > 0)
    taps = live_taps(image, kernel, stride, dilation, pads)
    reads = {
        (o, k): o * stride + k * dilation - pads[0] for o in range(outputs) for k in range(kernel)
    }
    inside = {at for at, place in reads.items() if 0 <= place < image}
    if taps is None:
        return
    assert all(k in taps for _, k in inside)
    before = pads[0] - taps.start * dilation
    after = pads[1] - (kernel - taps.stop) * dilation
    assert min(before, after) >= 0
    assert (image + before + after - (len(taps) - 1) * dilation - 1) // stride + 1 == outputs
    assert all(o * stride + (k - taps.start) * dilation - before == reads[o, k] for o, k in inside)


def result_of(weight: np.ndarray, x: np.ndarray, pads: list[int], dilations: list[int]):
    """The result of a convolution, and the shape of the weight that is left."""
    shape = ",".join(map(str, x.shape))
    text = f"""g (float[{shape}] x) => (float[n,f,h,w] y) {{
        y = Conv<pads={pads}, dilations={dilations}>(x, weight) }}"""
    imported = import_model(parse(text, 18, weight=weight))
    imported.module.verify()
    (conv,) = (op for op in imported.module.walk() if isinstance(op, OperatorOp))
    (y,) = interpret(imported.module, imported.weights, {"x": x}).values()
    return y, shape_of(conv.inputs[1].type)


@pytest.mark.parametrize(
    ("dilations", "pads", "left"),
    [
        ([24, 24], [24] * 4, (1, 1)),
        ([24, 2], [24, 2, 24, 2], (1, 3)),
        ([6, 9], [6, 9, 6, 9], (3, 1)),
        ([8, 9], [12, 9, 4, 9], (2, 1)),
        ([24, 24], [24, 0, 24, 48], (1, 1)),
        ([1, 1], [1] * 4, (3, 3)),
    ],
)
def test_a_dilated_convolution(dilations: list[int], pads: list[int], left: tuple[int, int]):
    generator = np.random.default_rng(3)
    x = generator.standard_normal((2, 5, 8, 9), np.float32)
    weight = generator.standard_normal((4, 5, 3, 3), np.float32)
    y, shape = result_of(weight, x, pads, dilations)
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    height, width = y.shape[2:]
    wanted = sum(
        np.einsum(
            "nihw,fi->nfhw",
            padded[..., i * dilations[0] :, j * dilations[1] :][..., :height, :width],
            weight[..., i, j],
        )
        for i in range(3)
        for j in range(3)
    )
    assert np.allclose(y, wanted, rtol=1e-5, atol=1e-5)
    assert tuple(shape[2:]) == left


def test_infinite_weights_keep_their_taps():
    weight = np.full((1, 1, 3, 3), np.inf, np.float32)
    y, shape = result_of(weight, np.ones((1, 1, 4, 4), np.float32), [9] * 4, [9, 9])
    assert tuple(shape[2:]) == (3, 3)
    assert np.isnan(y).all()


def test_a_window_of_any_length_is_cropped_at_once():
    half = 1 << 61
    assert live_taps(4, 2 * half, 1, 1, (half, half - 1)) == range(half - 3, half + 4)
