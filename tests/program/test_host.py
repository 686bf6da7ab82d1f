"""Nodes on the host: forms without kernels, contents that change, random numbers, refusals."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler.errors import FlowloomError, UnsupportedOperatorError
from compiler.program.model import DynamicModule
from tests.program.checks import assert_equal, reference

ROOT = Path(__file__).parents[2]
Array = np.ndarray
RNG = np.random.default_rng(0)


def node_model(
    op_type: str,
    inputs: Mapping[str, Array],
    opset: int,
    outputs: int = 1,
    constants: Mapping[str, Array] | None = None,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node whose inputs have open sizes; outputs have the type of the first."""
    constants = constants or {}
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
        )
        for name, array in inputs.items()
    ]
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, [*inputs, *constants], names, domain=domain, **attributes)
    results = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node], "g", infos, results)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    typed = onnx.shape_inference.infer_shapes(model)
    for result in typed.graph.output:
        if not result.type.WhichOneof("value"):
            element = attributes.get("dtype", 1)
            result.CopyFrom(helper.make_tensor_value_info(result.name, element, None))
    return typed


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def test_the_product_does_not_use_onnx_reference():
    texts = {p: p.read_text() for p in (ROOT / "compiler").rglob("*.py")}
    pattern = re.compile(r"onnx\.reference|from onnx import .*\breference\b|ReferenceEvaluator")
    assert not [path for path, text in texts.items() if pattern.search(text)]


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_decide_how_often_they_are_sampled(opset: int, mode: str):
    x, images = floats(2, 2, 16, 12), np.array([0, 1, 0])
    regions = np.array([[0, 0, 10, 12], [2, 3, 2.2, 9], [-2, 1, 30, 30]], np.float32)
    feeds = {"x": x, "r": regions, "b": images}
    model = node_model(
        "RoiAlign", feeds, opset, output_height=3, output_width=2, spatial_scale=0.7, mode=mode
    )
    assert_equal(compiler.compile(model).run(feeds)["y0"], reference(model, feeds)["y0"])


@pytest.mark.parametrize("opset", [1, 21])
def test_max_roi_pool_is_computed(opset: int):
    feeds = {"x": floats(2, 3, 9, 7), "r": np.array([[0, 1, 1, 5, 5], [1, 3, 8, 2, 9]], np.float32)}
    model = node_model("MaxRoiPool", feeds, opset, pooled_shape=[3, 2], spatial_scale=0.9)
    runnable = node_model("MaxRoiPool", feeds, 21, pooled_shape=[3, 2], spatial_scale=0.9)
    assert_equal(compiler.compile(model).run(feeds)["y0"], reference(runnable, feeds)["y0"])


