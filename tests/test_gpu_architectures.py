"""The script that compiles the zoo for several architectures, on its smallest model."""

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.kernels.cuda import cubin
from tests import gpu_architectures


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["gpu_architectures.py", "--models", "bert128", *arguments])
    return gpu_architectures.main()


def test_a_model_compiles_for_other_architectures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "rows.json"
    others = ("sm_80", "sm_100")
    assert run(monkeypatch, "--architectures", *others, "--json", str(file)) == 0
    rows: list[dict[str, Any]] = json.loads(file.read_text())
    assert [row["target"].split(":")[1] for row in rows] == list(others)
    for row in rows:
        assert row["kernels"] > 5
        assert 0 < row["registers_a_block"] <= 65536
        assert 0 < row["shared_bytes"] <= row["shared_limit"]
    assert "2 passed, 0 failed" in capsys.readouterr().out


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
