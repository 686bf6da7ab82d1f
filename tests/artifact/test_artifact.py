import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy
import pytest
from safetensors import safe_open

import compiler
from compiler.artifact import artifact
from compiler.artifact.module import Module, load
from compiler.artifact.weights import read_weights, write_weights
from compiler.backends.memory import address
from compiler.errors import ArtifactError, DeviceError, ScheduleError
from compiler.tools.cli import main
from compiler.tools.inspection import open_module
from tests.backends.objects import LANES, chain, kernels, mix, reference, values
from tests.forgery import edit_json, redo_hashes
from tests.schedules import unchecked_certificate

FILES = ("schedule.json", "kernels/kernels.json", "kernels/0000.o", "weights.safetensors")


def module() -> Module:
    return Module(artifact.Artifact("cpu", chain(), kernels(), {"w": values(1)}), threads=2)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    module().save(tmp_path / "saved")
    return tmp_path / "saved"


def test_round_trip(saved: Path) -> None:
    original, loaded = module(), load(saved, threads=1)
    assert loaded.schedule == original.schedule
    assert loaded.kernels == original.kernels
    assert (loaded.target, loaded.requirements) == (original.target, original.requirements)
    assert loaded.inputs == original.inputs
    assert loaded.threads == 1
    x = values(2)
    numpy.testing.assert_array_equal(loaded.run({"x": x})["y"], original.run({"x": x})["y"])


def test_a_loaded_module_saves_the_same_files(saved: Path, tmp_path: Path) -> None:
    load(saved).save(tmp_path / "again")
    for name in (*FILES, "manifest.json"):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_an_artifact_is_replaced_and_nothing_else_is(saved: Path, tmp_path: Path) -> None:
    module().save(saved)
    assert {each.name for each in tmp_path.iterdir()} == {"saved"}
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("data")
    with pytest.raises(ArtifactError, match="not an artifact"):
        module().save(other)
    assert (other / "precious").read_text() == "data"
    with pytest.raises(ArtifactError, match="not an artifact"):
        module().save(other / "precious")
    (tmp_path / "empty").mkdir()
    module().save(tmp_path / "empty")
    load(tmp_path / "empty")


def test_a_manifest_of_something_else_protects_its_directory(tmp_path: Path) -> None:
    place = tmp_path / "extension"
    for text in ('{"name": "my extension"}', "[]", "{", ""):
        (place / "src").mkdir(parents=True, exist_ok=True)
        (place / "manifest.json").write_text(text)
        (place / "src" / "main.js").write_text("precious")
        with pytest.raises(ArtifactError, match="exists and is not an artifact"):
            module().save(place)
        assert (place / "src" / "main.js").read_text() == "precious"


