"""Sessions: providers, options, saved modules, outputs on a device, and clear refusals."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper, parser
from onnxruntime import datasets  # pyright: ignore

import compiler
from compiler.artifact.module import Module
from compiler.errors import ArgumentError, DeviceError, InvalidArgument
from compiler.interfaces.onnxruntime import providers
from compiler.interfaces.onnxruntime.providers import providers_of
from tests.kernels.gpu.emulator import COMPILER

MUL = str(datasets.get_example("mul_1.onnx"))  # pyright: ignore
X = np.arange(6, dtype=np.float32).reshape(3, 2)
W = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
EXPECTED = X * W


def always(target: str, ordinal: int = 0) -> str | None:
    """No device is absent."""
    return None


EMULATES = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


@pytest.mark.parametrize(
    ("given", "extra", "message"),
    [
        (["CPUExecutionProvider"], [{"x": 1}, {}], "2 provider_options for 1"),
        ("CPUExecutionProvider", None, "pass a list"),
        ([("CPUExecutionProvider", {"stream": 1})], None, "no option 'stream'"),
        ([("CPUExecutionProvider", {"device_id": "a"})], None, "not a device's number"),
    ],
)
def test_wrong_providers_are_refused(given: Any, extra: Any, message: str):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        compiler.InferenceSession(MUL, providers=given, provider_options=extra)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("CPUExecutionProvider", {}, {"target": "cpu"}),
        ("ROCMExecutionProvider", {"device_id": 0}, {"target": "hip"}),
        (
            "CPUExecutionProvider",
            {"flowloom_semantics": "lstm-clip-cell=onnx"},
            {"target": "cpu", "semantics": "onnxruntime,lstm-clip-cell=onnx"},
        ),
        (
            "CPUExecutionProvider",
            {"flowloom_semantics": "onnx"},
            {"target": "cpu", "semantics": "onnx"},
        ),
        ("CUDAExecutionProvider", {"use_tf32": 0}, {"target": "cuda", "precision": "fp32"}),
        (
            "CUDAExecutionProvider",
            {"flowloom_precision": "fp16", "flowloom_budget": "0.5", "arena_extend_strategy": "x"},
            {"target": "cuda", "precision": "fp16", "budget": 0.5},
        ),
    ],
)
def test_providers_are_targets(
    name: str,
    options: dict[str, Any],
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(providers, "absence", always)
    pair, listed = providers_of([(name, options)], None)[0], providers_of([name], [options])[0]
    assert pair == listed
    assert pair.compile_options == {"semantics": "onnxruntime", **expected}


def test_a_budget_that_is_no_number_is_refused():
    (provider,) = providers_of([("CPUExecutionProvider", {"flowloom_budget": "long"})], None)
    with pytest.raises(ArgumentError, match="flowloom_budget='long'"):
        _ = provider.compile_options


@pytest.fixture
def only_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without a GPU."""

    def absence(target: str, ordinal: int = 0) -> str | None:
        return None if target in ("cpu", "emu") else "no driver"

    monkeypatch.setattr(providers, "absence", absence)


CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


@pytest.mark.usefixtures("only_cpu")
@pytest.mark.parametrize(
    "names",
    [
        [CUDA],
        [CUDA, CPU],
        [CPU, CUDA],
        ["TensorrtExecutionProvider", CUDA, CPU],
        ["Nonsense"],
        [(CUDA, {"nonsense": 1, "device_id": "x"}), CPU],
    ],
)
def test_providers_that_are_not_available_are_passed_over(names: list[Any]):
    with pytest.warns(UserWarning, match="is not in available provider names") as caught:
        session = compiler.InferenceSession(MUL, providers=names)
    assert len(caught) == len([name for name in names if name != CPU])
    assert session.get_providers() == [CPU]
    assert session.get_provider_options() == {CPU: {}}
    np.testing.assert_array_equal(session.run(None, {"X": X})[0], EXPECTED)


@pytest.mark.usefixtures("only_cpu")
def test_the_cpu_is_the_last_provider():
    session = compiler.InferenceSession(MUL, providers=["EmulatorExecutionProvider"])
    assert session.get_providers() == ["EmulatorExecutionProvider", CPU]
    assert compiler.get_available_providers() == [CPU]
    assert compiler.get_device() == "CPU"
    with pytest.warns(UserWarning, match="Duplicate provider"):
        assert compiler.InferenceSession(MUL, providers=[CPU, CPU]).get_providers() == [CPU]


