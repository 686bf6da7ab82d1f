"""HardSwish is right to the last digits where it is a difference of almost equal numbers."""

from fractions import Fraction

import numpy as np
import pytest
from onnx import parser

import compiler
from compiler.net.evaluation.activations import hard_swish

NAMES = {"float16": np.float16, "float": np.float32, "double": np.float64}


def exact(x: float) -> Fraction:
    """The result of the ONNX text, with alpha = 1/6."""
    share = Fraction(x) / 6 + Fraction(1, 2)
    return Fraction(x) * max(Fraction(0), min(Fraction(1), share))


@pytest.mark.parametrize(("name", "target"), [*((name, "cpu") for name in NAMES), ("float", "emu")])
def test_results_near_minus_three_have_all_their_digits(name: str, target: str):
    """x / 6 + 0.5 has a relative error of 1e-9 where x is 1e-7 above -3, in float64."""
    dtype = NAMES[name]
    limits = np.finfo(dtype)
    near = [-3 + 10.0**-k for k in range(1, 14)]
    spread = np.random.default_rng(0).uniform(-3, 3, 200)
    x = np.concatenate([near, spread, [3.0, 2.999, -2.5, 0, 100]]).astype(dtype)
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 14]> main ({name}[{x.size}] x) =>'
        f" ({name}[{x.size}] y) {{ y = HardSwish (x) }}"
    )
    results = [compiler.compile(model, target=target).run({"x": x})["y"]]
    if dtype is not np.float16:
        results.append(hard_swish(x))
    for result in results:
        for given, found in zip(x.tolist(), result.tolist(), strict=True):
            wanted = exact(given)
            bound = 4 * Fraction(float(limits.eps)) * abs(wanted)
            assert abs(Fraction(found) - wanted) <= bound + Fraction(float(limits.tiny)), given