@pytest.mark.parametrize("name", ["notes.txt", "kernels/0000.ptx", "results/day/one"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_file_that_no_manifest_lists_is_kept(saved: Path, name: str, cut: bool) -> None:
    (saved / name).parent.mkdir(parents=True, exist_ok=True)
    (saved / name).write_text("precious")
    if cut:
        (saved / "manifest.json").write_bytes((saved / "manifest.json").read_bytes()[:60])
    with pytest.raises(ArtifactError, match=f"{name} does not belong.*move it away"):
        module().save(saved)
    assert (saved / name).read_text() == "precious"
    shutil.rmtree(saved / name.partition("/")[0]) if "/" in name else (saved / name).unlink()
    module().save(saved)
    load(saved)


def test_an_old_or_damaged_artifact_is_replaced(saved: Path) -> None:
    manifest = saved / "manifest.json"
    redo_hashes(saved, version=1)
    module().save(saved)
    for size in (40, 200, manifest.stat().st_size - 3):
        manifest.write_bytes(manifest.read_bytes()[:size])
        (saved / FILES[-1]).write_bytes(b"")
        (saved / FILES[0]).unlink()
        module().save(saved)
        assert [*load(saved).kernels] == [*module().kernels]


def test_a_failed_write_keeps_the_old_artifact(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifact, "write_weights", full)
    with pytest.raises(ArtifactError, match="No space left"):
        module().save(saved)
    assert {each.name for each in tmp_path.iterdir()} == {"saved"}
    load(saved)


def test_a_failed_move_brings_the_old_artifact_back(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ArtifactError, match="Permission denied"):
        module().save(saved)
    monkeypatch.undo()
    load(saved)


@pytest.mark.parametrize("moved", ["saved", "new"])
@pytest.mark.parametrize("done", [False, True])
def test_an_interrupted_move_leaves_the_old_or_the_new_artifact(
    saved: Path, monkeypatch: pytest.MonkeyPatch, moved: str, done: bool
) -> None:
    rename = Path.rename

    def interrupt(self: Path, target: Path) -> Path:
        if self.name != moved:
            return rename(self, target)
        if done:
            rename(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        module().save(saved)
    monkeypatch.undo()
    load(saved)
    assert {each.name for each in saved.parent.iterdir()} == {"saved"}


def test_an_unwritable_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot write"):
        module().save(tmp_path / "file" / "below")


@pytest.mark.parametrize("name", FILES)
def test_an_edited_file_is_named(saved: Path, name: str) -> None:
    path = saved / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=name):
        load(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_named(saved: Path, name: str) -> None:
    path = saved / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=name):
        load(saved)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(ArtifactError, match=name):
        load(saved)


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"format": "flowloom-artifact", "version": 5}']
)
def test_a_damaged_manifest_is_named(saved: Path, content: str) -> None:
    (saved / "manifest.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        load(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_a_hash_is_not_loaded(saved: Path, name: str) -> None:
    files = json.loads((saved / "manifest.json").read_text())["files"]
    redo_hashes(saved, files={each: entry for each, entry in files.items() if each != name})
    with pytest.raises(ArtifactError, match=r"manifest\.json (has no hash of|is damaged)"):
        load(saved)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (4, "saved by an older Flowloom .format version 4; this one reads 5.: compile the model"),
        (99, "saved by a newer Flowloom .format version 99; this one reads 5.: compile the model"),
        ("5", "has the format version '5'; this Flowloom reads 5"),
        (True, "has the format version True"),
    ],
)
def test_another_version_is_refused(saved: Path, version: Any, message: str) -> None:
    redo_hashes(saved, version=version)
    with pytest.raises(ArtifactError, match=message):
        load(saved)


OLDER = Path(__file__).parent / "older"
"""Directories that Flowloom saved in the formats before: artifacts and programs, by version."""


@pytest.mark.parametrize("path", sorted(OLDER.iterdir()), ids=lambda path: path.stem)
def test_what_older_versions_saved_is_refused_as_such(path: Path, tmp_path: Path) -> None:
    """Whatever else is in it: nothing is read before the format's version."""
    version = path.stem.rpartition("-")[2]
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    expected = f"saved by an older Flowloom .format version {version}; .*`flowloom compile MODEL -o"
    for read in (compiler.load, open_module):
        with pytest.raises(ArtifactError, match=expected):
            read(tmp_path)
    manifest = next(
        file for file in tmp_path.iterdir() if file.name in ("manifest.json", "program.json")
    )
    manifest.write_text(
        json.dumps(
            {
                k: v
                for k, v in json.loads(manifest.read_text()).items()
                if k in ("format", "version")
            }
        )
    )
    with pytest.raises(ArtifactError, match=expected):
        compiler.load(tmp_path)


def test_every_flipped_bit_of_the_manifest_is_noticed(saved: Path) -> None:
    path = saved / "manifest.json"
    whole = path.read_bytes()
    document = json.loads(whole)
    for place in range(0, len(whole), 7):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        try:
            same = json.loads(path.read_bytes()) == document
        except ValueError:
            same = False
        if not same:  # a space that became another one changes nothing
            with pytest.raises(ArtifactError, match=r"manifest\.json"):
                load(saved)


DEEP = "[" * 100_000
"""JSON that Python's parser cannot read for its depth."""


@pytest.mark.parametrize("name", ["manifest.json", "schedule.json", "kernels/kernels.json"])
def test_deep_json_is_an_artifact_error(saved: Path, name: str) -> None:
    (saved / name).write_text(DEEP)
    if name != "manifest.json":
        redo_hashes(saved)
    with pytest.raises(ArtifactError, match=f"{name}|the schedule is not JSON"):
        load(saved)


