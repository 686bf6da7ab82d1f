"""The run of ONNX's node cases, and the page that is made of it."""

import json
import os
import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import onnx
import pytest

from tests.pages.onnx_coverage import (
    PAGE,
    TargetCounts,
    contrib_section,
    page,
    recorded_counts,
    row,
    run_coverage,
)
from tests.pages.onnx_nodes import CaseResult, node_cases, operator_of, read_results, run_cases

ROOT = Path(__file__).parent.parent
MOST_CASES = 4
"""The most cases of an operator whose line of the page is tested."""


def covered(tmp_path: Path, *only: str) -> list[CaseResult]:
    """The results of the cases of some operators, from the command line."""
    file = tmp_path / "coverage.json"
    run_coverage(["--jobs", "1", "--json", str(file), "--only", *only])
    return read_results(file)


def test_cases_are_run_in_their_order(tmp_path: Path):
    found = covered(tmp_path, "Relu", "Sign", "NonZero")
    assert [result.name for result in found] == [*node_cases(["Relu", "Sign", "NonZero"])]
    by_operator = {result.operator: result for result in found}
    assert by_operator["Relu"].outcome == "right"
    assert by_operator["NonZero"].outcome == "right"
    assert by_operator["NonZero"].on_host
    assert not by_operator["Relu"].on_host


def test_a_case_that_ends_its_process_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "import compiler.backend as backend\n"
        "prepare = backend.FlowloomBackend.prepare\n"
        "def end(model, **options):\n"
        "    if model.graph.node[0].op_type == 'Sign':\n"
        "        os._exit(3)\n"
        "    return prepare(model, **options)\n"
        "backend.FlowloomBackend.prepare = end\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    found = covered(tmp_path, "Sign", "Relu")
    outcomes = {result.name: result.outcome for result in found}
    assert outcomes["test_sign"] == "crashed"
    assert outcomes["test_relu"] == "right"
    assert {result.outcome for result in found} == {"crashed", "right"}


def test_an_expanded_case_counts_as_its_functions():
    cases = node_cases()
    names = ("celu_expanded", "layer_normalization_2d_axis0_expanded_ver18", "sce_mean_expanded")
    found = [operator_of(f"test_{name}", cases) for name in names]
    assert found == ["Celu", "LayerNormalization", "SoftmaxCrossEntropyLoss"]


def written_rows() -> dict[str, str]:
    """The lines of the page's table by operator."""
    lines = PAGE.read_text().partition("## com.microsoft")[0].splitlines(keepends=True)
    return {line.split(" | ")[0][2:]: line for line in lines if line.startswith("| ")}


def test_the_page_has_the_cases_of_the_installed_onnx():
    cases = node_cases()
    counts = Counter(operator_of(name, cases) for name in cases)
    rows = written_rows()
    del rows["operator"]
    assert {name: int(line.split(" | ")[2]) for name, line in rows.items()} == counts
    text = PAGE.read_text()
    assert f"the node cases of onnx {onnx.__version__}," in text
    assert text.endswith(contrib_section())
    assert f" of {len(cases)} right**" in text


def test_lines_of_the_page_are_true(tmp_path: Path):
    """Those of three operators that are drawn."""
    cases = node_cases()
    counts = Counter(operator_of(name, cases) for name in cases)
    few = sorted(name for name, count in counts.items() if count <= MOST_CASES)
    names = random.Random(os.environ["FLOWLOOM_FUZZ_SEED"]).sample(few, 3)
    results, rows = covered(tmp_path, *names), written_rows()
    for name in names:
        own = [result for result in results if result.operator == name]
        assert row(name, own, recorded_counts()) == rows[name]


@pytest.mark.deep
def test_the_page_is_that_of_a_run(tmp_path: Path):
    file = tmp_path / "coverage.json"
    run_cases([*node_cases()], os.cpu_count() or 1, "cpu", file)
    found = page(read_results(file), onnx.__version__, recorded_counts())
    assert found == PAGE.read_text(), "python -m tests.pages.onnx_coverage writes the page"


def test_the_page_counts_and_gives_reasons():
    refusal = "1 operator cannot be compiled:\n  NonZero 'n' (ai.onnx opset 13): has no rows; yet"
    text = page(
        [
            CaseResult("test_a", "Relu", "right", opset=14),
            CaseResult("test_d", "Unique", "right", on_host=True),
            CaseResult("test_b", "NonZero", "refused", refusal),
            CaseResult("test_c", "NonZero", "wrong", "Not equal | 1"),
            CaseResult("test_e", "Bernoulli", "wrong", "Mismatched elements: 6"),
            CaseResult("test_f", "Bernoulli", "wrong", "Mismatched elements: 5"),
        ],
        "9.9",
    )
    assert "onnx 9.9" in text
    assert "**2 of 6 right**, 1 of them with a node" in text
    assert "1 refused by an error" in text
    assert "| Relu | 14 | 1 | 1 |  |  |" in text
    assert "| NonZero |  | 2 | 0 |  | has no rows (1); **wrong**: Not equal / 1 (1) |" in text
    assert "| **wrong**: it draws other random numbers than the case (2) |" in text


def test_the_page_shows_the_counts_on_other_targets():
    others = [TargetCounts("cuda", "a GPU", {"Relu": 1}, 2)]
    found = [CaseResult("test_a", "Relu", "right"), CaseResult("test_b", "Celu", "right")]
    text = page(found, "9.9", others)
    assert "On `cuda` 1 of 2 are right (a GPU)." in text
    assert "| Relu |  | 1 | 1 |  | 1 |  |" in text
    assert "| Celu |  | 1 | 1 |  | 0 |  |" in text


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path):
    file = tmp_path / "coverage.jsonl"
    known = CaseResult("test_celu", "Celu", "right", "kept")
    file.write_text(json.dumps(asdict(known)) + "\n")
    run_cases(["test_celu", "test_relu"], 1, "cpu", file)
    assert {result.name: result.reason for result in read_results(file)} == {
        "test_celu": "kept",
        "test_relu": "",
    }
