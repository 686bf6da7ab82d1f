"""Models whose own tensors have 16 bits, with and without Casts around what needs more."""

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.frontend import import_model
from compiler.frontend.interpreter import interpret
from tests.backends.emu.test_templates import error
from tests.kernels.gpu.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

PLAIN = """
<ir_version: 10, opset_import: ["" : 20]>
halves (float16[6,40] x, float16[40] scale, float16[40] shift) => (float16[6,24] y)
{
    n = LayerNormalization (x, scale, shift)
    m = MatMul (n, w)
    y = Softmax (m)
}
"""
CAST = """
<ir_version: 10, opset_import: ["" : 20]>
halves (float16[6,40] x, float[40] scale, float[40] shift) => (float16[6,24] y)
{
    wide = Cast<to = 1> (x)
    n = LayerNormalization (wide, scale, shift)
    narrow = Cast<to = 10> (n)
    m = MatMul (narrow, w)
    scores = Cast<to = 1> (m)
    p = Softmax (scores)
    y = Cast<to = 10> (p)
}
"""


def network(text: str) -> ModelProto:
    """The model with its weight."""
    model, chance = parser.parse_model(text), np.random.default_rng(0)
    weight = (chance.standard_normal((40, 24)) / 6).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


@pytest.mark.parametrize("text", [PLAIN, CAST])
def test_halves_are_right(text: str):
    model, chance = network(text), np.random.default_rng(1)
    kind = np.float16 if text is PLAIN else np.float32
    inputs = {
        "x": chance.standard_normal((6, 40)).astype(np.float16),
        "scale": chance.standard_normal(40).astype(kind),
        "shift": chance.standard_normal(40).astype(kind),
    }
    imported = import_model(model)
    expected = interpret(imported.module, imported.weights, inputs)["y"]
    module = compiler.compile(model, target="emu", precision="fp16")
    found = module.run(inputs)["y"]
    assert found.dtype == np.float16
    assert error(found, expected) < 2e-3
