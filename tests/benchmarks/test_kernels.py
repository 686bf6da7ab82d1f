"""The groups that the benchmark of single kernels takes for one call of a library."""

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

from benchmarks.kernels import TYPES, library_call
from compiler.autotune.kernels.prepare import fused_groups
from compiler.frontend.importing import import_model
from compiler.target.target import parse_gpu


def calls(body: str, precision: str) -> list[dict[str, Any] | None]:
    """The calls for the contractions of a network on 16 channels of 8x8 images."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[1,16,8,8] x) => (float[1,16,8,8] y) {{ {body} }}"""
    )
    for name, shape in (("w", (16, 16, 1, 1)), ("b", (16,))):
        array = np.ones(shape, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    groups = fused_groups(import_model(model).module, parse_gpu(f"cuda:sm_90:{precision}"))
    found = [
        (g, next((op for op in g.operators if op.type in TYPES), None)) for g in groups.values()
    ]
    return [library_call(group, anchor) for group, anchor in found if anchor is not None]


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_a_bias_a_residual_and_a_relu_are_one_call(precision: str):
    first, second = calls(
        "p = Conv (x, w, b) q = Relu (p) r = Conv (q, w, b) s = Add (r, q) y = Relu (s)", precision
    )
    assert first is not None
    assert second is not None
    assert (first["relu"], first["residual"], len(first["operands"])) == (True, None, 3)
    assert second["relu"]
    assert second["residual"] == second["operands"][0]


@pytest.mark.parametrize(
    "body",
    [
        "p = Conv (x, w, b) y = Sigmoid (p)",
        "p = Conv (x, w, b) q = Relu (p) y = Add (q, x)",
        "p = Conv (x, w, b) q = Add (p, x) y = Add (q, x)",
    ],
)
def test_what_is_no_single_call_has_no_time(body: str):
    assert calls(body, "tf32") == [None]
