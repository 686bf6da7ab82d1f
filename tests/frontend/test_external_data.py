"""External tensors are read correctly, and only files of the model's folder are opened."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from compiler.errors import FlowloomError, ModelError
from compiler.frontend.external import ModelFolder
from compiler.frontend.tensors import array_of, dense_array_of
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse
from tests.lowered import import_lowered

DATA = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
PACKED = [
    name for name in ("int4", "uint4", "float4_e2m1fn", "int2", "uint2") if hasattr(ml_dtypes, name)
]


def external(array: np.ndarray = DATA, location: str = "w.bin", **entries: object) -> TensorProto:
    """A tensor whose bytes are in a file."""
    tensor = numpy_helper.from_array(array, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def read(folder: Path, tensor: TensorProto) -> np.ndarray:
    """A tensor of a model in a folder."""
    return array_of(tensor, ModelFolder.of(folder / "model.onnx"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file `w.bin`."""
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "w.bin").write_bytes(DATA.tobytes())
    return inner


@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize("shape", [(4, 4), (3, 3), (1,), (0, 3)])
def test_types_that_share_bytes(folder: Path, dtype: str, shape: tuple[int, ...]):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    values = np.arange(np.prod(shape)).reshape(shape) % 3
    inside = numpy_helper.from_array(values.astype(kind), "w")
    (folder / "w.bin").write_bytes(b"junk" + inside.raw_data + b"\x5a" * 9)
    tensor = external(values.astype(kind), offset=4, length=len(inside.raw_data))
    expected = values.astype(kind).astype(int)
    np.testing.assert_array_equal(read(folder, tensor).astype(int), expected)


def test_a_model_with_weights_of_four_bits(folder: Path):
    weights = np.arange(-8, 8).reshape(4, 4).astype(ml_dtypes.int4)
    text = """g (float[1,4] x) => (float[1,4] y) {
        d = DequantizeLinear(w, s) y = MatMul(x, d) }"""
    model = parse(text, 21, w=weights, s=np.array(1, np.float32), padding=np.ones(9, np.float32))
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="all.bin", size_threshold=0)
    imported = import_lowered(path, contraction=Contraction.FLOATS)
    stored = [w for w in imported.weights.values() if w.shape == (4, 4)]
    np.testing.assert_array_equal(stored[0].astype(int), weights.astype(int))


def test_offset_and_length(folder: Path):
    np.testing.assert_array_equal(read(folder, external()), DATA)
    np.testing.assert_array_equal(read(folder, external(length=24, offset=0)), DATA)
    np.testing.assert_array_equal(read(folder, external(DATA[1], offset=12)), DATA[1])


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"offset": "-4"}, "the offset .* is '-4'"),
        ({"offset": "abc"}, "the offset .* is 'abc'"),
        ({"offset": "9" * 5000}, "the offset"),
        ({"offset": "٣"}, "the offset"),
        ({"length": "-4"}, "the length .* is '-4'"),
        ({"length": ""}, "the length .* is ''"),
        ({"length": 20}, "20 bytes by its 'length', and its shape and type need 24"),
        ({"length": 28}, "28 bytes by its 'length'"),
        ({"offset": 4}, r"w\.bin.*24 bytes, not 24 at 4"),
        ({"offset": 2**59}, r"w\.bin"),
        ({"location": "gone.bin"}, "gone.bin"),
        ({"location": ""}, "names no file"),
        ({"location": "w.bin\0"}, "names no file"),
        ({"location": "/etc/passwd"}, "absolute path '/etc/passwd'"),
        ({"location": "../w.bin"}, r"outside the model's folder: '\.\./w\.bin' leads to"),
        ({"location": "../model2/w.bin"}, "outside the model's folder"),
        ({"location": "a/../../w.bin"}, "outside the model's folder"),
        ({"location": "a/../w.bin"}, "is missing"),
        ({"location": "w.bin/x"}, "w.bin/x"),
        ({"location": "x" * 5000}, "x"),
    ],
)
def test_entries_that_make_no_sense(folder: Path, entries: dict[str, Any], reason: str):
    with pytest.raises(ModelError, match=f"(?s){reason}") as caught:
        read(folder, external(**entries))
    assert "tensor 'w'" in str(caught.value)


