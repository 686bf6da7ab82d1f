"""The checks of models on a device, done with a small model on the emulator."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from compiler.backends.emu.device import device
from compiler.errors import DeviceError
from compiler.kernels.building import KernelCache
from tests import gpu_check, gpu_models, prepared
from tests.prepared import Failed, Prepared


def network() -> onnx.ModelProto:
    """A convolution and an attention, whose passes and kernels depend on the target."""
    graph = onnx.parser.parse_graph(
        """small (float[1, 4, 6, 6] x) => (float[1, 8, 8] y, float[1, 8, 3, 3] z) {
          c = Conv <pads: ints = [1, 1, 1, 1]> (x, w) r = Relu(c)
          z = MaxPool <kernel_shape: ints = [2, 2], strides: ints = [2, 2]> (r)
          v = Reshape(r, shape) k = Transpose <perm: ints = [0, 2, 1]> (v)
          s = MatMul(v, k) p = Softmax <axis: int = -1> (s) a = MatMul(p, v)
          y = MatMul(a, m)
        }"""
    )
    chance = np.random.default_rng(0)
    for name, shape in (("w", (8, 4, 3, 3)), ("m", (36, 8))):
        values = 0.2 * chance.standard_normal(shape).astype(np.float32)
        graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    shape = np.array([1, 8, 36], np.int64)
    graph.initializer.append(onnx.numpy_helper.from_array(shape, "shape"))
    opset = onnx.helper.make_opsetid("", 18)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


@pytest.fixture(scope="module", params=["tf32", "fp16"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The network, prepared for the emulator."""
    cache = KernelCache(tmp_path_factory.mktemp("kernels"))
    return prepared.prepare(network(), f"emu:sm_90:{request.param}", cache, 1)


def test_passes_act_by_target(model: Prepared):
    sources = [kernel.source for kernel in model.kernels.values()]
    assert any('#include "attention.cuh"' in source for source in sources)
    views = [view for task in model.schedules[1].tasks for view in task.writes]
    halves = {view.dtype for view in views} - {"float32"}
    assert halves == ({"float16"} if model.precision == "fp16" else set())


def run(
    monkeypatch: pytest.MonkeyPatch, models: list[Prepared | Failed], *arguments: str
) -> tuple[int, list[str]]:
    """The script's status on the emulator with these models, and what was prepared for."""
    wanted: list[str] = []

    def prepare_all(targets: list[tuple[str, str]], *_: Any) -> list[Prepared | Failed]:
        wanted.extend(f"{name} {target}" for name, target in targets)
        return models

    def full_target(*given: Any) -> str:
        return f"emu:sm_90:{given[-1]}"

    monkeypatch.setattr(sys, "argv", ["gpu_models.py", "--models", "unet", *arguments])
    for name, new in (("device", device), ("prepare_all", prepare_all)):
        monkeypatch.setattr(gpu_models, name, new)
    monkeypatch.setattr(gpu_models, "full_target", full_target)
    return gpu_models.main(), wanted


def test_every_check_passes(
    model: Prepared,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    arguments = ("--precisions", model.precision, "--replayed", "small", "--replays", "8")
    monkeypatch.setattr(gpu_models, "THREAD_RUNS", 2)
    status, wanted = run(monkeypatch, [model], *arguments, "--json", str(tmp_path / "rows.json"))
    out = capsys.readouterr().out
    assert status == 0, out
    assert wanted == [f"unet emu:sm_90:{model.precision}"]
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert 0 < row["error"] < gpu_models.BOUNDS[model.precision]
    assert row["runs"] == 2 * 2 * len(gpu_models.WAYS) + 3 * 3 + 2 * 2 + 8
    assert f"PASS  small          {model.precision}" in out
    assert run(monkeypatch, [model], *arguments, "--brief")[0] == 0
    assert "0 runs equal" in capsys.readouterr().out


def test_wrong_values_and_failures_are_rows(
    model: Prepared, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    wrong = replace(model, expected={n: array + 1 for n, array in model.expected.items()})
    lost = Failed("unet", "tf32", DeviceError("no room"))
    status, _ = run(monkeypatch, [wrong, lost])
    assert status == 1
    out = capsys.readouterr().out
    assert "AssertionError: relative error" in out
    assert "DeviceError: no room" in out
    assert "0 passed, 2 failed" in out


def test_a_race_is_seen(model: Prepared, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_models, "device", device)
    case = gpu_models.load(model)
    first = case.executables[1].executor(mode="streams").run(case.inputs)
    gpu_models.check_bindings(case, first)
    first["y"].flat[5] += 1
    with pytest.raises(AssertionError, match="graph on 1 streams: 1 of 64 elements of y differ"):
        gpu_models.check_ways(case, first)


def test_models_are_prepared_in_order_by_other_processes(tmp_path: Path):
    wanted = [("deepfm", "cuda:sm_90:tf32"), ("abacus", "cuda:sm_90:tf32")]
    first, second = prepared.prepare_all(wanted, tmp_path, 1)
    assert isinstance(first, Prepared)
    assert set(first.schedules) == set(prepared.STREAMS)
    assert all(kernel.language == "cuda" for kernel in first.kernels.values())
    assert len(first.inputs) == prepared.SEEDS
    with pytest.raises(Exception, match="abacus"):
        second.checked()
    carried = prepared.cache_of(tmp_path)
    assert carried.status().entries == len(first.kernels)


@pytest.mark.parametrize("script", [gpu_models, gpu_check])
def test_without_a_device_the_scripts_say_so(script: Any, monkeypatch: pytest.MonkeyPatch):
    def missing() -> None:
        raise DeviceError("no CUDA device is present")

    monkeypatch.setattr(sys, "argv", ["script.py"])
    monkeypatch.setattr(gpu_models, "device", missing)
    monkeypatch.setattr("tests.backends.gpu.device_checks.device", missing)
    with pytest.raises(SystemExit, match="need a CUDA device: no CUDA device is present"):
        script.main(*([[]] if script is gpu_check else []))