def test_a_device_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def absence(target: str, ordinal: int = 0) -> str | None:
        return None if ordinal == 0 else "there is one device"

    monkeypatch.setattr(providers, "absence", absence)
    with pytest.raises(DeviceError, match="device 7 cannot be used: there is one device"):
        providers_of([(CUDA, {"device_id": 7})], None)


@pytest.mark.parametrize("entry", [3, None, [CPU, {}], (CPU,), (CPU, {}, {}), (3, {}), (CPU, 3)])
def test_what_is_no_provider_is_an_error(entry: Any):
    with pytest.raises(ArgumentError, match="is not a name"):
        providers_of([entry], None)


def test_providers_can_be_set_again():
    session = compiler.InferenceSession(MUL)
    module = session.module
    options = {"arena_extend_strategy": "x"}
    session.set_providers([("CPUExecutionProvider", options)])
    assert session.module is not module
    assert session.get_provider_options() == {
        "CPUExecutionProvider": {"arena_extend_strategy": "x"}
    }
    np.testing.assert_array_equal(session.run(None, {"X": X})[0], EXPECTED)


def test_threads_are_those_of_the_options():
    options = compiler.SessionOptions()
    options.intra_op_num_threads = 1
    assert compiler.InferenceSession(MUL, options).module.threads == 1


def test_the_compiled_model_is_saved_and_opened(tmp_path: Path):
    options = compiler.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised")
    first = compiler.InferenceSession(MUL, options)
    second = compiler.InferenceSession(tmp_path / "optimised")
    assert second.get_inputs() == first.get_inputs()
    assert second.get_outputs() == first.get_outputs()
    np.testing.assert_array_equal(second.run(None, {"X": X})[0], EXPECTED)


def test_what_could_change_results_is_refused():
    options = compiler.SessionOptions()
    with pytest.raises(AttributeError):
        options.misspelled = 1  # pyright: ignore[reportAttributeAccessIssue]
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(InvalidArgument, match="no entry 'other'"):
        options.get_session_config_entry("other")
    for refused in (
        lambda: options.add_session_config_entry("session.set_denormal_as_zero", "1"),
        lambda: options.add_initializer("W", None),
        lambda: options.add_external_initializers(["W"], [None]),
        lambda: options.register_custom_ops_library("ops.so"),
        lambda: compiler.RunOptions().add_active_adapter(None),
        lambda: compiler.InferenceSession(MUL, unknown=1),
    ):
        with pytest.raises(ArgumentError):
            refused()


def test_sizes_for_unknown_symbols_are_refused():
    options = compiler.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 1)
    with pytest.raises(InvalidArgument, match="no free dimension 'batch'"):
        compiler.InferenceSession(MUL, options)


def test_sizes_are_given_by_denotation():
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[n] x) => (float[n] y) { y = Abs (x) }'
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = compiler.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    session = compiler.InferenceSession(model.SerializeToString(), options)
    assert isinstance(session.module, Module)
    assert session.get_inputs()[0].shape == [3]


def model_with_default(ir_version: int = 10) -> bytes:
    """A sum whose second operand is an initializer and an input."""
    model = parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["" : 18]>'
        "g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    return model.SerializeToString()


def test_an_initializer_may_be_fed_or_left_out(caplog: pytest.LogCaptureFixture):
    session = compiler.InferenceSession(model_with_default())
    peer: Any = onnxruntime.InferenceSession(
        model_with_default(), providers=["CPUExecutionProvider"]
    )
    x = np.ones(2, np.float32)
    for w in (np.array([3, 5], np.float32), None, np.array([7, -1], np.float32)):
        feed = {"x": x} if w is None else {"x": x, "w": w}
        np.testing.assert_array_equal(session.run(None, feed)[0], peer.run(None, feed)[0])
    assert sum("initializers ['w']" in record.message for record in caplog.records) == 1
    with pytest.raises(InvalidArgument, match="'w' is float64"):
        session.run(None, {"x": x, "w": np.ones(2)})