@pytest.mark.parametrize("text", [b"w.bin", b"location"])
def test_entries_that_are_not_text(folder: Path, text: bytes):
    data = external().SerializeToString().replace(text, b"\xff" + text[1:])
    with pytest.raises(ModelError, match="is not UTF-8"):
        read(folder, TensorProto.FromString(data))


def make_socket(path: Path) -> None:
    """A socket in the file system."""
    socket.socket(socket.AF_UNIX).bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a FIFO"),
        (make_socket, "a socket"),
        (Path.mkdir, "a directory"),
    ],
)
def test_special_files_are_not_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], kind: str
):
    monkeypatch.chdir(folder)  # a socket's path must be short
    make(Path("special"))

    def fail(*_: object) -> None:
        pytest.fail("it was opened")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(ModelError, match=f"'w'.*it is {kind}"):
        read(folder, external(location="special"))


def test_symbolic_links(folder: Path):
    (folder.parent / "secret.bin").write_bytes(DATA.tobytes())
    (folder / "deep").mkdir()
    (folder / "deep" / "inside").symlink_to("../w.bin")
    np.testing.assert_array_equal(read(folder, external(location="deep/inside")), DATA)
    (folder / "outside").symlink_to("../secret.bin")
    (folder / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    for location in ("outside", "up/secret.bin", "up/model/outside"):
        with pytest.raises(ModelError, match=r"'w' is outside the model's folder.*symbolic link"):
            read(folder, external(location=location))
    with pytest.raises(ModelError, match=r"'w' is missing.*loop"):
        read(folder, external(location="loop"))


def test_parents_that_stay_in_the_folder(folder: Path):
    """A path is judged by the file it leads to after its links, which the system opens, too."""
    (folder / "sub").mkdir()
    for location in ("sub/../w.bin", "../model/w.bin", "./sub/.././w.bin"):
        np.testing.assert_array_equal(read(folder, external(location=location)), DATA)
    (folder.parent / "other" / "deep").mkdir(parents=True)
    (folder.parent / "other" / "w.bin").write_bytes(DATA.tobytes())
    (folder / "link").symlink_to("../other/deep")
    with pytest.raises(ModelError, match=r"outside the model's folder.*other/w\.bin"):
        read(folder, external(location="link/../w.bin"))


def test_a_model_that_is_a_link_itself(folder: Path):
    hub = folder.parent / "hub"
    hub.mkdir()
    (folder / "model.onnx").touch()
    (hub / "model.onnx").symlink_to(folder / "model.onnx")
    (hub / "w.bin").symlink_to(folder / "w.bin")
    np.testing.assert_array_equal(read(hub, external()), DATA)


def tensor(dims: list[int], **fields: Any) -> TensorProto:
    """A tensor of float32 with data that do not fit."""
    values: dict[str, Any] = {"name": "w", "dims": dims, "data_type": 1, "float_data": [1, 2]}
    return TensorProto(**{**values, **fields})


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (tensor([-2]), "negative size"),
        (tensor([-1, -2]), "negative size"),
        (tensor([3]), "do not fit"),
        (tensor([1 << 40]), "too large"),
        (tensor([1 << 33, 1 << 33]), "too large"),
        (tensor([0, 1 << 62, 1 << 62]), "too large"),
        (tensor([1 << 30]), "do not fit"),
        (tensor([2], data_type=77), "the element type 77"),
        (tensor([2], data_type=0), "the element type 0"),
        (tensor([2], raw_data=b"1234567"), "7 bytes, not 8"),
        (tensor([3], raw_data=b"123", float_data=[], data_type=TensorProto.INT4), "3 bytes, not 2"),
        (external(np.array(["a"])), "strings"),
    ],
)
def test_shapes_and_types_that_make_no_sense(folder: Path, made: TensorProto, reason: str):
    with pytest.raises(ModelError, match=f"tensor 'w'.*{reason}"):
        read(folder, made)
    if made.data_location != TensorProto.EXTERNAL:
        made.data_location = TensorProto.EXTERNAL
        made.external_data.add(key="location", value="w.bin")
        made.external_data.add(key="offset", value="23")
        with pytest.raises(ModelError, match=r"tensor 'w'"):
            read(folder, made)


