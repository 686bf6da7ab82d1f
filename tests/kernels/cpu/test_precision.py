"""Float32 models that are stored in 16 bits on a CPU."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import compiler

STORED = {"fp16": np.dtype("float16"), "bf16": np.dtype(ml_dtypes.bfloat16)}
ERRORS = {"fp16": 2e-3, "bf16": 2e-2}


def two_layers(rows: int) -> onnx.ModelProto:
    """Two MatMuls by constant weights with a Tanh between them."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[{rows},32] x) => (float[{rows},24] y) {{
          h = MatMul (x, a) t = Tanh (h) y = MatMul (t, b)
        }}"""
    )
    generator = np.random.default_rng(rows)
    for name, shape in {"a": (32, 48), "b": (48, 24)}.items():
        weight = generator.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    return model


@pytest.mark.parametrize("precision", STORED)
@pytest.mark.parametrize(("rows", "narrow"), [(1, True), (8, True), (20, False)])
def test_weights_of_few_rows_have_16_bits(
    precision: str, rows: int, narrow: bool, tmp_path: Path
) -> None:
    model = two_layers(rows)
    inputs = {"x": np.random.default_rng(0).standard_normal((rows, 32)).astype(np.float32)}
    module = compiler.compile(model, precision=precision)
    assert isinstance(module, compiler.Module)
    assert module.target == f"cpu:{precision}"
    wanted = STORED[precision] if narrow else np.dtype("float32")
    assert {array.dtype for array in module.weights.values()} == {wanted}
    exact = compiler.compile(model).run(inputs)["y"]
    found = module.run(inputs)["y"]
    assert found.dtype == np.float32
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 0 < error < ERRORS[precision]
    module.save(tmp_path / "saved")
    np.testing.assert_array_equal(compiler.load(tmp_path / "saved").run(inputs)["y"], found)
