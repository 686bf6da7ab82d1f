"""Tensors between segments on the emulated device: equal to the host's path, and copied less."""

import ctypes
import gc
import pickle
from typing import Any

import numpy as np
import onnx
import pytest

import compiler
from compiler.backends.emu.device import device
from compiler.errors import ArgumentError, DeviceError
from compiler.program.model import DynamicModule
from compiler.program.resident import BlockPool, ResidentTensor
from compiler.target.target import CudaTarget
from tests.program.checks import assert_equal, check, compiled, model_of
from tests.program.test_exports import cases, loaded


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tensors of any size stay."""
    monkeypatch.setattr("compiler.program.resident.LEAST_BYTES", 1)


def two(**options: Any) -> tuple[onnx.ModelProto, DynamicModule]:
    """A model whose second segment reads the first one's tensors, compiled for the emulator."""
    text = """g (float[n] x) => (float[n] y, int64[1, k] found) <int64[1] one = {1}> {
     a = Mul(x, x) b = Add(a, x) big = Relu(b) found = NonZero(big)
     count = Shape(found) last = Gather(count, one) scale = Cast<to = 1>(last)
     c = Div(b, scale) y = Sub(c, a) }"""
    return model_of(text), compiled(text, target="emu", precision="fp32", **options)


def vector(size: int = 300, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype("f4")


def test_segments_pass_tensors_on_the_device():
    model, module = two()
    for size in (300, 300, 301):
        check(module, model, {"x": vector(size)})
    memory = module.compiler.resident
    assert memory is not None
    assert len(module.compiler.modules) >= 3
    assert memory.pool.nbytes > 0, "the second segment reads a and b on the device"
    assert memory.copied == 0, "NonZero's input and y come to the host with the runs"


def test_small_tensors_pass_through_the_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("compiler.program.resident.LEAST_BYTES", 1201)
    model, module = two()
    check(module, model, {"x": vector(300)})
    memory = module.compiler.resident
    assert memory is not None
    assert memory.pool.nbytes == 0
    check(module, model, {"x": vector(301)})
    assert memory.pool.nbytes > 0


def test_without_the_part_the_host_has_every_tensor():
    model, module = two(graphs="indirection,selective")
    check(module, model, {"x": vector()})
    assert module.compiler.resident is None
    assert module.memory.arena
    with pytest.raises(DeviceError, match="resident"):
        module.run({"x": vector()}, outputs="device")


@pytest.mark.parametrize("name", ["lstm_if", "pipeline", "speech"])
def test_an_export_has_the_same_bits_on_both_paths(name: str):
    resident, host = (
        compiler.compile(loaded(f"{name}.onnx"), target="emu", precision="fp32", graphs=graphs)
        for graphs in ("all", "none")
    )
    for inputs in cases(name)[:2]:
        found, wanted = resident.run(inputs), host.run(inputs)
        for output, array in wanted.items():
            assert_equal(found[output], array)
            assert np.asarray(found[output]).tobytes() == np.asarray(array).tobytes()


def test_a_loop_on_the_host_carries_tensors_on_the_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CudaTarget, "runs_control_flow", False)
    text = """g (int64 trips, float[n] x) => (float[n] y) <bool true = {1}> {
     y = Loop(trips, true, x) <body = body (int64 i, bool c, float[n] s) => (bool c, float[n] t) {
      u = Mul(s, x) t = Sub(u, s) }> }"""
    module = compiled(text, target="emu", precision="fp32")
    for trips in (7, 2, 9):
        inputs = {"trips": np.array(trips), "x": vector(200)}
        check(module, model_of(text), inputs)
    memory = module.compiler.resident
    assert memory is not None
    before = memory.copied
    module.run({"trips": np.array(12), "x": vector(200)})
    assert memory.copied == before + 1, "only the result is copied"


def test_device_arrays_go_in_and_out_and_outlive_later_runs():
    model, module = two()
    first = module.run({"x": vector()}, outputs="device")["y"]
    assert isinstance(first, ResidentTensor)
    kept = module.run({"x": vector(seed=1)}, outputs="device")["y"]
    check(module, model, {"x": first.numpy()})
    again = module.run({"x": first}, outputs="device")["y"]
    gc.collect()
    expected = module.run({"x": first.numpy()})["y"]
    assert_equal(again.numpy(), expected)
    assert_equal(kept.numpy(), module.run({"x": vector(seed=1)})["y"])


def test_outputs_of_no_kind_are_refused():
    with pytest.raises(ArgumentError, match="it must be 'numpy' or 'device'"):
        two()[1].run({"x": vector()}, outputs="gpu")


def test_a_block_given_back_is_poisoned_and_taken_again():
    driver = device()
    stream = driver.create_stream(ordered_with_default=True)
    pool = BlockPool(driver, stream, poison=True)
    block = pool.take(1000)
    address = block.address
    assert block.nbytes == 1024
    driver.fill(address, 1, 1000, stream)
    del block
    again = pool.take(700)
    assert again.address == address
    pinned = driver.allocate_pinned(1024)
    driver.copy(pinned, address, 1024, stream)
    driver.synchronize_stream(stream)
    assert bytes((ctypes.c_uint8 * 1024).from_address(pinned)) == b"\xff" * 1024
    assert pool.nbytes == 1024
    del again
    pool.trim()
    assert pool.nbytes == 0


def test_a_copy_has_its_own_device_memory(tmp_path: Any):
    model, module = two(graphs="resident")
    check(module, model, {"x": vector()})
    check(pickle.loads(pickle.dumps(module)), model, {"x": vector()})
    module.save(tmp_path / "saved")
    loaded_again = compiler.load(tmp_path / "saved")
    assert isinstance(loaded_again, DynamicModule)
    assert str(loaded_again.compiler.settings.graphs) == "resident"
    check(loaded_again, model, {"x": vector()})
