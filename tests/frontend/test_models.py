"""The zoo and the light models of the onnx wheel import into few, clean operators."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from compiler.frontend.export import export_model
from compiler.frontend.importing import Imported, import_model
from compiler.ir.context import parse_module
from examples import zoo
from examples.zoo.export import MODELS, OTHERS, lighten, main
from tests.frontend.checks import assert_close, counts, operators, run

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = [name for name in zoo.names() if name not in ("bert512", "gpt2large", "nasnetalarge")]
"""All but one of 3 GB, one of the same nodes as another, and one with more of the same cells."""
OTHER_SHAPES = {
    "crossvit_tiny": ((1, 3, 240, 240), (1, 1000)),
    "cspresnet50": ((1, 3, 256, 256), (1, 1000)),
    "distilbert": ((1, 128), (1, 128, 768)),
    "fastvit_t8": ((1, 3, 256, 256), (1, 1000)),
    "inception_v4": ((1, 3, 299, 299), (1, 1000)),
    "mixnet_s": ((1, 3, 224, 224), (1, 1000)),
    "mobileone_s1": ((1, 3, 224, 224), (1, 1000)),
    "repvgg_b0": ((1, 3, 224, 224), (1, 1000)),
    "repvit_m1": ((1, 3, 224, 224), (1, 1000)),
    "skresnet34": ((1, 3, 224, 224), (1, 1000)),
}
"""Input and output of the other networks."""
GONE = {"BatchNormalization", "Identity", "Dropout", "Sum", "Constant", "ConstantOfShape"}


def imported_light(name: str) -> tuple[onnx.ModelProto, Imported]:
    """A model of the onnx wheel, imported."""
    model = onnx.load(LIGHT / name)
    return model, import_model(model)


def test_the_zoo_is_complete():
    assert len(zoo.names()) == 16
    assert set(zoo.names()) == set(MODELS)
    assert len(zoo.others()) == 10
    assert set(zoo.others()) == set(OTHERS)
    assert not set(zoo.others()) & set(zoo.names())


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def checked_import(model: onnx.ModelProto) -> Imported:
    """A model as a clean graph whose operators are named after its nodes."""
    imported = import_model(model)
    imported.module.verify()
    assert not GONE & set(counts(imported))
    given = {node.name for node in model.graph.node}
    for op in operators(imported):
        assert op.node_name in given or op.node_name.rpartition("/")[0] in given
    assert len({op.node_name for op in operators(imported)}) == len(operators(imported))
    return imported


@pytest.mark.parametrize("name", NAMES)
def test_a_zoo_model_imports(name: str):
    model = zoo.load(name)
    assert len(operators(checked_import(model))) <= len(model.graph.node)


@pytest.mark.parametrize("name", zoo.others())
def test_another_network_is_valid_and_imports(name: str):
    model = zoo.load(name)
    onnx.checker.check_model(model, full_check=True)
    (x,), (y,) = model.graph.input, model.graph.output
    assert (shape_of(x), shape_of(y)) == OTHER_SHAPES[name]
    checked_import(model)


def spread(tensor: onnx.TensorProto) -> tuple[float, float]:
    """Mean and standard deviation of a weight, stripped or not."""
    if tensor.doc_string:
        spec = json.loads(tensor.doc_string)
        return spec.get("mean", 0.0), spec.get("std", 0.0)
    array = onnx.numpy_helper.to_array(tensor)
    return float(array.mean()), float(array.std())


@pytest.mark.parametrize("name", zoo.others())
def test_no_weight_of_another_network_is_constant(name: str):
    graph = onnx.load(zoo.path(name)).graph
    floats = {t.name: t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    vectors = {name: spread(tensor) for name, tensor in floats.items() if np.prod(tensor.dims) > 1}
    assert not [name for name, (_, deviation) in vectors.items() if not deviation]
    norms = [node for node in graph.node if node.op_type == "BatchNormalization"]
    variances = [vectors[node.input[4]] for node in norms]
    assert all(mean > 4 * deviation for mean, deviation in variances), "one may be drawn negative"


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
    with pytest.raises(SystemExit, match="2"):
        main(["unet", "--others"])
