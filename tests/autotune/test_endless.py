"""Compiling goes on where a candidate, a kernel or a whole run does not end on its device."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.autotune.kernels import device_bench, measure, while_compiling
from compiler.autotune.kernels.kernel_tuner import KernelTuner
from compiler.autotune.kernels.plan import TuningLimits
from compiler.autotune.kernels.prepare import fused_groups
from compiler.autotune.schedule import decision
from compiler.backends.cuda.device import device as cuda_device
from compiler.backends.emu.device import device as emulated_device
from compiler.backends.gpu.driver import Driver
from compiler.driver.build import Build, build
from compiler.driver.settings import Settings
from compiler.emulator.compile import compile_kernels
from compiler.errors import DeviceError
from compiler.frontend.importing import import_model
from compiler.kernels import database
from compiler.kernels.building import build_control_kernels, build_kernels
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import CudaTarget, GpuTarget, parse_gpu
from compiler.verify.seals import sealed_kernel
from tests.autotune.kernels.test_tune import nothing
from tests.frontend.checks import parse, run
from tests.kernels.gpu.emulator import COMPILER

TARGETS = [
    pytest.param("emu", marks=pytest.mark.skipif(COMPILER is None, reason="needs g++")),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


class Builder(Protocol):
    """Compiles a model with so many kernels that do not end."""

    def __call__(
        self, model: onnx.ModelProto, name: str, *, budget: float, replaced: int = 0
    ) -> Build:
        """The compiled model."""
        ...


SYMBOL = re.compile(r"__global__ void (?:__\w+\([^)]*\) )*(\w+)\(")


def present(name: str) -> Driver:
    """The device of tests on a target."""
    if name == "emu":
        return emulated_device()
    try:
        return cuda_device()
    except DeviceError as error:
        pytest.skip(str(error))


def endless(text: str) -> str:
    """Entry points of the same names that do not end."""
    forever = "(volatile int *p) { while (true) *p = *p; }"
    return "\n".join(f'extern "C" __global__ void {s}{forever}' for s in SYMBOL.findall(text))


def compiled(text: str, target: str) -> bytes:
    """The code of a text for a target of tests."""
    if target == "emu":
        return compile_kernels(text, SYMBOL.findall(text))
    return compile_cubin(text, parse_gpu(f"cuda:{cuda_device().device.architecture}"))


class Candidates:
    """Compiles candidates in the order in which they are asked for; some do not end."""

    def __init__(self, target: str, endless: Sequence[int]) -> None:
        self._target, self._endless, self._lock, self.count = target, endless, Lock(), 0

    def __call__(self, text: str, target: GpuTarget) -> bytes:
        """In place of `compile_cubin`."""
        with self._lock:
            number, self.count = self.count, self.count + 1
        return compiled(endless(text) if number in self._endless else text, self._target)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Few launches of each candidate, and a separate database."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))
    monkeypatch.setattr(measure, "LINKS", (1, 1))
    monkeypatch.setattr(measure, "COLD_WITHIN", 0.0)
    monkeypatch.setattr(measure, "WARM_SAMPLES", 1)
    monkeypatch.setattr(device_bench, "keep_cubins", nothing)
    monkeypatch.setattr(while_compiling, "MOST_CANDIDATES", 3)


def small() -> onnx.ModelProto:
    """One multiplication."""
    weight = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    return parse("small (float[32,32] x) => (float[32,32] y) { y = MatMul(x, w) }", w=weight)


@pytest.mark.parametrize("name", TARGETS)
def test_candidates_that_do_not_end_are_left_out_and_the_module_is_right(
    name: str,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    driver = present(name)
    candidates = Candidates(name, (1,))
    monkeypatch.setattr(device_bench, "compile_cubin", candidates)
    caplog.set_level(logging.INFO, "compiler.autotune")
    arch = "sm_90" if name == "emu" else driver.device.architecture
    target = parse_gpu(f"cuda:{arch}:fp32")
    given = [(group, 1) for group in fused_groups(import_model(small()).module, target).values()]
    start = perf_counter()
    record = KernelTuner(TuningLimits.of(80.0)).tune(driver, given, target, None)
    assert perf_counter() - start < 60
    said = [line for line in caplog.messages if "a run takes more than 1 s" in line]
    assert len(said) == 1, caplog.text
    assert record.tried == 3
    inputs = {"x": np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)}
    module = compiler.compile(small(), target=name, arch=arch, precision="fp32", budget=0)
    np.testing.assert_allclose(module.run(inputs)["y"], run(small(), inputs)[0], rtol=1e-4)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Compiles a model for a target of tests with some kernels that do not end."""
    return partial(_built, monkeypatch)


