"""Initializers that are inputs too: constants, or inputs of each run."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import compiler
from compiler.errors import ModelError, ShapeError
from compiler.frontend.load import without_defaults
from compiler.tools.cli import main

X, W = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)


def model(ir_version: int = 10, rows: str = "2") -> onnx.ModelProto:
    """A MatMul whose second operand is an initializer and an input, and a constant."""
    found = parser.parse_model(
        f'<ir_version: {ir_version}, opset_import: ["" : 18]>'
        f"g (float[{rows}, 3] x, float[3, 4] w) => (float[{rows}, 4] y) "
        "{ p = MatMul (x, w) y = Add (p, b) }"
    )
    constants = {"w": W, "b": np.arange(4, dtype=np.float32)}
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    found.graph.initializer.extend(tensors)
    return found


@pytest.mark.parametrize("rows", ["2", "n"])
def test_each_run_gives_what_the_option_names(rows: str):
    module = compiler.compile(model(rows=rows), overridable=["w"], budget=0)
    for scale in (1, 3):
        found = module.run({"x": X, "w": W * scale})["y"]
        np.testing.assert_allclose(found, X @ W * scale + np.arange(4), rtol=1e-6)
    with pytest.raises(ShapeError, match="w"):
        module.run({"x": X})


@pytest.mark.parametrize("rows", ["2", "n"])
def test_without_it_the_error_names_the_option(rows: str):
    module = compiler.compile(model(rows=rows), budget=0)
    np.testing.assert_allclose(module.run({"x": X})["y"], X @ W + np.arange(4), rtol=1e-6)
    with pytest.raises(ShapeError, match=r"`overridable` of flowloom\.compile"):
        module.run({"x": X, "w": W})


@pytest.mark.parametrize(("ir_version", "name"), [(10, "b"), (3, "w")])
def test_constants_alone_are_no_inputs(ir_version: int, name: str):
    with pytest.raises(ModelError, match=f"no initializer {name!r} that is an input too"):
        compiler.compile(model(ir_version), overridable=[name])


def test_what_stays_is_read_from_its_file(tmp_path: Path):
    path = tmp_path / "m.onnx"
    cast(Any, onnx).save(model(), path, save_as_external_data=True, size_threshold=0)
    changed = without_defaults(path, ["w"])
    assert isinstance(changed, onnx.ModelProto)
    kept = changed.graph.initializer
    assert [tensor.name for tensor in kept] == ["b"]
    np.testing.assert_array_equal(numpy_helper.to_array(kept[0]), np.arange(4))


def saved(folder: Path) -> Path:
    """The model's file."""
    path = folder / "m.onnx"
    cast(Any, onnx).save(model(), path)
    return path


def test_the_command_line_names_them_too(tmp_path: Path):
    given, found, artifact = (tmp_path / name for name in ("in.npz", "out.npz", "artifact"))
    np.savez(given, x=X, w=W * 3)
    subject, compiling = str(saved(tmp_path)), ["--overridable", "w", "--budget", "0"]
    files = ["--inputs", str(given), "--outputs", str(found)]
    assert main(["compile", subject, "-o", str(artifact), *compiling]) == 0
    for run in ([subject, "--check", *compiling], [str(artifact)]):
        assert main(["run", *run, *files]) == 0
        with np.load(found) as outputs:
            np.testing.assert_allclose(outputs["y"], X @ W * 3 + np.arange(4), rtol=1e-6)
        found.unlink()


def test_a_cause_is_searched_in_the_model_with_these_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = tmp_path / "in.npz"
    np.savez(given, x=X, w=W * 3)
    options = ["--overridable", "w", "--budget", "0", "--inputs", str(given)]
    assert main(["bisect", str(saved(tmp_path)), *options]) == 0
    assert "nothing differs from onnxruntime" in capsys.readouterr().out


def test_other_names_are_refused_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", str(saved(tmp_path)), "--overridable", "b"]) == 1
    assert "no initializer 'b' that is an input too" in capsys.readouterr().err
