"""Contractions of bytes in wider types give the same integers."""

from collections import Counter

import numpy as np
import pytest

from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import OperatorOp
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse, run
from tests.lowered import import_lowered

RANDOM = np.random.default_rng(3)

MODELS = {
    "MatMul": "g (uint8[3,70] x) => (int32[3,5] y) { y = MatMulInteger(x, w, xz, wz) }",
    "Conv": "g (uint8[1,3,6,6] x) => (int32[1,4,6,6] y) {"
    " y = ConvInteger<pads=[1,1,1,1]>(x, w, xz) }",
}
WEIGHTS = {"MatMul": (70, 5), "Conv": (4, 3, 3, 3)}


@pytest.mark.parametrize("op_type", MODELS)
def test_no_contraction_of_bytes_is_left(op_type: str):
    weights = RANDOM.integers(-128, 128, WEIGHTS[op_type]).astype("i1")
    model = parse(MODELS[op_type], 21, w=weights, xz=np.uint8(130), wz=np.int8(-7))
    results: list[np.ndarray] = []
    shape = (3, 70) if op_type == "MatMul" else (1, 3, 6, 6)
    x = RANDOM.integers(0, 256, shape).astype("u1")
    for bytes in (True, False):
        imported = import_lowered(
            model, contraction=Contraction.BYTES if bytes else Contraction.FLOATS
        )
        types = Counter(o.type_name for o in imported.module.walk() if isinstance(o, OperatorOp))
        assert types[f"{op_type}Integer"] == bytes
        assert types[op_type] == (not bytes)
        (found,) = interpret(imported.module, imported.weights, {"x": x}).values()
        results.append(found)
    first, second = results
    np.testing.assert_array_equal(first, second)


def test_long_sums_are_in_float64():
    weights = RANDOM.integers(-128, 128, (2, 64, 5, 5)).astype("i1")
    text = "g (uint8[1,64,5,5] x) => (int32[1,2,1,1] y) { y = ConvInteger(x, w) }"
    module = import_lowered(parse(text, 21, w=weights), contraction=Contraction.FLOATS).module
    (conv,) = [o for o in module.walk() if isinstance(o, OperatorOp) and o.type_name == "Conv"]
    assert "f64" in str(conv.outputs[0].type)


DYNAMIC = """g (uint8[3,2000] x, float s) => (float[3,5] y) {
 p = MatMulInteger(x, w, xz)  f = Cast<to=1>(p)  y = Mul(f, s) }"""
VISIBLE = "g (uint8[3,2000] x) => (int32[3,5] y) { p = MatMulInteger(x, w, xz)  y = Neg(p) }"


@pytest.mark.parametrize(
    ("text", "largest", "dtype"),
    [(DYNAMIC, 127, "f32"), (VISIBLE, 127, "i32"), (VISIBLE, 20, "f32")],
    ids=["scaled", "long sums", "short sums"],
)
def test_floats_multiply_where_rounding_shows_nowhere(text: str, largest: int, dtype: str):
    weights = RANDOM.integers(-largest, largest + 1, (2000, 5)).astype("i1")
    model = parse(text, 21, w=weights, xz=np.uint8(130))
    inputs = {"x": RANDOM.integers(0, 256, (3, 2000)).astype("u1"), "s": np.array(0.02, "f4")}
    inputs = {info.name: inputs[info.name] for info in model.graph.input}
    imported = import_lowered(model, contraction=Contraction.FLOATS)
    walked = imported.module.walk()
    (matmul,) = [o for o in walked if isinstance(o, OperatorOp) and o.type_name == "MatMul"]
    assert dtype in str(matmul.outputs[0].type)
    (found,) = interpret(imported.module, imported.weights, inputs).values()
    (expected,) = run(model, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "f32" else 0)
