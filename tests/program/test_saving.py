"""Saved programs."""

import json
import logging
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import compiler
from compiler.artifact.checking import checked_artifacts
from compiler.artifact.manifest import trust_all
from compiler.artifact.program_options import ProgramOptions
from compiler.errors import ArtifactError
from compiler.program.model import DynamicModule
from tests.forgery import redo_hashes
from tests.fuzz.resealed import reseal
from tests.program.checks import compiled
from tests.program.test_model import DATA, ordered
from tests.program.test_packings import apart_inputs, apart_model


def saved(directory: Path) -> dict[str, np.ndarray]:
    """The outputs of the program that is saved to a directory."""
    module = compiled(ordered(DATA))
    found = module.run({"x": inputs()})
    module.save(directory)
    return found


def inputs() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((6, 32)).astype("f4")


def test_a_loaded_program_compiles_nothing_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    expected = saved(tmp_path / "p")
    caplog.clear()
    module = compiler.load(tmp_path / "p", threads=1)
    assert isinstance(module, DynamicModule)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        found = module.run({"x": inputs()})
    assert not caplog.records
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    module.run({"x": inputs()[:2]})
    module.save(tmp_path / "p")
    assert len([*(tmp_path / "p" / "segments").iterdir()]) > len(module.inputs)


def test_a_loaded_program_is_divided_as_the_saved_one(tmp_path: Path):
    module = compiled(ordered(DATA))
    module.run({"x": inputs()})
    module.save(tmp_path / "p")
    loaded = compiler.load(tmp_path / "p")
    assert isinstance(loaded, DynamicModule)
    assert len(module.body.plan().steps) > 1
    assert loaded.body.plan().steps == module.body.plan().steps
    assert loaded.body.division == module.body.division
    assert loaded.on_host == module.on_host != {}


@pytest.mark.parametrize(
    "entries",
    [
        {"on_host": {"999": "data"}},
        {"on_host": {}},
        {"split_at": 3},
        {"pipeline": ""},
        {"check_indices": True},
        {"target": "emu"},
    ],
)
@pytest.mark.parametrize("redone", [False, True])
def test_an_edited_entry_is_refused(tmp_path: Path, entries: dict[str, object], redone: bool):
    saved(tmp_path / "p")
    path = tmp_path / "p" / "program.json"
    if redone:
        redo_hashes(tmp_path / "p", **entries)
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))
    message = r"by the seal in program\.json: entries of" if redone else r"program\.json is damaged"
    with pytest.raises(ArtifactError, match=message):
        compiler.load(tmp_path / "p")


ABSENT = object()


@pytest.mark.parametrize("name", [field.name for field in fields(ProgramOptions)])
@pytest.mark.parametrize(
    "value", [ABSENT, None, -1, 1.5, "x", [], {}, [[]], {"x": None}, {"999": "a"}, ["x", 5]]
)
def test_an_option_of_another_type_is_refused_under_a_true_seal(
    tmp_path: Path, name: str, value: object
):
    saved(tmp_path / "p")
    path = tmp_path / "p" / "program.json"
    entries = json.loads(path.read_text())
    before = entries.pop(name)
    if value is not ABSENT:
        entries[name] = value
    path.write_text(json.dumps(entries))
    reseal(tmp_path / "p")
    valid = (name, value) in (("pipeline", "x"), ("on_host", {}), ("split_at", []))
    if value != before and not valid:
        with pytest.raises(ArtifactError, match=r"program\.json"):
            compiler.load(tmp_path / "p")
    if value is ABSENT:
        with pytest.raises(ArtifactError, match=f"has no {name}"):
            next(checked_artifacts(tmp_path / "p", trust_all))


def test_another_segment_under_a_true_seal_is_named(tmp_path: Path):
    saved(tmp_path / "p")
    one, other, *_ = sorted((tmp_path / "p" / "segments").iterdir())
    one.rename(tmp_path / "one")
    other.rename(one)
    (tmp_path / "one").rename(other)
    reseal(tmp_path / "p")
    module = compiler.load(tmp_path / "p")
    for _ in range(3):  # nor is either of the two compiled again after its error
        with pytest.raises(ArtifactError, match=f"{one.parent}.* is not the segment"):
            module.run({"x": inputs()})


@pytest.mark.parametrize("name", ["model.onnx", "manifest.json", "kernels.json"])
def test_a_file_with_redone_hashes_is_refused(tmp_path: Path, name: str):
    saved(tmp_path / "p")
    path = next((tmp_path / "p").rglob(name))
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    if name != "manifest.json":
        redo_hashes(tmp_path / "p")
    with pytest.raises(ArtifactError):
        compiler.load(tmp_path / "p")


def test_a_segment_in_place_of_another_is_refused(tmp_path: Path):
    saved(tmp_path / "p")
    one, other, *_ = sorted((tmp_path / "p" / "segments").iterdir())
    shutil.rmtree(one)
    shutil.copytree(other, one)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        compiler.load(tmp_path / "p")
    redo_hashes(tmp_path / "p")
    with pytest.raises(ArtifactError, match=f"by the seal in program.json: segments/{one.name}"):
        compiler.load(tmp_path / "p")


def test_other_directories_are_kept(tmp_path: Path):
    (tmp_path / "other").write_text("mine")
    with pytest.raises(ArtifactError, match="is not an artifact"):
        compiled(ordered(DATA)).save(tmp_path)
    assert (tmp_path / "other").read_text() == "mine"


@pytest.mark.parametrize("name", ["program.json", "model.onnx"])
def test_damaged_files_are_named(tmp_path: Path, name: str):
    saved(tmp_path / "p")
    (tmp_path / "p" / name).write_bytes(b"{")
    with pytest.raises(ArtifactError, match=name):
        compiler.load(tmp_path / "p")


def test_other_versions_are_refused(tmp_path: Path):
    saved(tmp_path / "p")
    path = tmp_path / "p" / "program.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(ArtifactError, match="by a newer Flowloom"):
        compiler.load(tmp_path / "p")


def test_segments_of_a_loaded_program_share_weights(tmp_path: Path):
    random = np.random.default_rng(0)
    weight = random.standard_normal((256, 192)).astype("f4")
    module = compiler.compile(apart_model(weight), threads=1)
    given = [apart_inputs(random, rows) for rows in (128, 64)]
    expected = [module.run(inputs)["y"] for inputs in given]
    module.save(tmp_path / "p")
    loaded = compiler.load(tmp_path / "p", threads=1)
    assert isinstance(loaded, DynamicModule)
    for _ in range(2):
        for inputs, wanted in zip(given, expected, strict=True):
            np.testing.assert_array_equal(loaded.run(inputs)["y"], wanted)
        for path in (tmp_path / "p").rglob("weights.safetensors"):
            with path.open("r+b") as file:  # arrays must not be the file's memory
                file.write(bytes(path.stat().st_size))
    assert len(loaded.compiler.modules) == 2
    assert loaded.memory.weights == module.memory.weights < 1.1 * weight.nbytes
