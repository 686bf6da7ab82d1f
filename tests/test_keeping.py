"""A model that is compiled again is read, unless something that decides what it becomes changed."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf import json_format, text_format
from onnx import parser

import compiler
from compiler.errors import SemanticsWarning
from compiler.net.operators.registration import REGISTERED
from compiler.tools.api import compilation, keeping

MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
main (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2, WEIGHT}> { z = Mul (x, w) y = Relu (z) }
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def content(weight: int = 3) -> bytes:
    """A model that multiplies by 1, 2 and a weight."""
    return parser.parse_model(MODEL.replace("WEIGHT", str(weight))).SerializeToString()


@pytest.fixture(autouse=True)
def _kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are kept, in a new folder."""
    monkeypatch.setenv(keeping.KEEPING, "on")
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the model, which was written a minute ago."""
    return written(tmp_path / "model.onnx", content())


def written(path: Path, data: bytes) -> Path:
    """A file with some bytes, as if they were written long ago."""
    path.write_bytes(data)
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files do not change without another time."""
    monkeypatch.setattr(keeping, "SETTLED_SECONDS", -1.0)


def compiled(model: Any, **options: Any) -> tuple[Any, bool]:
    """A module once it is kept, and whether it was compiled rather than read."""
    module = compiler.compile(model, **options)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    return module, "read" not in module.build_seconds


def another(*_: object) -> str:
    """Something that was not there before."""
    return "another"


def keeper(*_: object, keep: object, **options: object) -> object:
    """In place of a compilation: what it keeps its module with."""
    return keep


def result(module: Any) -> list[list[float]]:
    """The output of a module."""
    return module.run({"x": X})["y"].tolist()


def loaded(path: Path) -> onnx.ModelProto:
    """The model in a file."""
    return onnx.load(str(path))


@pytest.mark.parametrize("kind", [str, Path, Path.read_bytes, loaded])
def test_a_model_is_compiled_once(path: Path, kind: Callable[[Path], Any]):
    first, anew = compiled(kind(path))
    assert anew
    again, anew = compiled(kind(path), threads=1)
    assert not anew
    assert result(again) == result(first) == (X * [1, 2, 3]).tolist()
    assert again.schedule == first.schedule
    assert again.kernels == first.kernels
    assert again.threads == 1


def test_another_file_of_the_same_size_is_compiled(path: Path):
    compiled(path)
    other = content(7)
    assert len(other) == path.stat().st_size
    module, anew = compiled(written(path, other))
    assert anew
    assert result(module) == (X * [1, 2, 7]).tolist()
    module, anew = compiled(written(path, content()))
    assert not anew
    assert result(module) == (X * [1, 2, 3]).tolist()


def test_a_fresh_file_is_known_by_its_content(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping, "SETTLED_SECONDS", 3600.0)
    compiled(path)
    assert not compiled(path)[1]
    before = path.stat()
    path.write_bytes(content(7))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def same_times(path: Path) -> tuple[str, int]:
        return "the same", path.stat().st_size

    monkeypatch.setattr(keeping, "_identity", same_times)
    assert result(compiled(path)[0]) == (X * [1, 2, 7]).tolist()
    path.write_bytes(content())
    assert result(compiled(path)[0]) == (X * [1, 2, 3]).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"check_indices": True},
        {"pipeline": compiler.DEFAULT_PIPELINE},
        {"semantics": "onnx"},
        {"target": "cpu:x86-64-v3"},
        {"dynamic": False},
        {"input_shapes": {"x": [2, 3]}},
    ],
    ids=str,
)
def test_other_options_are_compiled_apart(path: Path, options: dict[str, Any]):
    compiled(path)
    assert compiled(path, **options)[1]
    assert not compiled(path, **options)[1]


