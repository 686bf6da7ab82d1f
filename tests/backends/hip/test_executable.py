"""Modules of target `hip` run through the C interface of their library, on the emulator."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

from compiler.artifact.module import Module
from compiler.backends.hip.build import load_library
from compiler.backends.hip.executable import HipExecutable
from compiler.driver.build import Build
from compiler.errors import ArgumentError, DeviceError, ShapeError
from compiler.tools.inputs import random_inputs
from compiler.tools.measured import measured_run
from compiler.tools.reference import run_onnxruntime
from tests.artifact.projects import needs_cmake
from tests.backends.hip.projects import configure, emulated_library, generated, model, module_of

pytestmark = needs_cmake
BOTH, IMAGE = model("both"), model("image")


def check_outputs(
    network: ModelProto, module: Module, seed: int, warp: int, tolerance: float = 1e-4
) -> None:
    """One run in one order agrees with onnxruntime, in the Euclidean norm."""
    configure(seed, warp)
    inputs = random_inputs(module, seed)
    outputs, expected = module.run(inputs), run_onnxruntime(network, inputs)
    assert list(outputs) == [each.name for each in module.outputs]
    for name, wanted in expected.items():
        assert outputs[name].dtype == wanted.dtype
        error = np.linalg.norm(outputs[name] - wanted) / np.linalg.norm(wanted)
        assert error < tolerance, (name, seed, warp)


def test_wavefronts_of_64_lanes_on_matrix_cores(tmp_path: Path):
    built = generated(BOTH, "hip:gfx90a:fp32")
    assert sum("mfma_gemm<" in kernel.source for kernel in built.kernels.values()) >= 5
    library = emulated_library(built, tmp_path / "project")
    for mode in ("graph", "subgraphs", "streams"):
        module = module_of(built, library, mode)
        for seed in range(3):
            check_outputs(BOTH, module, seed, 64)
    module = module_of(built, library)
    configure(0, 32)
    with pytest.raises(DeviceError, match="wavefront of 64 lanes"):
        module.run(random_inputs(module, 0))


def test_warps_of_32_lanes_and_the_executable(tmp_path: Path):
    built = generated(IMAGE, "hip:gfx1030:fp16")
    assert not any("mfma_gemm<" in kernel.source for kernel in built.kernels.values())
    library = emulated_library(built, tmp_path / "project")
    for warp in (32, 64):
        for mode in ("graph", "streams"):
            check_outputs(IMAGE, module_of(built, library, mode), warp, warp, 5e-3)
    configure(0, 32)
    check_executable(module_of(built, library))
    check_threads(module_of(built, library))
    check_mismatch(built, library)


@pytest.mark.deep
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])
def test_all_precisions(architecture: str, precision: str, tmp_path: Path):
    built = generated(BOTH, f"hip:{architecture}:{precision}")
    module = module_of(built, emulated_library(built, tmp_path / "project"))
    tolerance = {"fp32": 1e-4, "fp16": 5e-3, "bf16": 4e-2}[precision]
    for warp in (64,) if architecture == "gfx90a" else (32, 64):
        check_outputs(BOTH, module, warp, warp, tolerance)


def check_executable(module: Module) -> None:
    """Inputs are checked, memory is counted, and a closed executable comes back."""
    inputs = random_inputs(module, 5)
    executable = module.executable
    assert isinstance(executable, HipExecutable)
    assert executable.memory.weights > 0
    assert executable.memory.arena > sum(each.nbytes for each in module.inputs)
    assert (module.threads, executable.streams) == (1, module.schedule.streams)
    first = module.run(inputs)
    other = executable.executor(mode="streams")
    for name, array in other.run(inputs).items():
        np.testing.assert_array_equal(array, first[name])
    other.close()
    with pytest.raises(DeviceError, match="closed"):
        other.run(inputs)
    module.close()
    for name, array in module.run(inputs).items():
        np.testing.assert_array_equal(array, first[name])
    with pytest.raises(ShapeError, match="takes 'x' float32"):
        module.run({})
    with pytest.raises(ShapeError, match="'x' is float64"):
        module.run({"x": inputs["x"].astype(np.float64)})
    with pytest.raises(ArgumentError, match="mode is str 'fast': it must be 'graph' or"):
        executable.executor(mode="fast")
    times = measured_run(module, inputs).times
    assert times is not None
    assert len(times) == len(module.schedule.tasks)
    assert all(end >= start >= 0 for _, start, end in times)


def check_threads(module: Module) -> None:
    """Runs of several threads follow each other and keep their outputs apart."""
    inputs = [random_inputs(module, seed) for seed in range(4)]
    expected = [module.run(each) for each in inputs]
    found: list[dict[str, Any]] = [{} for _ in inputs]

    def work(index: int) -> None:
        for _ in range(2):
            found[index] = module.run(inputs[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outputs, wanted in zip(found, expected, strict=True):
        for name, array in wanted.items():
            np.testing.assert_array_equal(outputs[name], array)


def check_mismatch(built: Build, library: bytes) -> None:
    """A library of another model, and weights of another layout, are refused."""
    other = generated(model("tokens"), "hip:gfx1030:fp16")
    with pytest.raises(ShapeError, match="compile the model again"):
        load_library(library, other.schedule, other.weights, "graph", 0)
    renamed = replace(
        built.schedule,
        allocations=tuple(
            replace(each, name=f"{each.name}2") if each.kind == "weight" else each
            for each in built.schedule.allocations
        ),
    )
    weights = {f"{name}2": array for name, array in built.weights.items()}
    with pytest.raises(DeviceError, match="another model"):
        load_library(library, renamed, weights, "graph", 0)
    with pytest.raises(DeviceError, match="cannot be opened"):
        load_library(b"no library", built.schedule, built.weights, "graph", 0)
