"""Tensors in files next to the model, and sparse ones, wherever ONNX's format has tensors."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler.errors import ModelError
from compiler.frontend import hoisting
from compiler.frontend.load import read_model
from tests.externals import put_outside, sparse

BIAS = np.array([1, 0, -2, 0], np.float32)
X = np.array([1, -2, 3, -4], np.float32)


def constant(name: str, array: np.ndarray = BIAS, as_sparse: bool = False) -> onnx.NodeProto:
    """A Constant node, dense or sparse."""
    if as_sparse:
        return helper.make_node("Constant", [], [name], sparse_value=sparse("", array))
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))


def info(name: str, shape: Sequence[int | str] = (4,), dtype: int = 1) -> onnx.ValueInfoProto:
    """The type of a tensor."""
    return helper.make_tensor_value_info(name, dtype, shape)


def body(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[str] = ("out",),
    weights: Mapping[str, np.ndarray] | None = None,
    sparse_weights: Mapping[str, np.ndarray] | None = None,
) -> onnx.GraphProto:
    """A body with dense and sparse initializers."""
    results = [info(name, (), 9) if name == "go" else info(name) for name in outputs]
    dense = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    others = [sparse(name, array) for name, array in (sparse_weights or {}).items()]
    return helper.make_graph(nodes, "body", inputs, results, dense, sparse_initializer=others)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    weights: Mapping[str, np.ndarray] | None = None,
    sparse_weights: Mapping[str, np.ndarray] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    output: onnx.ValueInfoProto | None = None,
) -> onnx.ModelProto:
    """A model with one output `out`."""
    graph = body(nodes, inputs, ("out",), weights, sparse_weights)
    if output is not None:
        graph.output[0].CopyFrom(output)
    imports = [helper.make_opsetid(d, v) for d, v in [("", 21), ("local", 1), ("ai.onnx.ml", 4)]]
    return helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=10)


def _adds(as_sparse: bool) -> list[onnx.NodeProto]:
    return [
        constant("twice", 2 * BIAS, as_sparse),
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "twice"], ["out"]),
    ]


def _weights(as_sparse: bool) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Dense and sparse initializers."""
    return ({}, {"w": BIAS}) if as_sparse else ({"w": BIAS}, {})


def adding(as_sparse: bool) -> onnx.GraphProto:
    """A body that adds a weight and a constant to `x` from around it: x + 3 * BIAS."""
    return body(_adds(as_sparse), (), ("out",), *_weights(as_sparse))


def plain(as_sparse: bool) -> onnx.ModelProto:
    return model_of(_adds(as_sparse), [info("x")], *_weights(as_sparse))


def branch(as_sparse: bool) -> onnx.ModelProto:
    nodes = [
        helper.make_node(
            "If", ["c"], ["out"], then_branch=adding(as_sparse), else_branch=adding(not as_sparse)
        )
    ]
    return model_of(nodes, [info("x"), info("c", (), 9)])


def nested(as_sparse: bool) -> onnx.ModelProto:
    """A Loop of one iteration, of an If, of a Scan that adds nothing."""
    row = body(
        [
            constant("zero", np.zeros(1, np.float32), as_sparse),
            helper.make_node("Squeeze", ["zero"], ["z"]),
            helper.make_node("Add", ["row", "z"], ["out"]),
        ],
        [info("row", ())],
    )
    row.output[0].CopyFrom(info("out", ()))
    then = body(
        [
            helper.make_node(
                "If",
                ["c"],
                ["added"],
                then_branch=adding(as_sparse),
                else_branch=adding(not as_sparse),
            ),
            helper.make_node("Scan", ["added"], ["out"], body=row, num_scan_inputs=1),
        ]
    )
    then.node[0].attribute[0].g.output[0].name = "out"
    other = body([helper.make_node("Identity", ["x"], ["out"])])
    inner = [
        helper.make_node("If", ["c"], ["out"], then_branch=then, else_branch=other),
        helper.make_node("Identity", ["c"], ["go"]),
    ]
    inputs = [info("i", (), 7), info("on", (), 9), info("old")]
    loop = body(inner, inputs, ("go", "out"))
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["out"], body=loop)]
    return model_of(nodes, [info("x"), info("n", (), 7), info("c", (), 9)])


def function(as_sparse: bool) -> onnx.ModelProto:
    nodes = [
        constant("w", 3 * BIAS, as_sparse),
        helper.make_node("Add", ["x", "w"], ["out"]),
    ]
    made = helper.make_function(
        "local", "Adds", ["x"], ["out"], nodes, [helper.make_opsetid("", 21)]
    )
    call = helper.make_node("Adds", ["x"], ["out"], domain="local")
    return model_of([call], [info("x")], functions=[made])


