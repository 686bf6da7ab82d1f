"""`zoo:NAME` stands for a network of the zoo wherever the command line takes a model."""

import json
from pathlib import Path

import pytest

from compiler.errors import ModelError
from compiler.tools import models
from compiler.tools.cli import main
from compiler.tools.models import default_artifact, named_model
from compiler.tools.rounding import rounded_weights
from examples import zoo


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the zoo as the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_elsewhere")
def test_a_network_of_the_zoo_compiles_runs_and_is_timed(capsys: pytest.CaptureFixture[str]):
    assert main(["compile", "zoo:deepfm"]) == 0
    assert capsys.readouterr().out.startswith("deepfm.flowloom: ")
    assert main(["check", "deepfm.flowloom"]) == 0
    assert main(["run", "zoo:deepfm", "--check"]) == 0
    assert "ok   sigmoid: relative error" in capsys.readouterr().out
    assert main(["bench", "zoo:deepfm", "--runs", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "zoo:deepfm"


def test_a_name_stands_for_the_network_with_its_weights():
    model = named_model(Path("zoo:deepfm"))
    assert model == zoo.load("deepfm")


def test_a_name_stands_for_one_of_the_other_networks():
    assert named_model(Path("zoo:fastvit_t8")) == zoo.load("fastvit_t8")


def test_rounding_the_weights_leaves_the_model_as_it_was():
    model = named_model(Path("zoo:deepfm"))
    rounded = rounded_weights(model, "bf16")
    assert model == zoo.load("deepfm")
    assert rounded != model


def test_an_unknown_name_lists_the_networks(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "zoo:resnet51"]) == 1
    message = capsys.readouterr().err
    assert "the zoo has no model 'resnet51'" in message
    assert all(name in message for name in [*zoo.names(), *zoo.others()])


def test_an_installed_package_says_where_the_networks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(models, "EXAMPLES", tmp_path)
    with pytest.raises(ModelError, match="run flowloom from a clone of its repository"):
        named_model(Path("zoo:resnet50"))


@pytest.mark.usefixtures("_elsewhere")
def test_a_file_of_that_name_is_a_file():
    Path("zoo:mine").write_bytes(b"")
    assert named_model(Path("zoo:mine")) == Path("zoo:mine")


@pytest.mark.parametrize(
    ("name", "directory"),
    [("zoo:unet", "unet.flowloom"), ("folder/model.onnx", "model.flowloom")],
)
def test_a_model_names_its_artifact(name: str, directory: str):
    assert default_artifact(Path(name)) == Path(directory)
