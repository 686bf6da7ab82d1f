"""`flowloom inspect` says what compiling a model would give, and compiling gives that."""

import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import flowloom
from compiler.program.model import DynamicModule
from compiler.tools.cli import main
from compiler.tools.model_report import inspect_model


def model_of(*nodes: onnx.NodeProto, size: int | str = 4, result: int = 1) -> onnx.ModelProto:
    """A model from x to y with a weight w of 4 x 8."""
    weight = onnx.numpy_helper.from_array(np.ones((4, 8), np.float32), "w")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, 4])]
    outputs = [helper.make_tensor_value_info("y", result, None)]
    graph = helper.make_graph([*nodes], "small", inputs, outputs, [weight])
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


STATIC = model_of(helper.make_node("MatMul", ["x", "w"], ["y"]))
OPEN = model_of(helper.make_node("MatMul", ["x", "w"], ["y"]), size="n")
ON_HOST = model_of(
    helper.make_node("StringNormalizer", ["t"], ["u"]),
    helper.make_node("Constant", [], ["t"], value_strings=["a"]),
    helper.make_node("Shape", ["u"], ["y"]),
    result=TensorProto.INT64,
)
UNKNOWN = model_of(helper.make_node("NoSuchOperator", ["x"], ["y"]))


def test_a_static_model_is_described():
    report = inspect_model(STATIC)
    assert report.outcome == "static"
    assert report.operators == {"MatMul": 1}
    assert (report.parameters, report.parameter_bytes) == (32, 128)
    assert [str(value) for value in report.inputs] == ["x float32[4, 4]"]
    assert isinstance(flowloom.compile(STATIC), flowloom.Module)


def test_an_open_size_makes_a_dynamic_module_and_a_shape_a_static_one():
    report = inspect_model(OPEN)
    assert (report.outcome, report.segments) == ("dynamic", 1)
    assert "n" in report.reason
    assert isinstance(flowloom.compile(OPEN), DynamicModule)
    assert inspect_model(OPEN, input_shapes={"x": [2, 4]}).outcome == "static"


def test_nodes_on_the_host_have_their_reasons():
    report, module = inspect_model(ON_HOST), flowloom.compile(ON_HOST)
    assert report.outcome == "dynamic"
    assert isinstance(module, DynamicModule)
    assert report.on_host == module.on_host
    assert report.on_host


def test_what_compiling_refuses_is_refused_with_the_same_words():
    report = inspect_model(UNKNOWN)
    assert report.outcome == "refused"
    with pytest.raises(flowloom.UnsupportedOperatorError) as caught:
        flowloom.compile(UNKNOWN)
    assert report.reason == str(caught.value)


def test_what_is_no_model_is_an_error(tmp_path: Path):
    with pytest.raises(flowloom.ModelError):
        inspect_model(b"not a model")
    with pytest.raises(flowloom.DeviceError):
        inspect_model(STATIC, "gpu")


def test_warnings_are_in_the_report_and_not_raised():
    empty = onnx.numpy_helper.from_array(np.array([], np.int64))
    axes = helper.make_node("Constant", [], ["a"], value=empty)
    model = model_of(axes, helper.make_node("Squeeze", ["x", "a"], ["y"]), size=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = inspect_model(model)
    with pytest.warns(flowloom.SemanticsWarning) as caught:
        flowloom.compile(model)
    assert report.warnings == [str(warning.message) for warning in caught]
    assert not inspect_model(model, semantics="onnx").warnings


def test_the_command_prints_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "open.onnx"
    path.write_bytes(OPEN.SerializeToString())
    assert main(["inspect", str(path)]) == 0
    assert "a dynamic module, 1 compiled segment before its first run" in capsys.readouterr().out
    assert main(["inspect", str(path), "--input-shape", "x=2,4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "static"
    path.write_bytes(UNKNOWN.SerializeToString())
    assert main(["inspect", str(path)]) == 1
    assert "refused: 1 operator cannot be compiled" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path)]) == 1
    assert "flowloom report" in capsys.readouterr().err
