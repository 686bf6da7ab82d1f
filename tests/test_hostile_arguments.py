"""Public functions raise errors of our own kind, whatever they are given."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import helper

import compiler
from compiler import (
    ArgumentError,
    DeviceError,
    FlowloomError,
    InferenceSession,
    OrtValue,
    SessionOptions,
    ShapeError,
)

X = np.ones((2, 3), np.float32)
KINDS = (
    *(KeyError, OSError, AssertionError, MemoryError, AttributeError, ZeroDivisionError),
    *(RuntimeError, RecursionError, StopIteration, BufferError, UnicodeError, NotImplementedError),
)
"""Errors that a caller's methods may raise."""

METHODS = (
    *("__dlpack__", "__dlpack_device__", "__array__", "__fspath__", "__len__", "__iter__"),
    *("__index__", "__int__", "__float__", "__getitem__", "__contains__", "__repr__"),
    *("SerializeToString", "keys", "items", "shape", "dtype", "value"),
)


def hostile(kind: type[Exception], *names: str) -> Any:
    """An object of which the named methods raise an error."""

    def fail(_self: object, *_given: object, **_named: object) -> object:
        raise kind("hostile")

    return type("Hostile", (), {name: fail for name in names})()


class LendingError:
    """An array whose DLPack methods raise."""

    def __init__(self, kind: type[Exception], of_device: bool = False) -> None:
        self.kind, self.of_device = kind, of_device

    def __dlpack__(self, **_options: object) -> object:
        raise self.kind("lent")

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.of_device:
            raise self.kind("device")
        return 1, 0


class Interface:
    """An array with an interface of CUDA's that is not one, or raises."""

    def __init__(self, interface: Any) -> None:
        self._interface = interface

    @property
    def __cuda_array_interface__(self) -> Any:
        if isinstance(self._interface, type):
            raise self._interface("interface")
        return self._interface