@pytest.mark.parametrize(
    ("dims", "indices"),
    [([5], [1, 5]), ([5], [-1, 2]), ([5], [1]), ([5, 5], [[1, 1], [1, 7]]), ([5, 5], [[[1]]])],
)
def test_indices_of_a_sparse_tensor(dims: list[int], indices: list[object]):
    sparse = onnx.SparseTensorProto(dims=dims, values=tensor([2]))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(indices), "i"))
    with pytest.raises(ModelError, match="indices of the sparse tensor 'w'"):
        dense_array_of(sparse, None)


def test_sparse_tensors():
    for dims, indices in ([2, 3], [1, 5]), ([2, 3], [[0, 1], [1, 2]]):
        sparse = onnx.SparseTensorProto(dims=dims, values=tensor([2]))
        sparse.indices.CopyFrom(numpy_helper.from_array(np.array(indices), "i"))
        np.testing.assert_array_equal(dense_array_of(sparse, None), [[0, 1, 0], [0, 0, 2]])


@pytest.mark.parametrize("shape", [[1 << 40], [1 << 40, 1 << 40], [1 << 16, 1 << 16]])
def test_tensors_that_are_too_large_are_named(shape: list[int]):
    for text in ("y = Relu(x)", "y = ReduceSum(x)"):
        with pytest.raises(FlowloomError, match=r".*kernels index at most"):
            import_lowered(
                parse(f"g (float[n] x) => (float[m] y) {{ {text} }}".replace("[n]", str(shape)))
            )
    if len(shape) == 2:
        model = parse(f"g (float{shape} x) => (float[m, k] y) {{ y = EyeLike(x) }}")
        with pytest.raises(FlowloomError, match=r"EyeLike.*kernels index at most"):
            import_lowered(model)
    model = parse("g (float[n,1] x, float[1,n] z) => (float[a,b] y) { [sum] y = Add(x, z) }")
    with pytest.raises(FlowloomError, match=r"Add 'sum'.*kernels index at most"):
        import_lowered(model, {"x": [1 << 17, 1], "z": [1, 1 << 17]})


@pytest.mark.parametrize("key", ["location", "offset", "length", "checksum"])
def test_a_key_that_is_there_twice(folder: Path, key: str):
    tensor = external(offset=0, length=24, checksum="0")
    tensor.external_data.add(key=key, value="0")
    with pytest.raises(ModelError, match=f"tensor 'w' have the key '{key}' more than once"):
        read(folder, tensor)


def test_tensors_of_a_file_are_of_one_state_of_it(folder: Path):
    opened = ModelFolder.of(folder / "model.onnx")
    array_of(external(DATA[0], offset=0), opened)
    (folder / "w.bin").write_bytes(b"\0" * 24)
    np.testing.assert_array_equal(array_of(external(DATA[1], offset=12), opened), DATA[1])


def test_many_files_are_open_at_once(folder: Path):
    opened = ModelFolder.of(folder / "model.onnx")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(40):
        (folder / f"{number}.bin").write_bytes(DATA.tobytes())
        np.testing.assert_array_equal(array_of(external(location=f"{number}.bin"), opened), DATA)
    assert len(os.listdir("/proc/self/fd")) == before, "small files need not stay open"