def test_unique_elements_stay_in_order():
    x = np.array([3, 1, 3, 0], np.float32)
    model = node_model("Unique", {"x": x}, 11, sorted=0)
    assert compiler.compile(model).run({"x": x})["y0"].tolist() == [3, 1, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_nan_is_one_unique_element(is_sorted: int, dtype: str):
    x = np.array([np.nan, 1, -np.nan, 0, 1, np.nan]).astype(dtype)
    model = node_model("Unique", {"x": x}, 11, 4, sorted=is_sorted)
    values, first, inverse, counts = compiler.compile(model).run({"x": x}).values()
    order = [3, 1, 0] if is_sorted else [0, 1, 3]
    np.testing.assert_array_equal(values, x[order])
    assert first.tolist() == order
    np.testing.assert_array_equal(values[inverse], x)
    assert counts.tolist() == ([1, 2, 3] if is_sorted else [3, 2, 1])


def test_slices_with_nan_are_unique_each():
    x = np.array([[np.nan, 1], [np.nan, 1], [0, 1], [0, 1]], np.float32)
    model = node_model("Unique", {"x": x}, 11, 4, axis=0)
    values, first, inverse, counts = compiler.compile(model).run({"x": x}).values()
    np.testing.assert_array_equal(values, x[[2, 0, 1]])
    assert [first.tolist(), inverse.tolist()] == [[2, 0, 1], [1, 2, 0, 0]]
    assert counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices_of_any_axis_stay_in_order(axis: int, text: bool):
    x = np.array([[3, 1, 3, 0], [2, 1, 2, 0], [3, 1, 3, 0]], np.float32)
    x = x.astype(str).astype(object) if text else x
    model = node_model("Unique", {"x": x}, 11, 4, axis=axis, sorted=0)
    found, wanted = compiler.compile(model).run({"x": x}), reference(model, {"x": x})
    for name, value in wanted.items():
        assert_equal(found[name], value)


def _pads(k: int) -> dict[str, Array]:
    return {"x": floats(2, 12), "p": np.array([0, -k, 0, k % 3])}


def _reflected(k: int) -> dict[str, Array]:
    return {"x": floats(2, 30), "p": np.array([0, -k, 0, 1])}


def _one_hot(k: int) -> dict[str, Array]:
    values = np.array([0, 1], np.float32)
    return {"i": np.array([0, 1]), "d": np.array([k + 1]), "v": values}


def _scaled(k: int) -> dict[str, Array]:
    return {"x": floats(1, 1, 2, 2), "s": np.array([1, 1, 1, 1 + k / 2], np.float32)}


CONTENTS: dict[str, tuple[int, Callable[[int], dict[str, Array]], dict[str, Any]]] = {
    "Pad": (21, _pads, {}),
    "Pad edge": (21, _pads, {"mode": "edge"}),
    "Pad reflect": (21, _reflected, {"mode": "reflect"}),
    "OneHot": (11, _one_hot, {}),
    "Upsample": (9, _scaled, {"mode": "linear"}),
    "Resize": (10, _scaled, {}),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_ninth_content_gives_what_the_first_gives(name: str):
    opset, feeds, attributes = CONTENTS[name]
    model = node_model(name.split()[0], feeds(1), opset, **attributes)
    module = compiler.compile(model)
    assert isinstance(module, DynamicModule)
    for k in range(1, 12):
        given = feeds(k)
        assert_equal(module.run(given)["y0"], reference(model, given)["y0"])
    assert [label.split()[0] for label in module.on_host] == [name.split()[0]]


def test_a_ninth_content_is_refused_as_the_first():
    model = node_model("Pad", {"x": floats(2, 12), "p": np.zeros(4, np.int64)}, 21)
    module = compiler.compile(model)
    wrong = {"x": floats(2, 12), "p": np.array([0, -20, 0, 0])}
    with pytest.raises(FlowloomError) as first:
        module.run(wrong)
    for k in range(10):
        module.run(_pads(k))
    with pytest.raises(FlowloomError) as last:
        module.run(wrong)
    assert (type(last.value), str(last.value)) == (type(first.value), str(first.value))


@pytest.mark.parametrize(
    ("op_type", "attributes", "mean", "deviation"),
    [
        ("RandomNormal", {"mean": 2.0, "scale": 3.0}, 2, 3),
        ("RandomUniform", {"low": -1.0, "high": 3.0, "dtype": 11}, 1, 4 / 12**0.5),
        ("RandomUniform", {"dtype": 10}, 0.5, 12**-0.5),
    ],
)
def test_random_numbers_are_distributed_as_said(
    op_type: str, attributes: dict[str, Any], mean: float, deviation: float
):
    model = node_model(op_type, {}, 21, shape=[40, 1000], seed=1.0, **attributes)
    first, second = compiler.compile(model), compiler.compile(model)
    runs = [first.run({})["y0"], first.run({})["y0"], second.run({})["y0"]]
    np.testing.assert_array_equal(runs[0], runs[2])
    assert (runs[0] != runs[1]).mean() > 0.9
    for run in runs:
        assert run.dtype == helper.tensor_dtype_to_np_dtype(attributes.get("dtype", 1))
        wide = run.astype(np.float64)
        assert abs(wide.mean() - mean) < 0.03 * deviation
        assert abs(wide.std() - deviation) < 0.03 * deviation


def test_drawn_classes_have_their_probabilities():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0]])
    with np.errstate(divide="ignore"):
        x = np.log(p).astype(np.float32) + 5
    model = node_model("Multinomial", {"x": x}, 21, sample_size=20_000, dtype=7, seed=1.0)
    drawn = compiler.compile(model).run({"x": x})["y0"]
    assert drawn.dtype == np.int64
    shares = np.stack([np.bincount(row, minlength=3) / row.size for row in drawn])
    np.testing.assert_allclose(shares, p, atol=0.015)


def test_bernoulli_draws_with_the_probability_of_each_element():
    p = np.repeat(np.array([0, 0.25, 1], np.float32), 10_000)
    model = node_model("Bernoulli", {"x": p}, 21, dtype=9, seed=1.0)
    drawn = compiler.compile(model).run({"x": p})["y0"]
    assert drawn.dtype == np.bool_
    np.testing.assert_allclose(drawn.reshape(3, -1).mean(1), [0, 0.25, 1], atol=0.02)


def test_dropout_in_training_drops_and_scales():
    feeds = {"x": np.ones(10_000, np.float32), "r": np.array(0.25, np.float32)}
    feeds["t"] = np.array(True)
    module = compiler.compile(node_model("Dropout", feeds, 13, 2, seed=3))
    y, mask = module.run(feeds).values()
    assert abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_array_equal(y, np.where(mask, np.float32(4 / 3), 0))
    y, mask = module.run({**feeds, "t": np.array(False)}).values()
    assert (y == 1).all()
    assert mask.all()


