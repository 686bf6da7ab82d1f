"""Every failure that the search found and kept stays repaired; the search's own parts work."""

from collections.abc import Generator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.fuzz import differences_page
from tests.fuzz.__main__ import CASES
from tests.fuzz.case import Case, Failure, load, save
from tests.fuzz.catalogue import FAMILIES
from tests.fuzz.compare import compared, judges
from tests.fuzz.graphs import random_graph
from tests.fuzz.workers import Worker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def worker() -> Generator[Worker, None, None]:
    """A process in which cases may crash."""
    worker = Worker()
    yield worker
    worker.stop()


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_case_is_right(path: Path, worker: Worker):
    outcome = worker.judge(load(path))
    assert outcome.failure is None, outcome.failure.message


def test_the_differences_page_is_fresh():
    page = (ROOT / "docs" / "differences.md").read_text()
    assert page == differences_page.generate(), "run python -m tests.fuzz.differences_page"


def test_every_operator_has_a_generator():
    from compiler.frontend.rules import RULES
    from compiler.net.operators import KINDS

    made_with_others = {"Upsample", "SequenceEmpty", "SequenceInsert", "SequenceLength"}
    within = {"SequenceAt", "SequenceErase", "ConcatFromSequence"}
    rewritten = {"ConvFloat8", "FourierTransform", "MatMulFloat8", "PartialRanges", "Recurrence"}
    rewritten |= {"KeptBoxes", "NonZeroPositions", "Positions", "ScatterOrder", "SegmentReduce"}
    assert {*KINDS, *RULES} - FAMILIES.keys() <= made_with_others | within | rewritten


def test_float64_judges_what_onnxruntime_refuses():
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (bfloat16[3] x, bfloat16[3] y) => (bfloat16[3] z) { z = Add(x, y) }"""
    x, y = np.array([[1, 2.5, -3], [1, 0.25, 3]], ml_dtypes.bfloat16)
    model = onnx.parser.parse_model(text).SerializeToString()
    expected = judges(Case("narrow", 0, model, {"x": x, "y": y}))
    assert [each.judge.name for each in expected] == ["float64"]
    assert compared(expected, {"z": x + y}) is None
    wrong = compared(expected, {"z": x - y})
    assert wrong is not None
    assert wrong.key == "wrong"


def test_a_transform_of_two_points_has_no_imaginary_part():
    """The judge in float64 computes it as a product by unit roots, whose quarters are exact."""
    text = """<ir_version: 10, opset_import: ["": 17]>
        g (float[1, 11, 1] x) => (float[1, 5, 2, 2] y) <int64 step = {2}, int64 frame = {2}>
        { y = STFT<onesided = 1>(x, step, "", frame) }"""
    x = np.random.default_rng(0).standard_normal((1, 11, 1), np.float32)
    expected = judges(
        Case("graphs", 0, onnx.parser.parse_model(text).SerializeToString(), {"x": x})
    )
    pairs = x[0, :10, 0].reshape(5, 2)
    right = np.zeros((1, 5, 2, 2), np.float32)
    right[0, :, :, 0] = np.stack([pairs.sum(1), pairs[:, 0] - pairs[:, 1]], 1)
    assert compared(expected, {"y": right}) is None
    wrong = compared(expected, {"y": right + np.float32(1e-4)})
    assert wrong is not None
    assert "by float64: 20 of 20" in wrong.message


def test_folded_results_may_be_rounded():
    text = """<ir_version: 10, opset_import: ["": 21]> g () => (float[3] y, float[3] z)
        <float[3] x = {0.3, 0.7, 1.1}> { y = Exp(x) z = Neg(x) }"""
    expected = judges(Case("graphs", 0, onnx.parser.parse_model(text).SerializeToString(), {}))
    x = np.array([0.3, 0.7, 1.1], np.float32)
    assert compared(expected, {"y": np.nextafter(np.exp(x), np.float32(9)), "z": -x}) is None
    for results in ({"y": np.exp(x) * np.float32(1.00001)}, {"z": np.nextafter(-x, x)}):
        wrong = compared(expected, results)
        assert wrong is not None
        assert "by float64: 3 of 3" in wrong.message


def test_a_failure_says_what_each_judge_found():
    text = "<ir_version: 10, opset_import: ['': 21]> g (float[2] x) => (float[2] y) { y = Exp(x) }"
    model = onnx.parser.parse_model(text.replace("'", '"')).SerializeToString()
    x = np.array([1, 2], np.float32)
    expected = judges(Case("graphs", 0, model, {"x": x}))
    assert compared(expected, {"y": np.exp(x)}) is None
    wrong = compared(expected, {"y": np.exp(x) * np.float32(1.001)})
    assert wrong is not None
    assert "by onnxruntime: 2 of 2" in wrong.message
    assert "by float64: 2 of 2" in wrong.message


def test_a_transform_is_judged_as_its_target_computes_it():
    text = """<ir_version: 10, opset_import: ["": 17]>
        g (float[1, 2, 1] x) => (float[1, 2, 2] y) { y = DFT (x) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    x = np.array([0.75, 0.3], np.float32)
    bins = np.array([[[x.sum(), 0], [x[0] - x[1], 0]]], np.float32)
    expected = judges(Case("graphs", 0, model, {"x": x.reshape(1, 2, 1)}, target="emu:sm_90:fp32"))
    assert [each.judge.name for each in expected] == ["onnxruntime", "float64"]
    assert compared(expected, {"y": bins}) is None
    assert compared(expected, {"y": bins + np.float32(1e-4)}) is not None


def test_a_seed_gives_the_same_case(tmp_path: Path):
    first, second = random_graph(5, "cpu"), random_graph(5, "cpu")
    assert first is not None
    assert second is not None
    assert first.model == second.model
    save(first, Failure("key", "message"), tmp_path / "case.json")
    again = load(tmp_path / "case.json")
    assert again.model == first.model
    assert {n: a.tobytes() for n, a in again.feeds.items()} == {
        n: a.tobytes() for n, a in first.feeds.items()
    }
