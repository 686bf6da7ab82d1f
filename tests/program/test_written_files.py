"""Files of weights that are written to after a model was read: no result mixes two states."""

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler.errors import ModelError
from compiler.frontend import external
from compiler.program.compiling import SegmentCompiler

WEIGHT = np.arange(600 * 600, dtype=np.float32).reshape(600, 600) / 1000
X = np.ones((2, 600), np.float32)
WRITTEN = "w.bin.*was written to after the model was read: compile the model again"

Write = Callable[[Path], object]


def other_numbers(path: Path) -> None:
    """The same bytes in number, with other content, some time later."""
    then = path.stat().st_mtime_ns
    path.write_bytes(np.zeros(path.stat().st_size, np.uint8).tobytes())
    os.utime(path, ns=(then, then + 1))


def shorter(path: Path) -> None:
    """Fewer bytes, so that reading the others would end the process."""
    os.truncate(path, 8)


def saved(folder: Path, rows: int | str, on_host: bool = False) -> Path:
    """A model y = x @ w + w[0], whose weights are in a file; or Unique of w's numbers, too."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Gather", ["w", "zero"], ["first"]),
        helper.make_node("Add", ["m", "first"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    if on_host:
        nodes += [
            helper.make_node("Add", ["w", "x0"], ["shifted"]),
            helper.make_node("Unique", ["shifted"], ["u"]),
        ]
        outputs.append(helper.make_tensor_value_info("u", 1, None))
    inputs = [helper.make_tensor_value_info("x", 1, [rows, 600])]
    inputs += [helper.make_tensor_value_info("x0", 1, [])] * on_host
    weights = [
        numpy_helper.from_array(WEIGHT, "w"),
        numpy_helper.from_array(np.array(0, np.int64), "zero"),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    imports = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    path = folder / "model.onnx"
    cast(Any, onnx).save(
        model, path, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return path


def check_result(result: np.ndarray, x: np.ndarray) -> None:
    """Compare y with float64."""
    exact = x.astype(np.float64) @ WEIGHT + WEIGHT[0]
    np.testing.assert_allclose(result, exact, rtol=1e-5)


@pytest.mark.parametrize("write", [other_numbers, shorter])
def test_a_static_module_has_its_own_weights(tmp_path: Path, write: Write):
    module = compiler.compile(saved(tmp_path, 2))
    write(tmp_path / "w.bin")
    check_result(module.run({"x": X})["y"], X)
    assert not any(external.is_mapped(weight) for weight in module.weights.values())


def test_files_are_closed_when_a_static_module_is_compiled(tmp_path: Path):
    module = compiler.compile(saved(tmp_path, 2))
    numbers = os.listdir("/proc/self/fd")
    targets = {os.path.realpath(f"/proc/self/fd/{number}") for number in numbers}
    assert str(tmp_path / "w.bin") not in targets
    check_result(module.run({"x": X})["y"], X)


@pytest.mark.parametrize("write", [other_numbers, shorter])
def test_writing_while_a_model_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write
):
    path = saved(tmp_path, 2)
    building = "compiler.driver.build.build_variants"
    from compiler.driver.build import build_variants

    def written(*args: Any) -> Any:
        built = build_variants(*args)
        write(tmp_path / "w.bin")
        return built

    monkeypatch.setattr(building, written)
    with pytest.raises(ModelError, match=WRITTEN):
        compiler.compile(path)


@pytest.mark.parametrize("write", [other_numbers, shorter])
def test_a_dynamic_module_refuses_to_go_on(tmp_path: Path, write: Write):
    module = compiler.compile(saved(tmp_path, "n"))
    check_result(module.run({"x": X})["y"], X)
    write(tmp_path / "w.bin")
    for rows in (2, 2, 3):
        with pytest.raises(ModelError, match=WRITTEN):
            module.run({"x": np.ones((rows, 600), np.float32)})
    with pytest.raises(ModelError, match=WRITTEN):
        module.save(tmp_path / "program")
    with pytest.raises(ModelError, match=WRITTEN):
        pickle.dumps(module)
    assert not (tmp_path / "program").exists()


def run(module: Any) -> None:
    """Run a module, which compiles a segment."""
    module.run({"x": X})


def prepare(module: Any) -> None:
    """Compile a segment ahead of runs."""
    module.prepare({"n": 3})


@pytest.mark.parametrize("use", [run, prepare])
def test_writing_while_a_segment_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Any], Any]
):
    module = compiler.compile(saved(tmp_path, "n"))
    specialise = SegmentCompiler.specialise

    def written(self: SegmentCompiler, *args: Any) -> Any:
        other_numbers(tmp_path / "w.bin")
        return specialise(self, *args)

    monkeypatch.setattr(SegmentCompiler, "specialise", written)
    with pytest.raises(ModelError, match=WRITTEN):
        use(module)


def test_nodes_on_the_host_read_no_other_numbers(tmp_path: Path):
    module = compiler.compile(saved(tmp_path, 2, on_host=True))
    feeds = {"x": X, "x0": np.array(1, np.float32)}
    np.testing.assert_array_equal(module.run(feeds)["u"], np.unique(WEIGHT + 1))
    other_numbers(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=WRITTEN):
        module.run(feeds)


def test_a_file_that_another_replaced_is_still_read(tmp_path: Path):
    module = compiler.compile(saved(tmp_path, "n"))
    check_result(module.run({"x": X})["y"], X)
    (tmp_path / "new.bin").write_bytes(bytes((tmp_path / "w.bin").stat().st_size))
    os.replace(tmp_path / "new.bin", tmp_path / "w.bin")
    x = np.ones((5, 600), np.float32)
    check_result(module.run({"x": x})["y"], x)
    module.save(tmp_path / "program")
    check_result(compiler.load(tmp_path / "program").run({"x": x})["y"], x)


def pickled(module: Any) -> Any:
    """A copy, as another process would get it."""
    return pickle.loads(pickle.dumps(module))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_copies_have_their_own_weights(tmp_path: Path, copied: Callable[[Any], Any]):
    module = copied(compiler.compile(saved(tmp_path, "n")))
    other_numbers(tmp_path / "w.bin")
    check_result(module.run({"x": X})["y"], X)
    module.save(tmp_path / "program")
    check_result(compiler.load(tmp_path / "program").run({"x": X})["y"], X)


def test_a_model_that_its_owner_changes(tmp_path: Path):
    """A caller's protobuf is theirs: further sizes and what is saved are of what was compiled."""
    model = cast(Any, onnx).load(saved(tmp_path, "n"))
    module = compiler.compile(model)
    check_result(module.run({"x": X})["y"], X)
    model.graph.node[0].op_type = "Add"
    model.graph.initializer[0].raw_data = bytes(WEIGHT.nbytes)
    model.graph.output[0].name = "z"
    x = np.ones((5, 600), np.float32)
    check_result(module.run({"x": x})["y"], x)
    module.save(tmp_path / "program")
    check_result(compiler.load(tmp_path / "program").run({"x": x})["y"], x)