class BrokenMapping(Mapping[str, Any]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise OSError(key)

    def __iter__(self) -> Iterator[str]:
        raise OSError("iterated")

    def __len__(self) -> int:
        return 1


VALUES: list[Any] = [
    *(None, True, 0, -1, 1, 2**70, 1.5, float("nan"), 1j, "", "x", "\0", "\ud800", b"", b"\xff"),
    *([], {}, (), [1], {"x": 1}, {1: 2}, object(), type, Path("nowhere"), BrokenMapping()),
    *(np.zeros(3), np.zeros((2, 3), ">f4"), np.array("a"), np.array([object()]), np.float32(1)),
    *(hostile(kind, *METHODS) for kind in (KeyError, OSError)),
    *(hostile(ZeroDivisionError, name) for name in METHODS),
]


def model_of(size: int | str) -> bytes:
    """A Relu."""
    x, y = (helper.make_tensor_value_info(name, 1, [size, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    imports = [helper.make_opsetid("", 21)]
    model: Any = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return model.SerializeToString()


STATIC, DYNAMIC = model_of(2), model_of("n")


@pytest.fixture(scope="module", params=["cpu", "emu"])
def target(request: pytest.FixtureRequest) -> str:
    """A target."""
    return request.param


@pytest.fixture(scope="module")
def runs(target: str) -> list[Callable[[Any], Any]]:
    """All ways to run a Relu of `x`, of fixed and of open shape."""
    modules = [compiler.compile(model, target=target) for model in (STATIC, DYNAMIC)]
    provider = {"cpu": "CPUExecutionProvider", "emu": "EmulatorExecutionProvider"}[target]
    sessions = [InferenceSession(model, providers=[provider]) for model in (STATIC, DYNAMIC)]
    found: list[Any] = [module.run for module in modules]
    found.append(modules[0].executor().run)
    return [*found, *(partial(session.run, None) for session in sessions)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_that_cannot_be_read_is_named(runs: list[Callable[[Any], Any]], kind: Any):
    arrays = [LendingError(kind), LendingError(kind, of_device=True)]
    for run in runs:
        for array in arrays:
            with pytest.raises(ShapeError, match="'x'"):
                run({"x": array})


def test_runs_raise_errors_of_our_own(runs: list[Callable[[Any], Any]]):
    interfaces = [{}, {"typestr": "<f4", "shape": (2, 3), "data": None}, 3, *KINDS]
    for run in runs:
        for value in (*VALUES, *map(Interface, interfaces)):
            for feed in (value, {"x": value}, {"x": X, "z": value}, {2: value}):
                with contextlib.suppress(FlowloomError):
                    run(feed)


def test_arrays_in_the_other_byte_order_are_taken(runs: list[Callable[[Any], Any]]):
    x = np.arange(-3, 3).reshape(2, 3).astype(">f4")
    for run in runs:
        for _ in range(3):  # later runs check less
            found: Any = run({"x": x})
            result: Any = found["y" if hasattr(found, "keys") else 0]
            assert result.dtype.isnative
            np.testing.assert_array_equal(result, np.maximum(x, 0))


def test_values_of_sessions_are_native():
    x = np.arange(6).reshape(2, 3).astype(">f4")
    value = OrtValue.ortvalue_from_numpy(x)
    assert value.numpy().dtype.isnative
    session = InferenceSession(STATIC)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], x)
    value.update_inplace((x + 1).astype(">f4"))
    np.testing.assert_array_equal(value.numpy(), x + 1)


COMPILED = [
    *("model", "target", "pipeline", "input_shapes", "arch", "precision", "threads", "dump_ir"),
    *("profile", "schedule", "passes", "overridable", "cache", "check_indices", "dynamic"),
    *("graphs", "quantised", "buckets", "check"),
]


@pytest.mark.parametrize("name", COMPILED)
def test_compile_raises_errors_of_our_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        with contextlib.suppress(FlowloomError):
            cast(Any, compiler.compile)(**{"model": STATIC, name: value})


OPTIONS = ("threads", "mode", "nonsense", "delays", "bindings", "library", "ordinal", "updates")


def test_modules_raise_errors_of_our_own(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    modules: list[Any] = [compiler.compile(m, target=target) for m in (STATIC, DYNAMIC)]
    static, dynamic = modules
    static.save(tmp_path / "static")
    dynamic.save(tmp_path / "dynamic")

    def calls_with(value: Any) -> list[Callable[[], Any]]:
        calls: list[Callable[[], Any]] = [
            *(lambda m=m: m.save(value) for m in (static, dynamic)),
            lambda: compiler.load(value),
            lambda: dynamic.prepare(value),
            lambda: dynamic.prepare({"n": value}),
            lambda: dynamic.run({"x": X}, value),
            lambda: dynamic.run({"x": X}, stream=value),
            lambda: static.run({"x": X}, outputs=value),
            lambda: static.executor().run({"x": X}, nonsense=value),
            # an integer is the address of a stream, which nobody can check
            lambda: isinstance(value, int) or static.run({"x": X}, stream=value),
        ]
        for name in OPTIONS:
            calls += [
                lambda n=name: static.executor(**{n: value}).run({"x": X}),
                lambda n=name: static.with_options(**{n: value}).run({"x": X}),
                lambda n=name: static.run({"x": X}, **{n: value}),
                lambda n=name: dynamic.run({"x": X}, **{n: value}),
            ]
            if name in ("threads", "nonsense"):
                folders = (tmp_path / "static", tmp_path / "dynamic")
                calls += [lambda n=name, f=f: compiler.load(f, **{n: value}) for f in folders]
        return calls

    for call in itertools.chain.from_iterable(map(calls_with, VALUES)):
        with contextlib.suppress(FlowloomError):
            call()


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_sessions_raise_errors_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    session, cpu = InferenceSession(STATIC), "CPUExecutionProvider"

    def calls_with(value: Any) -> list[Callable[[], Any]]:
        binding, bound, tensor = session.io_binding(), session.io_binding(), OrtValue(X.copy())
        options = SessionOptions()
        return [
            lambda: InferenceSession(value),
            lambda: InferenceSession(STATIC, value),
            lambda: InferenceSession(STATIC, providers=value),
            lambda: InferenceSession(STATIC, providers=[value]),
            lambda: InferenceSession(STATIC, providers=[(cpu, value)]),
            lambda: InferenceSession(STATIC, providers=[(cpu, {"device_id": value})]),
            lambda: InferenceSession(STATIC, providers=[cpu], provider_options=value),
            lambda: InferenceSession(STATIC, providers=[cpu], provider_options=[value]),
            lambda: session.run(value, {"x": X}),
            lambda: session.run([value], {"x": X}),
            lambda: session.run(None, {"x": X}, value),
            lambda: session.run_with_ort_values(None, value),
            lambda: session.run_with_ort_values(None, {"x": value}),
            lambda: session.run_async(None, value, print, None),
            lambda: session.run_with_iobinding(value),
            lambda: OrtValue.ortvalue_from_numpy(value),
            lambda: OrtValue.ortvalue_from_numpy(X, value),
            lambda: OrtValue.ortvalue_from_numpy_with_onnx_type(X, value),
            lambda: OrtValue.ortvalue_from_shape_and_type(value, np.float32),
            lambda: OrtValue.ortvalue_from_shape_and_type([2], value),
            lambda: OrtValue.from_dlpack(value),
            lambda: tensor.update_inplace(value),
            lambda: binding.bind_cpu_input(value, X),
            lambda: (binding.bind_cpu_input("x", value), session.run_with_iobinding(binding)),
            lambda: binding.bind_ortvalue_input("x", value),
            lambda: session.run_with_iobinding(binding),
            lambda: bound.bind_cpu_input("x", X),
            lambda: (bound.bind_output("y", value), session.run_with_iobinding(bound)),
            lambda: (bound.bind_ortvalue_output("y", value), session.run_with_iobinding(bound)),
            lambda: options.add_free_dimension_override_by_name("n", value),
            lambda: options.add_session_config_entry("n", value),
            lambda: options.get_session_config_entry(value),
        ]

    for call in itertools.chain.from_iterable(map(calls_with, VALUES)):
        with contextlib.suppress(FlowloomError):
            call()


def test_a_sequence_is_a_list_of_arrays():
    sequence = onnx.helper.make_tensor_sequence_value_info("s", 1, None)
    result = helper.make_tensor_value_info("y", 1, None)
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    graph = helper.make_graph([node], "g", [sequence], [result])
    imports = [helper.make_opsetid("", 21)]
    module = compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
    found = module.run({"s": [X.astype(">f4"), X]})["y"]
    np.testing.assert_array_equal(found, np.concatenate([X, X]))
    assert found.dtype.isnative
    for value in VALUES:
        for feed in ({"s": value}, {"s": [X, value]}):
            with contextlib.suppress(FlowloomError):
                module.run(feed)


class Lender:
    """An array of the host that says where it is."""

    def __init__(self, *device: Any) -> None:
        self.device = device

    def __dlpack_device__(self) -> tuple[Any, ...]:
        return self.device

    def __dlpack__(self, **_options: object) -> object:
        return X.__dlpack__()


@pytest.mark.parametrize("model", [STATIC, DYNAMIC])
def test_memory_that_is_elsewhere_than_its_owner_says_is_refused(model: bytes):
    module = compiler.compile(model, target="emu", budget=0)
    with pytest.raises(ShapeError, match=r"says .* device \(12, 0\), and lends memory of \(1, 0\)"):
        module.run({"x": Lender(12, 0)})
    np.testing.assert_array_equal(module.run({"x": Lender(1, 0)})["y"], X)


def test_numpy_cannot_read_a_device_but_gets_a_copy():
    module = compiler.compile(STATIC, target="emu", budget=0)
    array = module.run({"x": X}, outputs="device")["y"]
    for lender in (array, OrtValue.from_dlpack(array)):
        with pytest.raises(DeviceError, match=r"emulator .* not in the host's memory: copy it"):
            np.from_dlpack(lender)
        with pytest.raises(DeviceError, match="copy it"):
            np.from_dlpack(lender, copy=True)
        with pytest.raises(DeviceError, match="copy it"):
            np.from_dlpack(lender, device="cpu", copy=False)
        np.testing.assert_array_equal(np.from_dlpack(lender, device="cpu"), X)
    with pytest.raises(DeviceError, match="copy it"):
        compiler.compile(STATIC, budget=0).run({"x": array})
    np.testing.assert_array_equal(module.run({"x": array})["y"], X)


def test_values_of_dlpack_are_where_they_say():
    value = OrtValue.from_dlpack(Lender(1, 0))
    assert value.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(value.numpy(), X)
    for device in ((10, 0), (99, 1), ("a", 0), (), (None,)):
        with pytest.raises(FlowloomError):
            OrtValue.from_dlpack(Lender(*device))
    with pytest.raises(FlowloomError, match="not on 'cuda'"):
        OrtValue(X, "cuda")


@pytest.mark.parametrize("value", [None, [X], list[Any]()])
def test_what_is_not_a_tensor_says_so(value: Any):
    made = OrtValue(value)
    for ask in ("shape", "element_type", "data_ptr", "tensor_size_in_bytes", "__dlpack_device__"):
        with pytest.raises(FlowloomError, match="is not a tensor"):
            getattr(made, ask)()
    with pytest.raises(FlowloomError, match="is not a tensor"):
        _ = made.dtype


@pytest.mark.parametrize("call", ["input", "output", "numpy", "shape", "value"])
def test_unknown_devices_are_refused_where_they_are_named(call: str):
    binding: Any = InferenceSession(STATIC).io_binding()
    calls: dict[str, Callable[[], Any]] = {
        "input": lambda: binding.bind_input("x", "tpu", 0, np.float32, (2, 3), X.ctypes.data),
        "output": lambda: binding.bind_output("y", "tpu"),
        "numpy": lambda: OrtValue.ortvalue_from_numpy(X, "tpu"),
        "shape": lambda: OrtValue.ortvalue_from_shape_and_type((2, 3), np.float32, "tpu"),
        "value": lambda: OrtValue(X, "tpu"),
    }
    with pytest.raises(ArgumentError, match="'tpu': it must be 'cpu' or 'cuda'"):
        calls[call]()


def test_a_size_that_is_too_large_is_told_the_bound():
    with pytest.raises(ArgumentError, match="sizes, each at most 2147483647"):
        OrtValue.ortvalue_from_shape_and_type((10**15,), np.float32)