def test_images_of_integers_are_sampled():
    grid = np.array([[[[0, 0], [1, 1], [-1, 0.2]]]], np.float32)
    feeds = {"x": np.arange(12, dtype=np.int32).reshape(1, 1, 3, 4), "g": grid}
    found = compiler.compile(node_model("GridSample", feeds, 16, mode="nearest")).run(feeds)["y0"]
    wide = {**feeds, "x": feeds["x"].astype(np.float32)}
    wanted = reference(node_model("GridSample", wide, 16, mode="nearest"), wide)["y0"]
    assert_equal(found, wanted.astype(np.int32))


def test_a_deformable_convolution_of_one_axis_without_moves_is_a_convolution():
    feeds = {"x": floats(1, 2, 7), "w": floats(3, 2, 3)}
    moves = np.zeros((1, 3, 5), np.float32)
    module = compiler.compile(node_model("DeformConv", {**feeds, "o": moves}, 19))
    wanted = reference(node_model("Conv", feeds, 19), feeds)["y0"]
    assert_equal(module.run({**feeds, "o": moves})["y0"], wanted)


def test_blocks_of_scales_need_not_fill_the_axis():
    x, scale = RNG.integers(-9, 9, (2, 7)).astype(np.int8), floats(2, 3)
    feeds = {"x": x, "s": scale}
    model = node_model("DequantizeLinear", feeds, 21, axis=1, block_size=3)
    found = compiler.compile(model).run(feeds)["y0"]
    assert_equal(found, reference(model, feeds)["y0"])


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_matrices_of_float8_are_multiplied(name: str):
    dtype = np.dtype(getattr(ml_dtypes, name))
    feeds = {"a": floats(3, 4).astype(dtype), "b": floats(4, 2).astype(dtype)}
    zero, scales = np.zeros((), dtype), np.array([0.5, 0.25, 0.125], np.float32)
    order = ["a", "sa", "z", "b", "sb", "z", "sy", "z"]
    node = helper.make_node("QLinearMatMul", order, ["y"])
    element = helper.np_dtype_to_tensor_dtype(dtype)
    infos = [helper.make_tensor_value_info(n, element, x.shape) for n, x in feeds.items()]
    result = helper.make_tensor_value_info("y", element, None)
    constants = {"z": zero, **dict(zip(("sa", "sb", "sy"), scales, strict=True))}
    tensors = [numpy_helper.from_array(np.asarray(x), n) for n, x in constants.items()]
    graph = helper.make_graph([node], "g", infos, [result], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    a, b = (x.astype(np.float32) for x in feeds.values())
    wanted = ((a * scales[0]) @ (b * scales[1]) / scales[2]).astype(dtype)
    found = compiler.compile(model).run(feeds)["y"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


REFUSED: list[tuple[str, int, dict[str, Array], dict[str, Any], str]] = [
    ("RNN", 14, {"x": floats(2, 1, 2), "w": floats(1, 3, 2), "r": floats(1, 3, 3)},
     {"hidden_size": 3, "activations": ["Mish"]}, "its activation 'Mish' is not known; use a"),
    ("LpPool", 1, {"x": floats(1, 1, 4, 4)}, {"kernel_shape": [2, 2], "p": 2.5},
     "its norm is of order 2.5; use an integer"),
    ("Gradient", 1, {"x": floats(2)}, {"xs": ["x"], "y": "x"}, "it is a step of training; export"),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "opset", "feeds", "attributes", "message"), REFUSED)
def test_what_nothing_computes_is_refused_when_it_is_compiled(
    op_type: str,
    opset: int,
    feeds: dict[str, Array],
    attributes: dict[str, Any],
    message: str,
):
    domain = "ai.onnx.preview.training" if op_type == "Gradient" else ""
    model = node_model(op_type, feeds, opset, domain=domain, **attributes)
    with pytest.raises(UnsupportedOperatorError, match=message) as error:
        compiler.compile(model)
    assert re.search(rf"{op_type} 'y0' \((ai\.onnx|{domain}) opset {opset}\)", str(error.value))


def test_a_damaged_image_is_refused_in_our_words():
    pytest.importorskip("PIL")
    data = np.frombuffer(b"\x89PNG\r\n\x1a\n" + bytes(40), np.uint8)
    module = compiler.compile(node_model("ImageDecoder", {"x": data}, 20))
    with pytest.raises(FlowloomError, match="the image cannot be decoded"):
        module.run({"x": data})
