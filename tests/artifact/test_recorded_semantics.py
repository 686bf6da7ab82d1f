"""An artifact says whose results its nodes have where onnxruntime differs, and who chose."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import compiler
from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.errors import ArtifactError
from compiler.program.model import DynamicModule
from compiler.tools.report import report
from tests.backends.objects import chain, kernels, values
from tests.forgery import edit_json, redo_hashes
from tests.test_hostile_arguments import DYNAMIC, STATIC

CHOSEN: dict[Any, tuple[dict[str, str], list[str]]] = {
    None: ({}, ["all rules: onnx, by default, as nobody chose"]),
    "onnxruntime": ({"*": "onnxruntime"}, ["all rules: onnxruntime, chosen"]),
    "lstm-clip-cell=onnxruntime": (
        {"lstm-clip-cell": "onnxruntime"},
        ["lstm-clip-cell: onnxruntime, chosen", "the other rules: onnx, by default, as nobody"],
    ),
    "onnx,lstm-clip-cell=onnxruntime": (
        {"*": "onnx", "lstm-clip-cell": "onnxruntime"},
        ["lstm-clip-cell: onnxruntime, chosen", "the other rules: onnx, chosen"],
    ),
}


@pytest.mark.parametrize("semantics", CHOSEN)
def test_the_choice_is_recorded_and_reported(semantics: Any, tmp_path: Path):
    expected, lines = CHOSEN[semantics]
    module = compiler.compile(STATIC, semantics=semantics)
    module.save(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "manifest.json").read_bytes())["semantics"] == expected
    loaded = compiler.load(tmp_path / "saved")
    copies = [module.with_options(threads=1), copy.copy(loaded), pickle.loads(pickle.dumps(loaded))]
    for each in (module, loaded, *copies):
        assert each.semantics == expected
    for line in lines:
        assert line in report(loaded)


def test_a_session_records_what_it_chooses(tmp_path: Path):
    options = compiler.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved")
    compiler.InferenceSession(STATIC, options)
    assert compiler.load(tmp_path / "saved").semantics == {"*": "onnxruntime"}


def test_segments_of_a_program_have_the_choice_of_their_program(tmp_path: Path):
    model = compiler.compile(DYNAMIC, semantics="onnxruntime")
    assert isinstance(model, DynamicModule)
    model.prepare({"n": 4096})
    model.save(tmp_path / "saved")
    manifests = [*tmp_path.glob("saved/segments/*/manifest.json")]
    found = [json.loads(path.read_bytes())["semantics"] for path in manifests]
    assert found == [{"*": "onnxruntime"}]


def test_an_artifact_without_the_record_is_loaded(tmp_path: Path):
    Module(Artifact("cpu", chain(), kernels(), {"w": values(1)})).save(tmp_path / "old")
    assert "semantics" not in json.loads((tmp_path / "old" / "manifest.json").read_bytes())
    loaded = compiler.load(tmp_path / "old")
    assert loaded.semantics is None
    assert "was not recorded" in report(loaded)


@pytest.mark.parametrize("value", [5, [], {"*": "zz"}, {"*": ["onnx"]}, {"*": "onnxruntime"}])
def test_a_forged_record_is_refused(value: Any, tmp_path: Path):
    def forge(manifest: Any) -> None:
        manifest["semantics"] = value

    compiler.compile(STATIC).save(tmp_path / "saved")
    edit_json(tmp_path / "saved" / "manifest.json", forge)
    redo_hashes(tmp_path / "saved")
    with pytest.raises(ArtifactError):
        compiler.load(tmp_path / "saved")
