"""Attention whose scores and weights are viewed in other batches, as in windows, is one kernel."""

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.tools.reference import run_onnxruntime
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.gpu.templates.test_attention_operands import BOUNDS, attentions

IMAGES, WINDOWS, HEADS, ROWS, SIZE = 2, 3, 2, 9, 8

FORMS = {
    "shifted windows": """
        placed = Add (raw, places)
        image = Reshape (placed, images)
        masked = Add (image, windows)
        scores = Reshape (masked, batch)
        weights = Softmax <axis = -1> (scores)
        seen = MatMul (weights, v)
    """,
    "two masks and a scale of each head": """
        scaled = Mul (raw, temperatures)
        placed = Add (scaled, places)
        image = Reshape (placed, images)
        once = Add (windows, image)
        twice = Add (once, windows)
        scores = Reshape (twice, batch)
        weights = Softmax <axis = -1> (scores)
        seen = MatMul (weights, v)
    """,
    "weights of an image": """
        image = Reshape (raw, images)
        masked = Add (image, windows)
        weights = Softmax <axis = -1> (masked)
        values = Reshape (v, images_of_values)
        seen5 = MatMul (weights, values)
        seen = Reshape (seen5, batch)
    """,
    "heads as a batch": """
        flat = Reshape (raw, heads)
        image = Reshape (flat, images)
        masked = Where (kept, image, lowest)
        weights = Softmax <axis = -1> (masked)
        same = Reshape (weights, batch)
        seen = MatMul (same, v)
    """,
    "values of one head each": """
        image = Reshape (raw, images)
        masked = Add (image, windows)
        weights = Softmax <axis = -1> (masked)
        flat = Reshape (weights, heads)
        values = Reshape (v, heads_of_values)
        seen3 = MatMul (flat, values)
        seen = Reshape (seen3, batch)
    """,
}
"""How the scores `raw`, of (images * windows, heads, rows, rows), become `seen`."""

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
windows (float[6,9,16] x) => (float[6,9,16] y)
{{
    packed = MatMul (x, projection)
    split = Reshape (packed, five)
    moved = Transpose <perm = [2,0,3,1,4]> (split)
    q5, k5, v5 = Split <axis = 0, num_outputs = 3> (moved)
    q = Squeeze (q5, first)
    k0 = Squeeze (k5, first)
    v = Squeeze (v5, first)
    k = Transpose <perm = [0,1,3,2]> (k0)
    raw = MatMul (q, k)
    {form}
    rows = Transpose <perm = [0,2,1,3]> (seen)
    merged = Reshape (rows, lines)
    y = MatMul (merged, mixing)
}}
"""

CONSTANTS = {
    "five": np.array([6, ROWS, 3, HEADS, SIZE]), "first": np.array([0]),
    "images": np.array([IMAGES, WINDOWS, HEADS, ROWS, ROWS]),
    "images_of_values": np.array([IMAGES, WINDOWS, HEADS, ROWS, SIZE]),
    "batch": np.array([6, HEADS, ROWS, -1]), "lines": np.array([6, ROWS, 16]),
    "heads": np.array([12, ROWS, ROWS]), "heads_of_values": np.array([12, ROWS, SIZE]),
    "lowest": np.array(-1e9, np.float32),
}  # fmt: skip
WEIGHTS = {
    "projection": (16, 48), "mixing": (16, 16), "places": (1, HEADS, ROWS, ROWS),
    "windows": (1, WINDOWS, 1, ROWS, ROWS), "temperatures": (HEADS, 1, 1),
}  # fmt: skip


def model(form: str) -> ModelProto:
    """A projection, attention of one of these forms, and a projection of its result."""
    found = parser.parse_model(MODEL.format(form=FORMS[form]))
    chance = np.random.default_rng(0)
    values = {n: chance.standard_normal(s).astype(np.float32) for n, s in WEIGHTS.items()}
    kept = {"kept": chance.random((1, WINDOWS, 1, ROWS, ROWS)) < 0.8}
    for name, array in {**CONSTANTS, **kept, **values}.items():
        found.graph.initializer.append(numpy_helper.from_array(array, name))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_kernel(form: str):
    (group,) = attentions(model(form), "fp16")
    assert [op.type for op in group.operators].count("MatMul") == 2


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("form", FORMS)
def test_results(form: str):
    found = model(form)
    inputs = {"x": np.random.default_rng(1).standard_normal((6, 9, 16), np.float32)}
    (expected,) = run_onnxruntime(found, inputs).values()
    result = compiler.compile(found, target="emu", precision="fp16").run(inputs)["y"]
    error = np.linalg.norm(result - expected) / np.linalg.norm(expected)
    assert error < BOUNDS["fp16"]


SHARED = """
<ir_version: 10, opset_import: ["" : 20]>
shared (float[9,8] q, float[8,11] k, float[3,11,8] v, float[9,11] m) => (float[3,9,8] y)
{
    raw = MatMul (q, k)
    scores = Add (raw, m)
    weights = Softmax <axis = -1> (scores)
    y = MatMul (weights, v)
}
"""


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
def test_weights_without_a_batch_of_several_values():
    found, chance = parser.parse_model(SHARED), np.random.default_rng(2)
    shapes = {"q": (9, 8), "k": (8, 11), "v": (3, 11, 8), "m": (9, 11)}
    inputs = {n: chance.standard_normal(shape, np.float32) for n, shape in shapes.items()}
    (expected,) = run_onnxruntime(found, inputs).values()
    result = compiler.compile(found, target="emu", precision="fp16").run(inputs)["y"]
    assert np.linalg.norm(result - expected) / np.linalg.norm(expected) < BOUNDS["fp16"]