Maker = Callable[[bool], onnx.ModelProto]
MODELS: list[Maker] = [plain, branch, nested, function]
FEEDS = {"x": X, "c": np.array(True), "n": np.array(1, np.int64)}


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current directory that holds other files of the same names."""
    folder = tmp_path / "elsewhere"
    (folder / "inner").mkdir(parents=True)
    for name in ("weights.bin", "inner/w.bin"):
        (folder / name).write_bytes(b"\xff" * 4096)
    monkeypatch.chdir(folder)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("make", MODELS)
def test_external_data_everywhere(make: Maker, as_sparse: bool, tmp_path: Path):
    model, random = make(as_sparse), Random(1)
    feeds = {i.name: FEEDS[i.name] for i in model.graph.input}
    outside = put_outside(model, tmp_path / "all")
    some = put_outside(model, tmp_path / "some", lambda: random.random() < 0.5)
    for given in (model, model.SerializeToString(), outside, some):
        found = compiler.compile(given, threads=1).run(feeds)["out"]
        np.testing.assert_array_equal(found, X + 3 * BIAS)
    session = compiler.InferenceSession(outside)
    np.testing.assert_array_equal(session.run(None, feeds)[0], X + 3 * BIAS)
    compiler.compile(outside, threads=1).save(tmp_path / "saved")
    again = compiler.load(tmp_path / "saved", threads=1).run(feeds)["out"]
    np.testing.assert_array_equal(again, X + 3 * BIAS)


@pytest.mark.parametrize("make", [plain, branch, nested])
def test_large_tensors_of_bodies_stay_in_their_files(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hoisting, "MOST_INNER_BYTES", 0)
    monkeypatch.setattr(hoisting, "LEAST_HOISTED_BYTES", BIAS.nbytes)
    model = make(False)
    feeds = {i.name: FEEDS[i.name] for i in model.graph.input}
    outside = put_outside(model, tmp_path / "files")
    moved = {tensor.name for tensor in read_model(outside).graph.initializer}
    assert {"w/0", "constant/0"} & moved
    for given in (model, outside):
        module = compiler.compile(given, threads=1)
        np.testing.assert_array_equal(module.run(feeds)["out"], X + 3 * BIAS)
        module.save(tmp_path / "saved")
        again = compiler.load(tmp_path / "saved", threads=1).run(feeds)["out"]
        np.testing.assert_array_equal(again, X + 3 * BIAS)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("make", [branch, nested, function])
def test_data_of_a_folder_that_is_not_known(make: Maker, tmp_path: Path):
    outside = put_outside(make(False), tmp_path)
    for given in (outside.read_bytes(), cast(Any, onnx).load(outside, load_external_data=False)):
        with pytest.raises(ModelError, match="give the model's path instead"):
            compiler.compile(given)
    (tmp_path / "inner" / "w.bin").unlink()
    with pytest.raises(ModelError, match="is missing"):
        compiler.compile(outside)


@pytest.mark.usefixtures("elsewhere")
def test_external_attributes_of_other_operators(tmp_path: Path):
    node = helper.make_node(
        "ConstantOfShape",
        ["n"],
        ["out"],
        value=numpy_helper.from_array(np.array([2.5], np.float32)),
    )
    model = model_of([node], [info("n", (1,), 7)], output=info("out", ("k",)))
    path = put_outside(model, tmp_path / "shape")
    found = compiler.compile(path).run({"n": np.array([3])})["out"]
    np.testing.assert_array_equal(found, np.full(3, 2.5, np.float32))
    encoder = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["out"],
        domain="ai.onnx.ml",
        keys_tensor=numpy_helper.from_array(np.array([1, 3], np.float32)),
        values_tensor=numpy_helper.from_array(np.array([10, 30], np.float32)),
        default_tensor=numpy_helper.from_array(np.array([-1], np.float32)),
    )
    path = put_outside(model_of([encoder], [info("x")]), tmp_path / "labels")
    np.testing.assert_array_equal(compiler.compile(path).run({"x": X})["out"], [10, -1, 30, -1])


def test_a_sparse_initializer_that_is_an_input_too():
    model = plain(True)
    model.graph.input.append(info("w"))
    assert [i.name for i in compiler.compile(model).inputs] == ["x"]
    module = compiler.compile(model, overridable=["w"])
    found = module.run({"x": X, "w": X})["out"]
    np.testing.assert_array_equal(found, 2 * X + 2 * BIAS)
