"""The run of ONNX's node cases, and the page that is made of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from compiler.tools.onnx_coverage import CaseResult, node_cases, operator_of, page

ROOT = Path(__file__).parent.parent


def covered(tmp_path: Path, *only: str, **environment: str) -> list[CaseResult]:
    """The results of the cases of some operators, from the command line."""
    file = tmp_path / "coverage.json"
    command = [sys.executable, "-m", "compiler.tools.onnx_coverage", "--jobs", "1"]
    subprocess.run(
        [*command, "--json", str(file), "--only", *only],
        check=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    return [CaseResult(**entry) for entry in json.loads(file.read_text())]


def test_cases_are_run_in_their_order(tmp_path: Path):
    found = covered(tmp_path, "Relu", "Celu", "NonZero")
    assert [result.name for result in found] == [*node_cases(["Relu", "Celu", "NonZero"])]
    by_operator = {result.operator: result for result in found}
    assert by_operator["Relu"].outcome == "right"
    assert by_operator["NonZero"].outcome == "right"
    assert by_operator["NonZero"].on_host
    assert not by_operator["Relu"].on_host


def test_a_case_that_ends_its_process_costs_only_itself(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "import compiler.tools.onnx_backend as backend\n"
        "prepare = backend.FlowloomBackend.prepare\n"
        "def end(model, **options):\n"
        "    if model.graph.node[0].op_type == 'Celu':\n"
        "        os._exit(3)\n"
        "    return prepare(model, **options)\n"
        "backend.FlowloomBackend.prepare = end\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    found = covered(tmp_path, "Celu", "Relu", PYTHONPATH=path)
    outcomes = {result.name: result.outcome for result in found}
    assert outcomes["test_celu"] == "crashed"
    assert outcomes["test_relu"] == "right"
    assert {result.outcome for result in found} == {"crashed", "right"}


def test_an_expanded_case_counts_as_its_functions():
    cases = node_cases()
    names = ("celu_expanded", "layer_normalization_2d_axis0_expanded_ver18", "sce_mean_expanded")
    found = [operator_of(f"test_{name}", cases) for name in names]
    assert found == ["Celu", "LayerNormalization", "SoftmaxCrossEntropyLoss"]


def test_the_page_counts_and_gives_reasons():
    refusal = "1 operator cannot be compiled:\n  NonZero 'n' (ai.onnx opset 13): has no rows; yet"
    text = page(
        [
            CaseResult("test_a", "Relu", "right", opset=14),
            CaseResult("test_d", "Unique", "right", on_host=True),
            CaseResult("test_b", "NonZero", "refused", refusal),
            CaseResult("test_c", "NonZero", "wrong", "Not equal | 1"),
        ],
        "9.9",
    )
    assert "onnx 9.9" in text
    assert "**2 of 4 right**, 1 of them with a node" in text
    assert "1 refused by an error" in text
    assert "| Relu | 14 | 1 |  | 1 |  |" in text
    assert "| NonZero |  | 0 |  | 2 | has no rows (1); **wrong**: Not equal / 1 (1) |" in text
