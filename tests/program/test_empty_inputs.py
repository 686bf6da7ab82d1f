"""Tensors without elements: batches of none, and updates of nothing."""

import numpy as np

import compiler
from tests.program.checks import assert_equal, check, compiled, model_of, reference

RANDOM = np.random.default_rng(0)


def test_convolutions_of_a_batch_of_none():
    text = """g (float[n, 4, 6, 6] x, float[4, 4, 3, 3] w, float[4, 2, 3, 3] v, float[4] bias) =>
        (float[n, 4, a, b] p, float[n, 4, c, d] q, float[n, 4, e, f] r) {
            p = Conv<pads = [1, 1, 1, 1]>(x, w)
            q = Conv<group = 2>(x, v)
            r = ConvTranspose<group = 2, strides = [2, 2]>(x, v, bias)
        }"""
    module = compiled(text)
    for batch in (0, 2):
        shapes = {"x": (batch, 4, 6, 6), "w": (4, 4, 3, 3), "v": (4, 2, 3, 3), "bias": (4,)}
        inputs = {name: RANDOM.standard_normal(shape) for name, shape in shapes.items()}
        check(module, model_of(text), {name: x.astype(np.float32) for name, x in inputs.items()})


def test_a_scatter_of_no_updates_is_a_copy():
    model = model_of(
        """g (float[7, 3] x, int64[0, 3] i, float[0, 3] u) => (float[7, 3] y) {
            y = ScatterElements<axis = 0, reduction = "add">(x, i, u)
        }"""
    )
    x = RANDOM.standard_normal((7, 3)).astype(np.float32)
    inputs = {"x": x, "i": np.zeros((0, 3), np.int64), "u": np.zeros((0, 3), np.float32)}
    found = compiler.compile(model, dynamic=False).run(inputs)
    assert_equal(found["y"], reference(model, inputs)["y"])
