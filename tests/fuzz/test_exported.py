"""PyTorch's operator database as a part of the search."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from tests.fuzz import exported_page
from tests.fuzz.case import Case
from tests.fuzz.checks import Skipped, check
from tests.fuzz.exported import (
    RESULTS,
    NotExported,
    check_exported,
    random_exported,
    root_cause,
    unlike,
    what_is_missing,
)
from tests.fuzz.search import Plan, Search, pool

HERE = not what_is_missing()


@pytest.mark.skipif(HERE, reason="PyTorch is installed")
def test_the_search_says_what_it_needs():
    with pytest.raises(NotExported, match="is not installed: pip install"):
        random_exported(0, "cpu")


@pytest.mark.skipif(not HERE, reason="needs torch, onnxscript and expecttest")
def test_an_operator_of_the_database_computes_what_pytorch_does():
    from tests.fuzz import exported

    database = exported.operator_database()
    seed = next(i for i, operator in enumerate(database) if operator.name == "add")
    case = random_exported(seed, "cpu")
    assert case is not None
    assert case.note == "add"
    assert check(case) is None


def test_other_numbers_types_and_shapes_are_found():
    wanted = {"y": np.array([1.0, np.nan], np.float32)}
    assert not unlike({"y": wanted["y"] + np.float32(1e-5)}, wanted)
    assert "at [0]" in unlike({"y": wanted["y"] + 1}, wanted)
    assert "float64[2], not float32[2]" in unlike({"y": wanted["y"].astype(float)}, wanted)
    assert "float32[1], not float32[2]" in unlike({"y": wanted["y"][:1]}, wanted)


X = np.array([1.0, 2.0], np.float32)


def exported(wanted: Any, node: str = "y = Add (x, x)") -> Case:
    """A file that doubles X, of which PyTorch's result is `wanted`."""
    head = '<ir_version: 10, opset_import: ["": 20]> double (float[2] x) => (float[2] y)'
    model = onnx.parser.parse_model(f"{head} {{ {node} }}")
    content = io.BytesIO()
    np.savez(content, y=np.asarray(wanted, np.float32))
    files = {RESULTS: content.getvalue()}
    return Case("exported", 1, model.SerializeToString(), {"x": X}, files=files, note="double")


def test_a_file_that_says_something_else_is_not_held_against_us():
    assert check_exported(exported(2 * X)) is None
    with pytest.raises(Skipped, match=r"exported as something else: .*onnxruntime agrees with us"):
        check_exported(exported(3 * X))


def test_a_file_that_nobody_takes_is_not_held_against_us():
    with pytest.raises(Skipped, match=r"not valid: .*; onnxruntime: "):
        check_exported(exported(2 * X, "y = Transpose <perm = [0, 0]> (x)"))


def test_a_wrong_result_or_a_refusal_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    class Tripled:
        def run(self, feeds: dict[str, Any]) -> dict[str, Any]:
            return {"y": 3 * feeds["x"]}

    def refuse(*_: Any, **__: Any) -> None:
        raise compiler.ModelError("no")

    monkeypatch.setattr(compiler, "compile", lambda *_, **__: Tripled())  # pyright: ignore
    failure = check_exported(exported(2 * X))
    assert failure is not None
    assert failure.message == "double: 'y' at [0]: np.float32(3.0), not np.float32(2.0)"
    monkeypatch.setattr(compiler, "compile", refuse)
    failure = check_exported(exported(2 * X))
    assert failure is not None
    assert failure.key.startswith("raised ModelError")


def test_the_reason_is_the_first_error():
    inner = ValueError("No ONNX function found for <x>. Failure message: many\nlines")
    outer = RuntimeError("step 3 of 3")
    outer.__cause__ = inner
    assert root_cause(outer) == "ValueError: No ONNX function found for <x>"


def test_a_search_logs_every_case(tmp_path: Path):
    plan = Plan("nodes", 3, 60, cases=2, log=tmp_path / "log.tsv")
    with pool(1) as workers:
        Search(plan, workers).run()
    rows = [line.split("\t") for line in (tmp_path / "log.tsv").read_text().splitlines()]
    assert [row[0] for row in rows] == ["3", "4"]
    assert {row[1] for row in rows} <= {"passed", "skipped"}


def test_the_page_has_every_operator_that_is_not_right():
    missing = "not exported: DispatchError: No ONNX function found for <OpOverload(op='prims.gcd'"
    log = (
        "# today\n2\tpassed\tadd\t\n"
        f"1\tskipped\tlcm\t{missing}, overload='default')>\n"
        "0\tskipped\tcov\tnot exported: ValueError: a | b\n3\tfailed\tmul\twrong\n"
        "4\tpassed\tadd\t\n5\tskipped\tcov\tnot exported: TypeError: c"
    )
    page = exported_page.generate(log)
    assert "2 are right, of 1 operators, 1 wrong,\nand 3 cannot" in page
    assert "`lcm` (prims.gcd)" in page
    assert "| `cov` | 2 | ValueError: a   b |" in page
    assert "## 1: failed" in page


def test_the_page_of_exported_operators_is_fresh():
    page = exported_page.generate(exported_page.LOG.read_text())
    assert exported_page.PAGE.read_text() == page, "run python -m tests.fuzz.exported_page"
