"""`--check`: bounds by precision, the cause of what exceeds them, and onnxruntime's refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from compiler.tools.cli import main
from compiler.tools.comparison import check_with_onnxruntime, compare
from compiler.tools.reference import Refusal, run_onnxruntime
from compiler.tools.tolerance import LARGEST_ELEMENT_FACTOR, TOLERANCES

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("precision", TOLERANCES)
def test_an_error_within_the_bound_passes_and_one_beyond_fails(precision: str):
    y = normal(1000)
    bound = TOLERANCES[precision]
    for factor in (0.5, 2):
        noise = normal(1000, seed=1)
        noise *= factor * bound * np.linalg.norm(y) / np.linalg.norm(noise)
        report = compare({"y": y + noise}, {"y": y}, precision)
        assert report.passed == (factor < 1)
        assert f"(bound {bound:.2g})" in str(report)


def test_a_single_wrong_element_fails_where_the_norm_hides_it():
    y = normal(1 << 20)
    wrong = y.copy()
    wrong[7] += 1
    (difference,) = compare({"y": wrong}, {"y": y}, "tf32").differences
    assert difference.relative < difference.bound
    assert difference.largest > LARGEST_ELEMENT_FACTOR * difference.bound
    assert not difference.passed


@pytest.mark.parametrize(
    ("actual", "message"),
    [
        ({}, "the output is missing"),
        ({"y": np.array([1, 2], np.float64)}, "is float64[2], the reference is float32[2]"),
        ({"y": np.array([[1, 2]], np.float32)}, "is float32[1, 2], the reference is float32[2]"),
        ({"y": np.array([1, np.nan], np.float32)}, "1 of 2 are NaN"),
        ({"y": np.array([1, -np.inf], np.float32)}, "1 of 2 are NaN or infinite"),
    ],
)
def test_what_no_figure_expresses_is_said(actual: dict[str, Array], message: str):
    report = compare(actual, {"y": np.array([1, 2], np.float32)})
    assert not report.passed
    assert message in str(report)


def test_integers_are_equal_or_counted():
    y = np.arange(5)
    assert compare({"y": y}, {"y": y}, "bf16").passed
    assert "FAIL y: 1 of 5 differ" in str(compare({"y": np.array([0, 1, 2, 3, 5])}, {"y": y}))


def test_equal_infinities_zeros_and_empty_outputs_pass():
    odd = np.array([np.inf, -np.inf, np.nan, 0, 0], np.float32)
    assert compare({"y": odd}, {"y": odd}).passed
    assert compare({"y": odd[:0]}, {"y": odd[:0]}).passed
    assert not compare({"y": np.ones(1, np.float32)}, {"y": np.zeros(1, np.float32)}).passed


@pytest.fixture
def sensitive(tmp_path: Path) -> Path:
    """y = x (a - b) of two weights that are equal but for a millionth."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "main (float[4,64] x) => (float[4,64] y) { p = MatMul (x, a) q = MatMul (x, b)"
        " y = Sub (p, q) }"
    )
    a, d = normal(64, 64), normal(64, 64, seed=1)
    for name, array in (("a", a), ("b", (a + 1e-6 * d).astype(np.float32))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = tmp_path / "sensitive.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_the_error_of_a_precision_is_told_from_a_wrong_result(sensitive: Path):
    inputs = {"x": normal(4, 64)}
    exact = run_onnxruntime(sensitive, inputs)["y"]
    noisy = exact + 0.05 * normal(4, 64, seed=2) * np.abs(exact).max()
    report = check_with_onnxruntime(sensitive, "cuda:sm_90:tf32", inputs, {"y": noisy})
    assert not report.passed
    assert "the model is sensitive" in str(report)
    assert "the result is wrong" in str(
        check_with_onnxruntime(sensitive, "cpu", inputs, {"y": -exact})
    )


REFUSED = """<ir_version: 10, opset_import: ["" : 18]>
main (float[n,8] x) => (float[1,8] y) <int64[2] s = {1, 8}> { y = Reshape (x, s) }
"""


def test_a_refusal_while_running_is_onnxruntimes(tmp_path: Path):
    model = parser.parse_model(REFUSED).SerializeToString()
    with pytest.raises(Refusal, match=r"^onnxruntime refuses to run the model: .*Reshape"):
        run_onnxruntime(model, {"x": normal(2, 8)})
    with pytest.raises(Refusal, match=r"^onnxruntime refuses to load the model: "):
        run_onnxruntime(b"\x08\x0a", {})


def test_a_refusal_is_one_line_and_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    text = REFUSED.replace("{1, 8}", "{-1, 8}").replace("[1,8] y", "[n,8] y")
    good.write_bytes(parser.parse_model(text).SerializeToString())
    bad.write_bytes(parser.parse_model(REFUSED).SerializeToString())
    shape = ["--input-shape", "x=2,8"]
    assert main(["run", str(good), *shape, "--check"]) == 0
    assert "inputs: random, seed 0" in capsys.readouterr().out
    artifact = str(tmp_path / "built")
    assert main(["compile", str(good), "-o", artifact, *shape]) == 0
    assert main(["run", artifact, "--check", str(bad), "--seed", "3"]) == 2
    output = capsys.readouterr()
    assert "inputs: random, seed 3" in output.out
    assert output.err.startswith("flowloom: not checked: onnxruntime refuses to run the model: ")
    assert output.err.count("\n") == 1
