"""The benchmark of AMD kernels built through a mapping: its rows, from the emulator's build."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import hip_mapping
from tests.frontend.checks import parse
from tests.tools import needs

TEXT = """g (float[1,3,12,12] x) => (float[1,8,12,12] y) {
    c = Conv<pads=[1,1,1,1]>(x, w) s = Softmax<axis=1>(c) y = Add(s, c)
}"""


def rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *models: object
) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the rows of a run."""
    file = folder / "rows.json"
    words = ["hip_mapping.py", *models, "--platform", "EMU", "--runs", "1", "--json", file]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    return hip_mapping.main(), json.loads(file.read_text())


@needs("g++", "cmake")
def test_python_is_compared_with_onnxruntime_and_every_mode_with_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "None")  # the emulator's times say nothing
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    (tmp_path / "model.onnx").write_bytes(parse(TEXT, w=weight).SerializeToString())
    status, (row, missing) = rows(
        tmp_path, monkeypatch, tmp_path / "model.onnx", tmp_path / "none.onnx"
    )
    assert 0 < row["reference"] < 1e-6
    assert row["error"] == 0
    assert list(row["modes"]) == ["graph", "subgraphs", "streams"]
    assert (status, "none.onnx" in missing["failure"]) == (1, True)


@needs("nvcc")
def test_a_cuda_device_takes_the_kernels_for_amd(tmp_path: Path):
    model = parse(TEXT, w=np.ones((8, 3, 3, 3), np.float32))
    found = hip_mapping.compiled(model, "gfx1030", tmp_path / "artifact")
    module = hip_mapping.runnable(found, "sm_90")
    assert module.target == "cuda:sm_90:fp32"
    for name, kernel in module.kernels.items():
        assert (kernel.language, kernel.source) == ("cuda", found.kernels[name].source)
        assert kernel.code.startswith(b"\x7fELF")
        assert all(launch.symbol.encode() in kernel.code for launch in kernel.launches)


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hip_mapping, "present", lambda: None)
    monkeypatch.setattr(sys, "argv", ["hip_mapping.py", "deepfm"])
    with pytest.raises(SystemExit, match="needs a CUDA device"):
        hip_mapping.main()
