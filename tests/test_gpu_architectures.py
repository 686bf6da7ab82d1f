"""The script that compiles the zoo for several architectures, on its smallest model."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.frontend.importing import import_model
from compiler.ir.dataflow import GroupOp, OperatorOp
from compiler.kernels.gpu import cubin
from compiler.target.target import parse_target
from examples import zoo
from tests import gpu_architectures

load = cache(zoo.load)
"""A model whose weights are drawn once."""


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    fixed = ["--models", "bert128", "--precisions", "tf32"]
    monkeypatch.setattr(zoo, "load", load)
    monkeypatch.setattr("sys.argv", ["gpu_architectures.py", *fixed, *arguments])
    return gpu_architectures.main()


def test_a_model_compiles_for_other_architectures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "rows.json"
    others = ("sm_80", "sm_100")
    assert run(monkeypatch, "--architectures", *others, "--json", str(file)) == 0
    rows: list[dict[str, Any]] = json.loads(file.read_text())
    assert [parse_target(row["target"]).architecture for row in rows] == list(others)
    for row in rows:
        assert row["kernels"] > 5
        assert 0 < row["registers_a_block"] <= 65536
        assert 0 < row["shared_bytes"] <= row["shared_limit"]
    assert "2 passed, 0 failed" in capsys.readouterr().out
    monkeypatch.setattr(gpu_architectures, "import_model", None)
    assert run(monkeypatch, "--architectures", *others, "--json", str(file)) == 0
    assert capsys.readouterr().out.count("(known)") == 2
    assert json.loads(file.read_text()) == rows


def test_rows_that_failed_or_are_of_another_compiler_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    file, target = tmp_path / "rows.json", "cuda:sm_90:tf32"
    row = {"model": "bert128", "target": target, "failure": "", "seconds": 1.0}
    others = [
        {**row, "version": gpu_architectures.version(target), "failure": "on the stack: f"},
        {**row, "version": "another"},
    ]
    file.write_text(json.dumps(others))
    assert run(monkeypatch, "--architectures", "sm_90", "--json", str(file)) == 0
    (found,) = json.loads(file.read_text())
    assert found["kernels"] > 5


def test_fused_attention_is_among_the_kernels():
    model: ModuleOp = import_model(load("bert128")).module
    row = gpu_architectures.attempt(model, "cuda:sm_90:tf32", 1)
    assert row["failure"] == ""
    groups = [op for op in model.walk() if isinstance(op, GroupOp)]
    types = [[op.op_type.data for op in g.walk() if isinstance(op, OperatorOp)] for g in groups]
    assert any(operators.count("MatMul") == 2 and "Softmax" in operators for operators in types)


def test_the_stack_and_the_limits_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    read = cubin.read_resources

    def spilled(code: bytes) -> dict[str, cubin.Resources]:
        return {n: cubin.Resources(r.registers, 8, r.shared_bytes) for n, r in read(code).items()}

    monkeypatch.setattr(cubin, "read_resources", spilled)
    assert run(monkeypatch, "--architectures", "sm_90") == 1
    assert "on the stack: " in capsys.readouterr().out
    monkeypatch.setattr(cubin, "read_resources", read)
    monkeypatch.setattr(cubin, "REGISTERS_PER_BLOCK", 1000)
    assert run(monkeypatch, "--architectures", "sm_90") == 1
    assert "the limit is 1000" in capsys.readouterr().out