@pytest.mark.parametrize(
    "entries",
    [
        {"requirements": {"gfeatures": []}},
        {"requirements": {"features": 3}},
        {"requirements": [1]},
        {"target": None},
        {"choice": []},
        {"choice": {"mode": "graph", "costs": {"k": "1"}, "chosen": "graph", "source": "model"}},
        {"choice": {"mode": "zigzag", "costs": {}, "chosen": "graph", "source": "model"}},
    ],
)
def test_a_wrong_entry_of_the_manifest_is_an_artifact_error(saved: Path, entries: Any) -> None:
    redo_hashes(saved, **entries)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        load(saved)


def test_a_file_outside_the_artifact_is_not_read(saved: Path) -> None:
    (saved.parent / "secret").write_text("x")
    files = json.loads((saved / "manifest.json").read_text())["files"]
    redo_hashes(saved, files=files | {"../secret": {}})
    with pytest.raises(ArtifactError, match=r"\.\./secret is not a file of an artifact"):
        load(saved)


def edited_table(saved: Path, edit: Any) -> None:
    """Edit the entries of the table of kernels."""
    edit_json(saved / "kernels" / "kernels.json", edit)
    redo_hashes(saved)


WRONG_ENTRIES: list[tuple[str, Any, str]] = [
    ("launches", [{}], r"launches\[0\].symbol is not a string"),
    ("launches", 3, "launches is not a list"),
    ("language", "cobol", "language is 'cobol'"),
    ("reads", [{"dtype": "f8", "shape": []}], "'f8'"),
    ("name", "mix1_400", "two kernels 'mix1_400'"),
    ("code", "../secret", "no hash of ../secret"),
    ("workspaces", [4], "task 0 'mix4_1' .* writes 1 tensors, its kernel was built for 2"),
]


@pytest.mark.parametrize(("key", "value", "message"), WRONG_ENTRIES)
def test_a_wrong_entry_of_a_kernel_is_named(
    saved: Path, key: str, value: object, message: str
) -> None:
    def edit(table: list[dict[str, Any]]) -> None:
        next(each for each in table if each["name"] == "mix4_1")[key] = value

    edited_table(saved, edit)
    with pytest.raises(ArtifactError, match=message):
        load(saved)


def test_a_launch_beyond_the_operands_is_refused(saved: Path) -> None:
    def edit(table: list[dict[str, Any]]) -> None:
        for each in table:
            each["launches"][0]["args"] = [0, 1, 3]

    edited_table(saved, edit)
    with pytest.raises(
        ArtifactError, match=r"has 3 tensors, its kernel's 'mix4_1' takes \[0, 1, 3"
    ):
        load(saved)


@pytest.mark.parametrize("kernel", ["mix9_9", "narrow"])
def test_a_task_with_another_tasks_kernel_is_refused(
    tmp_path: Path, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {**kernels(), "narrow": mix("narrow", lanes=8)}
    place = tmp_path / "wrong"
    Module(artifact.Artifact("cpu", chain(), made, {"w": values(1)})).save(place)
    path = place / "schedule.json"
    path.write_text(path.read_text().replace('"mix4_1"', f'"{kernel}"', 1))
    redo_hashes(place)
    built = f"task 0 '{kernel}' (stream 0) "
    built += (
        "launches a kernel that does not exist"
        if kernel == "mix9_9"
        else f"reads int64[{LANES}] as number 0, its kernel was built for int64[8]"
    )
    with pytest.raises(ArtifactError, match=re.escape(built)):
        load(place)
    assert main(["check", str(place)]) == 1
    assert built in capsys.readouterr().err


@pytest.mark.parametrize("length", [0, 3, 20, 60])
def test_cut_weights_with_a_redone_hash_are_an_artifact_error(saved: Path, length: int) -> None:
    path = saved / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    redo_hashes(saved)
    with pytest.raises(ArtifactError, match=r"weights\.safetensors"):
        load(saved)


def written(place: Path, **fields: Any) -> Path:
    """The artifact of another module, with a right seal."""
    whole = artifact.Artifact("cpu", chain(), kernels(), {"w": values(1)}, {"features": []})
    artifact.save(replace(whole, **fields), place)
    return place


def test_missing_features_are_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="avx1024"):
        load(written(tmp_path / "a", requirements={"features": ["avx1024"]}))
    with pytest.raises(DeviceError, match="vax"):
        load(written(tmp_path / "b", requirements={"architecture": "vax", "features": []}))
    with pytest.raises(ArtifactError, match=r"manifest\.json has no valid requirements"):
        load(written(tmp_path / "c", requirements={"gfeatures": []}))


