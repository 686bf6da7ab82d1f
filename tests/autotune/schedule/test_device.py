"""On a device: compiling measures, and its choice is at most as slow as the one-stream graph."""

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.artifact.module import Module
from compiler.autotune.bindings import timed_run
from compiler.backends.cuda.device import device
from compiler.backends.gpu.executable import GpuExecutable
from compiler.driver.build import build
from compiler.driver.settings import Settings
from compiler.errors import DeviceError
from compiler.kernels.building.cache import KernelCache
from compiler.passes.pipeline import without_pass
from compiler.schedule.kernels import KernelSpec
from compiler.verify.seals import sealed_kernel
from tests.autotune.schedule import fakes
from tests.backends.gpu import device_checks


def busy_kernels(module: ModuleOp, *_: Any) -> dict[str, KernelSpec]:
    """Kernels of eight blocks that wait 6000 clocks: streams pay."""
    specs = fakes.kernels(module)
    text = "".join(_text(spec) for spec in specs.values())
    image = device_checks.compile_cuda(text, device().device.architecture)
    return {
        name: sealed_kernel(replace(spec, code=image, flops=0, traffic_bytes=0))
        for name, spec in specs.items()
    }


def _text(spec: KernelSpec) -> str:
    parameters = ", ".join(f"void *p{i}" for i in spec.launches[0].args)
    return (
        f'extern "C" __global__ void {spec.launches[0].symbol}({parameters}) '
        f"{device_checks.WAITS['work']}\n"
    )


def run_time(module: compiler.Module) -> float:
    executor: Any = module.executor()
    run = timed_run(executor)
    times = [run() for _ in range(60)]
    executor.close()
    return median(times[10:])


@pytest.mark.gpu
def test_the_choice_is_measured_and_pays(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    try:
        device()
    except DeviceError as error:
        pytest.skip(str(error))
    monkeypatch.setattr("compiler.driver.build.build_kernels", busy_kernels)
    settings = Settings("cuda", cache=KernelCache(), budget=3.0, substitution=False)
    module = Module.of(build(fakes.model(), None, settings), {})
    assert module.choice is not None
    assert module.choice.source == "measured"
    assert module.schedule.streams > 1
    assert all(1000 < cost < 30000 for cost in module.choice.schedule.costs.values())
    one = without_pass(compiler.DEFAULT_PIPELINE.replace("streams=4", "streams=1"), "substitute")
    baseline = compiler.compile(fakes.model(), target="cuda", budget=0, pipeline=one)
    assert run_time(module) < 0.7 * run_time(baseline)
    module.save(tmp_path / "built")
    assert compiler.load(tmp_path / "built").choice == module.choice
    assert isinstance(module.executable, GpuExecutable)
    assert len(module.executable.timeline()) == len(module.schedule.tasks)