def _built(
    monkeypatch: pytest.MonkeyPatch,
    model: onnx.ModelProto,
    name: str,
    *,
    budget: float,
    replaced: int = 0,
) -> Build:
    driver = present(name)
    arch = "sm_90" if name == "emu" else driver.device.architecture

    def kernels(module: ModuleOp, _: str, *options: Any) -> dict[str, KernelSpec]:
        made = build_kernels(module, f"{name}:{arch}:fp32", None)
        for spec in [*made.values()][:replaced]:
            code = compiled(endless(spec.source), name)
            made[spec.name] = sealed_kernel(replace(spec, code=code))
        return made

    def control_kernels(module: ModuleOp, _: str) -> dict[str, KernelSpec]:
        return build_control_kernels(module, f"{name}:{arch}:fp32")

    def device_of(_: str) -> Driver:
        return driver

    monkeypatch.setattr(decision, "present_device", device_of)
    monkeypatch.setattr(CudaTarget, "gains_by_substitution", False)
    monkeypatch.setattr("compiler.driver.build.build_kernels", kernels)
    monkeypatch.setattr("compiler.driver.build.build_control_kernels", control_kernels)
    return build(model, None, Settings(f"cuda:{arch}:fp32", budget=budget))


@pytest.mark.parametrize("name", TARGETS)
def test_a_kernel_that_does_not_end_is_named_and_nothing_is_measured(
    name: str, built: Builder, caplog: pytest.LogCaptureFixture
):
    start = perf_counter()
    found = built(small(), name, budget=0.5, replaced=1)
    assert perf_counter() - start < 60
    assert found.choice is not None
    assert found.choice.source == "model"
    kernel = next(iter(found.kernels))
    said = f"the kernel '{kernel}' failed in a trial: a run takes more than 0.5 s"
    assert said in found.choice.reason
    assert f"schedules are not measured: {said}" in caplog.text


LOOP = """
loop (float[4] x) => (float[4] y) {
  y = Loop <body = body (int64 i, bool before, float[4] v) => (bool again, float[4] w) {
    w = Mul(v, half)
    total = ReduceSum <keepdims = 0> (w)
    again = Less(total, limit)
  }> (most, , x)
}
"""


@pytest.mark.parametrize("name", TARGETS)
def test_a_loop_that_does_not_end_is_not_measured_and_one_that_does_is_right(
    name: str, built: Builder, caplog: pytest.LogCaptureFixture
):
    half, limit = np.full(4, 0.5, np.float32), np.float32(1e9)
    long = parse(LOOP, half=half, limit=limit, most=np.int64(1 << 40))
    found = built(long, name, budget=0.5)
    assert any(task.control is not None for task in found.schedule.tasks)
    assert found.choice is not None
    assert found.choice.source == "model"
    assert "the whole graph 'main' failed in a trial: a run takes" in found.choice.reason
    short = parse(LOOP, half=half, limit=limit, most=np.int64(3))
    found = built(short, name, budget=5.0)
    assert found.choice is not None
    assert found.choice.source == "measured", found.choice.reason
    assert found.executable is not None
    inputs = {"x": np.arange(4, dtype=np.float32)}
    np.testing.assert_allclose(found.executable.run(inputs)["y"], run(short, inputs)[0])