def test_other_code_or_another_database_compiles_anew(path: Path, monkeypatch: pytest.MonkeyPatch):
    compiled(path)
    for name in ("_code", "host_cpu"):
        with monkeypatch.context() as changed:
            changed.setattr(keeping, name, another)
            assert compiled(path)[1]
    with monkeypatch.context() as changed:
        changed.setattr(keeping.database, "database_hash", another)
        assert compiled(path)[1]
    monkeypatch.setenv("FLOWLOOM_MAX_OPERATORS", "1000000")
    assert compiled(path)[1]


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors", "kernels/0000.o"])
def test_a_damaged_one_is_compiled_anew(path: Path, name: str):
    compiled(path)
    ((_, _, kept),) = keeping.kept_modules()
    file = kept / name
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    module, anew = compiled(path)
    assert anew
    assert result(module) == (X * [1, 2, 3]).tolist()
    assert not compiled(path)[1]


@pytest.mark.parametrize(
    "options",
    [{"cache": False}, {"budget": 0.01}, {"check": True}, {"dump_ir": "ir"}, {"target": "emu"}],
    ids=str,
)
def test_with_these_options_none_is_kept(
    path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(compilation, "compiled", keeper)
    assert compiler.compile(path) is not keeping.forget
    assert compiler.compile(path, **options) is keeping.forget


def test_a_model_that_names_other_code_or_files_is_not_kept(path: Path):
    """Weights in another file, an operator of the user."""
    model = onnx.load(str(path))
    weight = np.array([1, 2, 3], np.float32)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, str(path), save_as_external_data=True, size_threshold=0)
    assert onnx.load(str(path), load_external_data=False).graph.initializer[0].external_data
    compiled(written(path, path.read_bytes()))
    assert keeping.kept_modules() == []
    REGISTERED.add("my.domain::Odd")
    try:
        compiled(content())
    finally:
        REGISTERED.remove("my.domain::Odd")
    assert keeping.kept_modules() == []


def of_file(content: bytes) -> bytes:
    """A binary model in which the path of a file is before its key."""
    path = b"\x12\x05w.bin"
    assert KEY + path in content
    return content.replace(KEY + path, path + KEY)


KEY = b"\x0a\x08location"
FORMS: dict[str, Callable[[onnx.ModelProto], bytes]] = {
    "model.onnx": lambda model: model.SerializeToString(),
    "reversed.onnx": lambda model: of_file(model.SerializeToString()),
    "model.textproto": lambda model: text_format.MessageToString(model).encode(),
    "model.json": lambda model: json_format.MessageToJson(model).encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_weights_in_a_file_that_changes_are_those_of_now(name: str, tmp_path: Path):
    model = onnx.load_model_from_string(content())
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    file = written(tmp_path / name, FORMS[name](model))
    assert name != "reversed.onnx" or onnx.ModelProto.FromString(file.read_bytes()) == model
    for value in (1, 2):
        written(tmp_path / "w.bin", np.full(3, value, np.float32).tobytes())
        module, _ = compiled(file)
        np.testing.assert_array_equal(module.run({"x": X})["y"], value * X)


def test_a_warning_is_given_each_time():
    text = """<ir_version: 10, opset_import: ["" : 18]>
    main (float[1,1,4,4] x) => (float[1,1,n,m] y) <float[0] roi = {}, float[4] s = {1,1,0.6,0.6}>
    { y = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (x, roi, s) }
    """
    model = parser.parse_model(text).SerializeToString()
    for _ in range(2):
        with pytest.warns(SemanticsWarning):
            compiled(model)


def test_those_used_least_recently_go(monkeypatch: pytest.MonkeyPatch):
    for weight in (3, 4, 5):
        compiled(content(weight))
        time.sleep(0.01)
    compiled(content(3))
    sizes = [size for _, size, _ in keeping.kept_modules()]
    keeping.remove_modules(sum(sizes) - 1)
    assert [compiled(content(weight))[1] for weight in (3, 5, 4)] == [False, False, True]
    keeping.remove_modules(0)
    assert keeping.kept_modules() == []
    monkeypatch.setattr(keeping, "MOST_WEIGHT_BYTES", 3)
    compiled(content())
    assert keeping.kept_modules() == []


READ = """
import sys
import compiler
compiler.compile(sys.argv[1])
print(sorted(sys.modules.keys() & {"tvm", "xdsl", "onnx", "compiler.net.operators"}))
"""


def test_reading_one_imports_no_compiler(path: Path):
    compiled(path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", READ, str(path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