def test_an_unknown_target_is_a_device_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="abacus"):
        load(written(tmp_path / "a", target="abacus"))


def test_a_racing_schedule_is_refused(tmp_path: Path) -> None:
    schedule = chain()
    broken = replace(
        schedule, tasks=tuple(replace(t, stream=i) for i, t in enumerate(schedule.tasks))
    )
    with pytest.raises(ScheduleError, match="task 1"):
        written(tmp_path / "racing", schedule=broken)
    made = kernels()
    passed = unchecked_certificate(broken, made)
    racing = written(tmp_path / "racing", schedule=broken, kernels=made, certificate=passed)
    with pytest.raises(ArtifactError, match="task 1"):
        load(racing)


def test_a_fresh_process_needs_no_compiler(saved: Path) -> None:
    numpy.save(saved.parent / "x.npy", values(5))
    text = (
        "import sys\n"
        "for name in ('tvm', 'tvm_ffi', 'onnx', 'xdsl', 'onnxruntime'):\n"
        "    sys.modules[name] = None\n"
        "import numpy\n"
        "from compiler.artifact.module import load\n"
        "module = load(sys.argv[1], threads=2)\n"
        "numpy.save(sys.argv[3], module.run({'x': numpy.load(sys.argv[2])})['y'])\n"
        "again = module.save(sys.argv[1])\n"
    )
    arguments = [str(saved), str(saved.parent / "x.npy"), str(saved.parent / "y.npy")]
    subprocess.run([sys.executable, "-c", text, *arguments], check=True, timeout=60)
    expected = reference(chain(), {"x": values(5), "w": values(1)})["y"]
    numpy.testing.assert_array_equal(numpy.load(saved.parent / "y.npy"), expected)


def test_an_artifact_can_be_moved(saved: Path, tmp_path: Path) -> None:
    expected = load(saved).run({"x": values(1)})
    shutil.move(saved, tmp_path / "moved")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        outputs = load("moved").run({"x": values(1)})
    finally:
        os.chdir(here)
    assert list(outputs) == list(expected)
    for name, output in outputs.items():
        numpy.testing.assert_array_equal(output, expected[name])


def test_weights_are_safetensors_and_come_back_aligned(tmp_path: Path) -> None:
    random = numpy.random.default_rng(1)
    weights = {
        "half": random.standard_normal((3, 5)).astype(numpy.float16),
        "brain": random.standard_normal((7,)).astype(ml_dtypes.bfloat16),
        "e4m3": random.standard_normal((5,)).astype(ml_dtypes.float8_e4m3fn),
        "e5m2": random.standard_normal((3,)).astype(ml_dtypes.float8_e5m2),
        "double": random.standard_normal((2, 3)),
        "transposed": random.standard_normal((4, 3)).astype(numpy.float32).T,
        "bool": numpy.array([True, False, True]),
        "scalar": numpy.array(3, numpy.int64),
        "none": numpy.zeros((0, 4), numpy.float32),
    }
    path = tmp_path / "w.safetensors"
    with path.open("wb") as file:
        write_weights(file.write, weights)
    found = read_weights(path)
    assert found.keys() == weights.keys()
    for name, array in found.items():
        assert array.dtype == weights[name].dtype
        assert address(array) % 64 == 0
        numpy.testing.assert_array_equal(array, weights[name])
    library: Any = safe_open(path, "numpy")
    assert set(library.keys()) == weights.keys()
    numpy.testing.assert_array_equal(library.get_tensor("double"), weights["double"])


def test_a_damaged_weights_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"\xff" * 40)
    with pytest.raises(ArtifactError, match=r"w\.safetensors"):
        read_weights(path)
