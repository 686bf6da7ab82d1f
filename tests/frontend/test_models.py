"""The zoo and the light models of the onnx wheel import into few, clean operators."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from compiler.frontend import Imported, import_model
from compiler.frontend.export import export_model
from compiler.ir.context import parse_module
from examples import zoo
from examples.zoo.export import MODELS, lighten, main
from tests.frontend.checks import assert_close, counts, operators, run

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = [name for name in zoo.names() if name != "gpt2large"]
GONE = {"BatchNormalization", "Identity", "Dropout", "Sum", "Constant", "ConstantOfShape"}


def imported_light(name: str) -> tuple[onnx.ModelProto, Imported]:
    """A model of the onnx wheel, imported."""
    model = onnx.load(LIGHT / name)
    return model, import_model(model)


def test_the_zoo_is_complete():
    assert len(zoo.names()) == 16
    assert set(zoo.names()) == set(MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_a_zoo_model_imports(name: str):
    model = onnx.load(zoo.path(name))
    zoo.refill(model)
    imported = import_model(model)
    imported.module.verify()
    assert not GONE & set(counts(imported))
    given = {node.name for node in model.graph.node}
    for op in operators(imported):
        assert op.node_name in given or op.node_name.rpartition("/")[0] in given
    assert len({op.node_name for op in operators(imported)}) == len(operators(imported))
    assert len(operators(imported)) <= len(model.graph.node)


@pytest.mark.parametrize("name", ["deepfm", "unet", "nasnetmobile", "t5small", "rnntc_sru"])
def test_a_zoo_model_computes_the_same(name: str):
    model = zoo.load(name)
    imported = import_model(model)
    inputs = zoo.random_inputs(model, 1)
    expected = run(model, inputs)
    assert all(np.isfinite(array).all() for array in expected)
    assert_close(run(export_model(imported.module, imported.weights), inputs), expected)


def test_a_zoo_model_round_trips_as_text():
    imported = import_model(zoo.load("unet"))
    again = parse_module(str(imported.module))
    again.verify()
    assert str(again) == str(imported.module)


@pytest.mark.parametrize("name", sorted(path.name for path in LIGHT.glob("light_*.onnx")))
def test_a_light_model_imports(name: str):
    model, imported = imported_light(name)
    imported.module.verify()
    found = counts(imported)
    assert not GONE & set(found)
    convolutions = sum(node.op_type == "Conv" for node in model.graph.node)
    assert found["Conv"] == convolutions
    if "densenet" not in name:
        assert not found["Mul"], "every normalisation folds"


@pytest.mark.parametrize("name", ["light_squeezenet.onnx", "light_shufflenet.onnx"])
def test_a_light_model_computes_the_same(name: str):
    model, imported = imported_light(name)
    generator = np.random.default_rng(2)
    graph = export_model(imported.module, imported.weights)
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in graph.graph.input
    }
    inputs = {n: generator.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    assert_close(run(graph, inputs), run(model, inputs))


def test_weights_are_drawn_from_their_seeds():
    first, second = zoo.load("unet"), zoo.load("unet")
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )
    arrays = [onnx.numpy_helper.to_array(t) for t in first.graph.initializer]
    large = [a for a in arrays if a.size > 1000]
    assert len(large) > 10
    assert all(a.std() > 0 for a in large)


@pytest.mark.parametrize("name", zoo.names())
def test_no_weight_hides_errors(name: str):
    for tensor in onnx.load(zoo.path(name)).graph.initializer:
        constant = '"constant"' in tensor.doc_string
        assert not (constant and len(tensor.dims) == 4), tensor.name
        assert "Infinity" not in tensor.doc_string


def test_tokens_are_within_the_vocabulary():
    inputs = zoo.random_inputs(zoo.load("deepfm"), 5)
    assert inputs["x"].dtype == np.int64
    assert 5_000 < inputs["x"].max() < 10_000
    again = zoo.random_inputs(zoo.load("deepfm"), 5)
    assert (inputs["x"] == again["x"]).all()


def test_an_unknown_name_lists_the_zoo():
    with pytest.raises(KeyError, match=r"no model 'lenet'.*resnet50"):
        zoo.load("lenet")


def test_lightening_keeps_what_refilling_needs():
    light = onnx.load(zoo.path("rnntc_sru"))
    model = zoo.load("rnntc_sru")
    assert lighten(model) == sum(bool(tensor.doc_string) for tensor in light.graph.initializer)
    assert len(model.SerializeToString()) < 300_000
    zoo.refill(model)
    onnx.checker.check_model(model)


def test_exporting_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("examples.zoo.export.PACKAGES", ("a_package_that_is_missing",))
    with pytest.raises(SystemExit, match="pip install a_package_that_is_missing"):
        main(["unet", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main(["lenet"])