def test_an_initializer_may_be_bound():
    session = compiler.InferenceSession(model_with_default())
    binding = session.io_binding()
    for name in ("x", "w"):
        binding.bind_cpu_input(name, np.full(2, 4, np.float32))
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [8, 8]


def test_before_ir_version_4_initializers_are_constants():
    session = compiler.InferenceSession(model_with_default(3))
    assert not session.get_overridable_initializers()
    with pytest.raises(InvalidArgument, match="no input 'w'"):
        session.run(None, {"x": np.ones(2, np.float32), "w": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    ("outputs", "feed", "message"),
    [
        (["Z"], {"X": X}, "no output 'Z'; its outputs are Y"),
        (None, {}, "inputs 'X' are missing; given were none"),
        (None, {"X": X, "Z": X}, "no input 'Z'; its inputs are X"),
        (None, {"X": X.astype(np.float64)}, "'X' is float64, and the model takes float32"),
        (None, {"X": X[0]}, "'X' has 1 dimensions, [2], and the model takes 2, [3, 2]"),
        (None, {"X": X[:2]}, "dimension 0 of the input 'X' is 2, and the model takes 3"),
        (None, {"X": "text"}, "'X' is a str: pass an array"),
    ],
)
def test_calls_that_do_not_fit_the_model_are_refused(outputs: Any, feed: Any, message: str):
    session = compiler.InferenceSession(MUL)
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        session.run(outputs, feed)


def test_a_module_is_loaded_with_other_options():
    module = compiler.InferenceSession(MUL).module
    again = module.with_options(threads=1)
    assert again.threads == 1
    assert again.schedule is module.schedule
    np.testing.assert_array_equal(again.run({"X": X})["Y"], EXPECTED)


def test_bindings_check_names_types_and_shapes():
    session = compiler.InferenceSession(MUL)
    binding = session.io_binding()
    with pytest.raises(InvalidArgument, match="no input 'x'; its inputs are X"):
        binding.bind_cpu_input("x", X)
    with pytest.raises(InvalidArgument, match="no output 'y'"):
        binding.bind_output("y")
    with pytest.raises(InvalidArgument, match="needs element_type"):
        binding.bind_output("Y", buffer_ptr=1)
    binding.bind_cpu_input("X", X)
    small = compiler.OrtValue.ortvalue_from_shape_and_type([2], np.float32)
    binding.bind_ortvalue_output("Y", small)
    with pytest.raises(InvalidArgument, match=r"is bound to memory of float32\[2\]"):
        session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    binding.bind_output("Y", "cuda")
    with pytest.raises(DeviceError, match="cannot stay on a device with CPUExecutionProvider"):
        session.run_with_iobinding(binding)
    with pytest.raises(InvalidArgument, match="cannot take float64"):
        small.update_inplace(np.ones(2))


PROVIDERS = [
    pytest.param("emu", marks=EMULATES),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


@pytest.fixture(params=PROVIDERS)
def device(request: pytest.FixtureRequest) -> str:
    """Each device that runs here, as onnxruntime names it."""
    if request.param == "cuda":
        request.getfixturevalue("cuda_device")
    return request.param


def session_on(device: str, model: Any = MUL) -> compiler.InferenceSession:
    """A session on a device, in float32 and unmeasured."""
    name = {"emu": "EmulatorExecutionProvider", "cuda": "CUDAExecutionProvider"}[device]
    options = {"use_tf32": 0, **({"flowloom_budget": 0} if device == "cuda" else {})}
    session = compiler.InferenceSession(model, providers=[(name, options)])
    assert session.get_providers() == [name, CPU]
    return session


def test_tensors_stay_on_a_device(device: str):
    session = session_on(device)
    value = compiler.OrtValue.ortvalue_from_numpy(X, device)
    assert (value.device_name(), value.shape(), value.data_type()) == (
        device,
        [3, 2],
        "tensor(float)",
    )
    binding = session.io_binding()
    binding.bind_ortvalue_input("X", value)
    binding.bind_output("Y", device)
    session.run_with_iobinding(binding)
    (first,) = binding.get_outputs()
    value.update_inplace(X + 1)
    session.run_with_iobinding(binding)
    (second,) = binding.get_outputs()
    assert first.device_name() == second.device_name() == device
    np.testing.assert_array_equal(first.numpy(), EXPECTED)
    np.testing.assert_array_equal(second.numpy(), (X + 1) * W)

    target = compiler.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32, device)
    again = session.io_binding()
    pointer = value.data_ptr()
    again.bind_input("X", device, 0, np.float32, [3, 2], pointer)
    again.bind_output("Y", device, 0, np.float32, [3, 2], target.data_ptr())
    session.run_with_iobinding(again)
    np.testing.assert_array_equal(target.numpy(), second.numpy())
    np.testing.assert_array_equal(again.copy_outputs_to_cpu()[0], second.numpy())
    host = session.io_binding()
    host.bind_ortvalue_input("X", value)
    host.bind_output("Y")
    session.run_with_iobinding(host)
    assert host.get_outputs()[0].device_name() == "cpu"
    np.testing.assert_array_equal(host.get_outputs()[0].numpy(), second.numpy())


def test_a_session_gives_what_one_on_the_host_does(device: str):
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "g (float[4,8] x, float[8,8] w) => (float[4,8] y, int64[4] n) {"
        " a = MatMul (x, w) b = Tanh (x) y = Add (a, b) n = ArgMax<axis = 1, keepdims = 0> (y) }"
    ).SerializeToString()
    generator = np.random.default_rng(0)
    feed = {n: generator.standard_normal(s).astype("f4") for n, s in (("x", (4, 8)), ("w", (8, 8)))}
    session, host = session_on(device, model), compiler.InferenceSession(model)
    for found, expected in zip(session.run(None, feed), host.run(None, feed), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    (first,) = session.run(["n"], feed)
    np.testing.assert_array_equal(first, host.run(["n"], feed)[0])


def test_a_program_takes_and_leaves_tensors_on_a_device(device: str):
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[n,2] x) => (float[n,2] y) {'
        " a = Exp (x) y = Add (a, x) }"
    )
    session = session_on(device, model.SerializeToString())
    assert not isinstance(session.module, Module)
    for rows in (3, 700, 3):  # few rows are computed on the host
        x = np.random.default_rng(rows).standard_normal((rows, 2), np.float32)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", compiler.OrtValue.ortvalue_from_numpy(x, device))
        target = compiler.OrtValue.ortvalue_from_shape_and_type([rows, 2], np.float32, device)
        binding.bind_output("y", device, 0, np.float32, [rows, 2], target.data_ptr())
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(target.numpy(), np.exp(x) + x, rtol=1e-5, atol=1e-6)
        binding.bind_output("y", device)
        session.run_with_iobinding(binding)
        (left,) = binding.get_outputs()
        assert left.device_name() == device
        np.testing.assert_allclose(left.numpy(), np.exp(x) + x, rtol=1e-5, atol=1e-6)
    assert len(session.module.compiler.modules) == 1


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda_device")
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_memory_of_other_libraries_is_bound_by_its_address(library: str):
    other: Any = pytest.importorskip(library)
    torch = library == "torch"

    def pointer(array: Any) -> int:
        return array.data_ptr() if torch else array.data.ptr

    x = other.from_numpy(X).cuda() if torch else other.asarray(X)
    y = other.zeros_like(x)
    session = session_on("cuda")
    binding = session.io_binding()
    binding.bind_input("X", "cuda", 0, np.float32, [3, 2], pointer(x))
    binding.bind_output("Y", "cuda", 0, np.float32, [3, 2], pointer(y))
    for step in range(3):
        x += 1
        (other.cuda.synchronize if torch else other.cuda.Device().synchronize)()
        session.run_with_iobinding(binding)
        found = y.cpu().numpy() if torch else y.get()
        np.testing.assert_array_equal(found, (X + step + 1) * W)
    (same,) = session.run(None, {"X": x})
    np.testing.assert_array_equal(same, (X + 3) * W)


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda_device")
def test_the_device_is_offered_and_named():
    assert compiler.get_available_providers()[0] == "CUDAExecutionProvider"
    assert compiler.get_device() == "GPU"
    with pytest.raises(DeviceError, match="99"):
        compiler.InferenceSession(MUL, providers=[("CUDAExecutionProvider", {"device_id": 99})])
