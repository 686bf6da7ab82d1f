"""Scripts for onnxruntime run with the import changed, and find the same."""

import logging
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser
from onnxruntime import datasets  # pyright: ignore

import compiler

Script = Callable[[Any, Path], Any]

get_example: Callable[[str], str] = datasets.get_example  # pyright: ignore

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def dynamic_model(path: Path) -> str:
    """A model with symbolic sizes, metadata and an initializer that may be overridden."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18], producer_name: "p", model_version: 7,'
        ' domain: "d", doc_string: "text">'
        "main (float[batch,width] x, float[1] bias) => (float[batch,width] y, float[batch] total)"
        "{ a = Add (x, bias)  y = Relu (a)  axes = Constant <value_ints = [1]> ()"
        " total = ReduceSum <keepdims = 0> (y, axes) }"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "bias"))
    helper.set_model_props(model, {"author": "a", "licence": "none"})
    (path / "dynamic.onnx").write_bytes(model.SerializeToString())
    return str(path / "dynamic.onnx")


def load_and_predict(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(get_example("sigmoid.onnx"))
    (given,), (found,) = session.get_inputs(), session.get_outputs()
    x = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)
    described = [(arg.name, arg.shape, arg.type) for arg in (given, found)]
    return described, session.run([found.name], {given.name: x})


def from_bytes(ort: Any, path: Path) -> Any:
    model = Path(get_example("mul_1.onnx")).read_bytes()
    session = ort.InferenceSession(model, providers=ort.get_available_providers())
    return session.run(None, {session.get_inputs()[0].name: X})


def metadata(ort: Any, path: Path) -> Any:
    found: list[Any] = []
    for model in (get_example("logreg_iris.onnx"), dynamic_model(path)):
        meta = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_modelmeta()
        found.append((meta.custom_metadata_map, meta.description, meta.domain, meta.graph_name))
        found.append((meta.producer_name, meta.version, meta.graph_description))
    return found


def labels_and_probabilities(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(get_example("logreg_iris.onnx"))
    types = [(arg.name, arg.type, arg.shape) for arg in session.get_outputs()]
    label, probabilities = session.run(None, {"float_input": X})
    rows = [sorted(row.items()) for row in probabilities]
    return types, label, np.array(rows)


def common_errors(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(get_example("logreg_iris.onnx"))
    names = ["label"]
    tries: list[tuple[Any, Any]] = [
        (names, {"float_input": X.astype(np.float64)}),
        (["misspelled"], {"float_input": X}),
        (names, {"misspelled": X}),
        (names, {"float_input": X, "misspelled": X}),
        (names, {}),
        (names, {"float_input": X}),
        (names, {"float_input": X.tolist()}),
        (names, {"float_input": X[:2]}),
        (names, {"float_input": X[0]}),
        (names, {"float_input": X[None]}),
    ]
    outcomes: list[str] = []
    for outputs, feed in tries:
        try:
            outcomes.append(str(session.run(outputs, feed)[0].tolist()))
        except Exception as error:
            words = ("misspelled", "float_input")
            outcomes.append("error" + next((w for w in words if w in str(error)), ""))
    return [outcome.split("float_input")[0] for outcome in outcomes]


def symbolic_sizes(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(dynamic_model(path))
    args = [*session.get_inputs(), *session.get_outputs(), *session.get_overridable_initializers()]
    runs = [session.run(["total", "y"], {"x": np.ones((n, 3), np.float32)}) for n in (1, 4)]
    return [(arg.name, arg.type, arg.shape) for arg in args], runs


def overridden_sizes(ort: Any, path: Path) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    session = ort.InferenceSession(dynamic_model(path), sess_options=options)
    shape = session.get_inputs()[0].shape
    try:
        session.run(None, {"x": np.ones((3, 3), np.float32)})
        refused = False
    except Exception:
        refused = True
    same = session.get_session_options().intra_op_num_threads
    return shape, refused, same, session.run(None, {"x": np.ones((2, 5), np.float32)})


def io_binding(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(dynamic_model(path))
    binding = session.io_binding()
    binding.bind_cpu_input("x", X - 3)
    binding.bind_output("y")
    binding.bind_output("total", "cpu")
    session.run_with_iobinding(binding)
    first = binding.copy_outputs_to_cpu()

    value = ort.OrtValue.ortvalue_from_numpy(X - 4, "cpu", 0)
    target = np.full((3, 2), 9, np.float32)
    sums = ort.OrtValue.ortvalue_from_shape_and_type([3], np.float32)
    binding.clear_binding_outputs()
    binding.bind_input("x", "cpu", 0, np.float32, value.shape(), value.data_ptr())
    binding.bind_output("y", "cpu", 0, np.float32, [3, 2], target.ctypes.data)
    binding.bind_ortvalue_output("total", sums)
    session.run_with_iobinding(binding)
    value.update_inplace(X)
    session.run_with_iobinding(binding)
    described = [
        (v.shape(), v.data_type(), v.device_name(), v.element_type()) for v in binding.get_outputs()
    ]
    return first, target, sums.numpy(), described


def values(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(dynamic_model(path))
    value = ort.OrtValue.ortvalue_from_numpy(X)
    assert np.shares_memory(np.asarray(value.numpy()), X) or ort is onnxruntime
    (found,) = session.run_with_ort_values(["y"], {"x": value})
    flags = (found.is_tensor(), found.is_tensor_sequence(), found.is_sparse_tensor())
    size = found.tensor_size_in_bytes()
    dlpack = np.from_dlpack(ort.OrtValue.from_dlpack(X))
    return found.numpy(), flags, found.has_value(), size, dlpack, np.asarray(value)


def asynchronous(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(dynamic_model(path))
    found: list[Any] = []
    ended = Event()

    def callback(results: Any, data: Any, error: str) -> None:
        found.extend([results, data, error])
        ended.set()

    session.run_async(["y"], {"x": X}, callback, "data")
    assert ended.wait(30)
    return found


def profiling(ort: Any, path: Path) -> Any:
    import json

    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(path / "profile")
    before = time.monotonic_ns()
    session = ort.InferenceSession(get_example("mul_1.onnx"), options)
    session.run(None, {"X": X})
    started = session.get_profiling_start_time_ns()
    file = Path(session.end_profiling())
    events = json.loads(file.read_text())
    runs = [e for e in events if e["name"] == "model_run" and e["ph"] == "X" and e["dur"] >= 0]
    plain = ort.InferenceSession(get_example("mul_1.onnx")).end_profiling()
    return file.name.startswith("profile_"), started >= before, len(runs), plain


def ended_runs(ort: Any, path: Path) -> Any:
    session = ort.InferenceSession(get_example("mul_1.onnx"))
    options = ort.RunOptions()
    options.log_severity_level = 3
    first = session.run(None, {"X": X}, options)
    options.terminate = True
    try:
        session.run(None, {"X": X}, run_options=options)
    except Exception:
        return first, "ended"
    return first, "ran"


SCRIPTS: list[Script] = [
    load_and_predict,
    from_bytes,
    metadata,
    labels_and_probabilities,
    common_errors,
    symbolic_sizes,
    overridden_sizes,
    io_binding,
    values,
    asynchronous,
    profiling,
    ended_runs,
]


def check_same(ours: Any, theirs: Any) -> None:
    """Equal structures, with floats as close as two float32 implementations are."""
    if type(theirs) in (list, tuple):
        assert type(ours) in (list, tuple)
        assert len(ours) == len(theirs)
        for ours_one, theirs_one in zip(ours, theirs, strict=True):
            check_same(ours_one, theirs_one)
    elif hasattr(theirs, "dtype"):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    else:
        assert ours == theirs


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_script_works_with_the_import_changed(script: Script, tmp_path: Path):
    check_same(script(compiler, tmp_path), script(onnxruntime, tmp_path))


def test_an_onnx_backend_script_works_with_the_import_changed():
    import onnx

    from compiler import backend as ours

    theirs: Any = import_module("onnxruntime.backend")
    name, x = get_example("logreg_iris.onnx"), X
    for model in (onnx.ModelProto.FromString(Path(name).read_bytes()), name):
        label, rows = ours.prepare(model, compiler.get_device()).run(x)
        expected = theirs.prepare(model, "CPU").run(x)
        np.testing.assert_array_equal(label, expected[0])
        assert [row.keys() for row in rows] == [row.keys() for row in expected[1]]


def test_the_level_of_logs_is_set_by_severity():
    logger = logging.getLogger("compiler")
    before = logger.level
    try:
        options = compiler.SessionOptions()
        options.log_severity_level = 3
        compiler.InferenceSession(get_example("mul_1.onnx"), options)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)
