"""Models of more bytes than a protobuf may have, 2 GiB."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.artifact.module import Module
from compiler.errors import ModelError
from compiler.program import saving
from compiler.program.model import DynamicModule

ROWS, COLUMNS = 1100, 1_000_000
LAST = np.arange(COLUMNS, dtype=np.uint32).astype(np.uint8)
"""The last row of each table; the others are 0."""
NUMBERS = np.array([0, ROWS - 1])


def large_model(rows: int | str) -> onnx.ModelProto:
    """Rows of two tables of 1.1 GB, added, without the tables."""
    nodes = [
        helper.make_node("Gather", ["a", "rows"], ["of_a"]),
        helper.make_node("Gather", ["b", "rows"], ["of_b"]),
        helper.make_node("BitwiseXor", ["of_a", "of_b"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, [rows])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.UINT8, [rows, COLUMNS])]
    graph = helper.make_graph(nodes, "large", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def in_memory(rows: int | str) -> onnx.ModelProto:
    model = large_model(rows)
    for name in ("a", "b"):
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.UINT8)
        tensor.dims.extend((ROWS, COLUMNS))
        tensor.raw_data = (
            bytes((ROWS - 1) * COLUMNS) + (LAST if name == "a" else 0 * LAST).tobytes()
        )
    return model


def in_files(folder: Path, rows: int | str) -> Path:
    """The model with its tables in one file of 2.2 GB, most of which is a hole."""
    model = large_model(rows)
    with (folder / "tables").open("wb") as file:
        file.truncate(2 * ROWS * COLUMNS)
        file.seek((ROWS - 1) * COLUMNS)
        file.write(LAST.tobytes())
    for number, name in enumerate(("a", "b")):
        tensor = model.graph.initializer.add(name=name, data_type=TensorProto.UINT8)
        tensor.dims.extend((ROWS, COLUMNS))
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="tables")
        tensor.external_data.add(key="offset", value=str(number * ROWS * COLUMNS))
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def assert_looks_up(module: Module | DynamicModule) -> None:
    y = module.run({"rows": NUMBERS})["y"]
    np.testing.assert_array_equal(y, [0 * LAST, LAST])


@pytest.mark.deep
@pytest.mark.parametrize("rows", [2, "n"])
def test_large_models_in_memory_compile(rows: int | str):
    assert_looks_up(compiler.compile(in_memory(rows), budget=0))


@pytest.mark.deep
@pytest.mark.parametrize("rows", [2, "n"])
def test_large_models_in_files_are_saved(tmp_path: Path, rows: int | str):
    module = compiler.compile(in_files(tmp_path, rows), budget=0)
    assert_looks_up(module)
    module.save(tmp_path / "saved")
    module.close()
    assert_looks_up(compiler.load(tmp_path / "saved"))


def branching(folder: Path, kind: str) -> Path:
    """A model of the file whose tables are in a branch, in Constant nodes or in a function."""
    path = in_files(folder, 2)
    model = cast(Any, onnx).load(path, load_external_data=False)
    graph = model.graph
    tables = list(graph.initializer)
    del graph.initializer[:]
    constants = [helper.make_node("Constant", [], [t.name], value=t) for t in tables]
    if kind == "branch":
        graph.input.append(helper.make_tensor_value_info("chosen", TensorProto.BOOL, []))
        result = helper.make_tensor_value_info("y", TensorProto.UINT8, [2, COLUMNS])
        then = helper.make_graph(list(graph.node), "then", [], [result], tables)
        last = helper.make_tensor_value_info("other", TensorProto.UINT8, [2, COLUMNS])
        other = helper.make_node("Gather", ["b", "rows"], ["other"])
        other_branch = helper.make_graph([other], "other", [], [last], tables[1:])
        nodes = [
            helper.make_node("If", ["chosen"], ["y"], then_branch=then, else_branch=other_branch)
        ]
    elif kind == "constants":
        nodes = [*constants, *graph.node]
    else:
        imports = list(model.opset_import)
        whole = [*constants, *graph.node]
        model.functions.append(
            helper.make_function("own", "Tables", ["rows"], ["y"], whole, imports)
        )
        model.opset_import.append(helper.make_opsetid("own", 1))
        nodes = [helper.make_node("Tables", ["rows"], ["y"], domain="own")]
    del graph.node[:]
    graph.node.extend(nodes)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["branch", "constants"])
def test_large_tensors_of_bodies_and_nodes_compile(tmp_path: Path, kind: str):
    module = compiler.compile(branching(tmp_path, kind), budget=0)
    feeds = {"rows": NUMBERS} | ({"chosen": np.array(True)} if kind == "branch" else {})
    np.testing.assert_array_equal(module.run(feeds)["y"], [0 * LAST, LAST])


@pytest.mark.deep
def test_functions_of_more_than_a_protobuf_are_refused(tmp_path: Path):
    with pytest.raises(ModelError, match="make the large ones initializers of the main graph"):
        compiler.compile(branching(tmp_path, "function"), budget=0)


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "bool", "int4", "float8_e4m3fn", "int64"])
def test_weights_next_to_a_saved_model_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setattr(saving, "_LARGEST_INLINE", 0)
    monkeypatch.setattr(saving, "_LEAST_OUTSIDE", 1)
    numbers = np.arange(21).reshape(7, 3) % 7
    large = numpy_helper.from_array(numbers.astype(np.dtype(kind)), "large")
    small = numpy_helper.from_array(np.array(2, np.float32), "small")
    empty = numpy_helper.from_array(np.zeros((0, 3), np.float32), "empty")
    words = numpy_helper.from_array(np.array(["a", "bc"], object), "words")
    nodes = [
        helper.make_node("Cast", ["large"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["cast", "empty"], ["whole"], axis=0),
        helper.make_node("Mul", ["whole", "small"], ["twice"]),
        helper.make_node("Gather", ["twice", "rows"], ["y"]),
        helper.make_node("Gather", ["words", "rows"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])]
    outputs += [helper.make_tensor_value_info("z", TensorProto.STRING, ["n"])]
    weights = [large, small, empty, words]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    imports = [helper.make_opsetid("", 23)]
    module = compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=11))
    folder = tmp_path / "saved"
    module.save(folder)
    assert (folder / "model.weights").stat().st_size > 0
    loaded = compiler.load(folder)
    loaded.save(folder)  # of the files that it reads
    for saved in (loaded, compiler.load(folder)):
        found = saved.run({"rows": np.array([1, 0])})
        expected = 2 * numbers[[1, 0]].astype(np.dtype(kind)).astype(np.float32)
        np.testing.assert_array_equal(found["y"], expected)
        assert found["z"].tolist() == ["bc", "a"]
