"""The benchmark of templates up to the device: what its kernels call, that they compile, and that
each reads what was given or written before."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import templates
from benchmarks.gpu_kernel import compile_kernels, load
from compiler.kernels.gpu.cubin import read_resources
from tests.tools import needs_nvrtc

FUNCTIONS = {
    "attention": "attend<",
    "layer_norm": "normalize",
    "residual": "normalize",
    "softmax": "__global__",
    "grouped": "convolve_groups<",
    "separable": "separable_gemm<",
}
"""The functions that the kernels of each kind of case call."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small case of each kind."""
    monkeypatch.setattr(templates, "ATTENTIONS", {"one": (2, 20, 30, 16)})
    kinds = ("layer_norm", "residual", "softmax")
    monkeypatch.setattr(templates, "ROWS", {kind: (kind, (5, 70)) for kind in kinds})
    monkeypatch.setattr(templates, "GROUPED", {"one": (8, 8, 9, 3, 2)})
    monkeypatch.setattr(templates, "SEPARABLE", {"one": (8, 12, 9, 5, 2)})


@needs_nvrtc
@pytest.mark.usefixtures("few")
def test_cases_are_carried(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    templates.prepare(tmp_path, list(templates.KINDS))
    assert "6 cases" in capsys.readouterr().out
    headers, cases = load(tmp_path)
    kernels: list[dict[str, Any]] = []
    for case in cases:
        assert FUNCTIONS[case["kind"]] in case["ours"][0]["text"]
        for way in ("ours", "apart"):
            known = set(case["inputs"])
            for kernel in case.get(way, []):
                assert {read["name"] for read in kernel["reads"]} <= known
                known |= {write["name"] for write in kernel["writes"]}
                kernels.append(kernel)
    (separable,) = [case for case in cases if case["kind"] == "separable"]
    assert (len(separable["ours"]), len(separable["apart"])) == (1, 2)
    for kernel, cubin in zip(kernels, compile_kernels(kernels, headers), strict=True):
        assert {launch[0] for launch in kernel["launches"]} <= set(read_resources(cubin))


def test_the_report(capsys: pytest.CaptureFixture[str]):
    row = {"label": "one", "ours": 2.0, "ours error": 1e-4, "library": 4.0}
    apart = {"apart": 2.5, "apart error": 1e-4}
    templates.report([row | {"kind": "rows"}, row | {"kind": "separable"} | apart])
    text = capsys.readouterr().out
    assert "rows: 1 cases take 0.50 of the library's time" in text
    assert "separable: 0.80 of the time of the kernels apart" in text
