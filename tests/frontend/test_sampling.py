"""Operators that read images at computed positions, against onnxruntime and onnx's reference."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import compiler
from compiler import ModelError, ShapeError
from compiler.frontend.importing import import_model

Array = np.ndarray[Any, Any]
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def numbers(*shape: int, scale: float = 1.0, seed: int = 0) -> Array:
    """Normal random numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def model(
    op_type: str,
    inputs: dict[str, Array],
    known: tuple[str, ...] = (),
    opset: int = 22,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; inputs that are known are constants, those of no elements left out."""
    names = [name if array.size else "" for name, array in inputs.items()]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    given = {name: array for name, array in inputs.items() if array.size and name not in known}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    constants = [numpy_helper.from_array(inputs[name], name) for name in known]
    result = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "sampling", infos, [result], constants)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def judged(made: onnx.ModelProto, feeds: dict[str, Array], reference: bool) -> Array:
    """The output by onnx's reference implementation, or by onnxruntime."""
    if reference:
        evaluator: Any = ReferenceEvaluator(made)
        return np.asarray(evaluator.run(None, feeds)[0])
    runtime: Any = onnxruntime
    session = runtime.InferenceSession(made.SerializeToString())
    return np.asarray(session.run(None, feeds)[0])


def check(
    made: onnx.ModelProto,
    inputs: dict[str, Array],
    reference: bool = False,
    tolerance: float = 2e-5,
) -> None:
    """Compare the compiled kernels with a judge; nothing of it runs on the host."""
    names = {info.name for info in made.graph.input}
    feeds = {name: array for name, array in inputs.items() if name in names}
    expected = judged(made, feeds, reference)
    module = compiler.compile(made, dynamic=False, semantics="onnx")
    found = module.run(feeds)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("mode", "padding", "align"),
    [
        (mode, padding, (row + column) % 2)
        for row, mode in enumerate(["nearest", "linear", "cubic"])
        for column, padding in enumerate(["zeros", "border", "reflection"])
    ],
)
def test_a_sampled_image(mode: str, padding: str, align: int):
    inputs = {"x": numbers(2, 3, 5, 7), "grid": numbers(2, 4, 6, 2, scale=1.5, seed=1)}
    attributes: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": align}
    check(model("GridSample", inputs, **attributes), inputs, tolerance=2e-4)


@pytest.mark.parametrize(
    ("mode", "padding"),
    [("nearest", "border"), ("linear", "zeros"), ("linear", "reflection")],
)
def test_a_sampled_volume(mode: str, padding: str):
    inputs = {"x": numbers(1, 2, 3, 4, 5), "grid": numbers(1, 2, 3, 2, 3, scale=1.5, seed=1)}
    check(model("GridSample", inputs, mode=mode, padding_mode=padding), inputs, tolerance=2e-4)


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 1)])
@pytest.mark.parametrize("align", [0, 1])
def test_images_of_one_row_or_column_reflect(size: tuple[int, int], align: int):
    inputs = {"x": numbers(1, 1, *size), "grid": numbers(1, 4, 6, 2, scale=2.0, seed=1)}
    attributes: dict[str, Any] = {
        "mode": "linear",
        "padding_mode": "reflection",
        "align_corners": align,
    }
    check(model("GridSample", inputs, **attributes), inputs, tolerance=1e-4)


def test_old_names_of_modes():
    inputs = {"x": numbers(1, 1, 5, 5), "grid": numbers(1, 4, 6, 2, seed=1)}
    check(model("GridSample", inputs, opset=16, mode="bicubic"), inputs, tolerance=1e-4)


def test_infinite_pixels_outside_are_not_read():
    x = numbers(1, 1, 4, 4)
    x[0, 0, 0, 0] = np.inf
    grid = np.full((1, 1, 2, 2), 3.0, np.float32)
    inputs = {"x": x, "grid": grid}
    found = compiler.compile(model("GridSample", inputs)).run(inputs)["y"]
    assert not found.any()


def test_positions_that_are_no_numbers_stay_inside():
    inputs = {"x": numbers(1, 2, 4, 4), "grid": np.full((1, 3, 3, 2), np.nan, np.float32)}
    module = compiler.compile(model("GridSample", inputs), check_indices=True)
    assert module.run(inputs)["y"].shape == (1, 2, 3, 3)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("spatial", [(3, 4), (2, 3, 4), (1, 5)])
def test_an_affine_grid(align: int, spatial: tuple[int, ...]):
    inputs = {"theta": numbers(2, len(spatial), len(spatial) + 1)}
    inputs["size"] = np.array([2, 3, *spatial])
    made = model("AffineGrid", inputs, ("size",), align_corners=align)
    check(made, inputs, reference=align == 1)  # onnxruntime puts a single pixel at 1, others at -1


REGIONS = np.array(
    [[0, 0, 9, 7], [2.5, 1.25, 6, 6], [-3, -2, 4, 3], [8, 6, 20, 20], [5, 5, 5.1, 5.2]], np.float32
)


@pytest.mark.parametrize(
    ("mode", "transformation", "count"),
    [
        ("avg", "half_pixel", 1),
        ("avg", "half_pixel", 3),
        ("avg", "output_half_pixel", 2),
        ("max", "half_pixel", 2),
        ("max", "output_half_pixel", 1),
        ("max", "output_half_pixel", 3),
    ],
)
def test_aligned_regions(mode: str, transformation: str, count: int):
    inputs = {"x": numbers(2, 3, 8, 10), "rois": REGIONS, "batches": np.array([0, 1, 1, 0, 1])}
    made = model(
        "RoiAlign",
        inputs,
        opset=16,
        mode=mode,
        coordinate_transformation_mode=transformation,
        sampling_ratio=count,
        output_height=3,
        output_width=2,
        spatial_scale=0.9,
    )
    check(made, inputs)


def test_regions_of_opset_10():
    inputs = {"x": numbers(1, 2, 8, 10), "rois": REGIONS, "batches": np.zeros(5, np.int64)}
    check(model("RoiAlign", inputs, opset=10, sampling_ratio=2, output_height=2), inputs)


def test_regions_with_as_many_samples_as_they_need_run_on_the_host():
    inputs = {"x": numbers(1, 2, 8, 10), "rois": REGIONS, "batches": np.zeros(5, np.int64)}
    made = model("RoiAlign", inputs)
    assert compiler.compile(made).run(inputs)["y"].shape == (5, 2, 1, 1)


@pytest.mark.parametrize(
    ("groups", "own", "masked"), [(1, 1, False), (2, 1, True), (1, 2, True), (2, 4, False)]
)
def test_a_deformable_convolution(groups: int, own: int, masked: bool):
    attributes: dict[str, Any] = {
        "group": groups,
        "offset_group": own,
        "strides": [2, 1],
        "pads": [1, 0, 1, 2],
        "dilations": [1, 2],
    }
    rows, columns = (9 + 2 - 3) // 2 + 1, 8 + 2 - 2 * (2 - 1)
    taps = own * 6
    inputs = {
        "x": numbers(2, 4, 9, 8),
        "w": numbers(6, 4 // groups, 3, 2, seed=1),
        "offset": numbers(2, 2 * taps, rows, columns, scale=1.5, seed=2),
        "b": numbers(6 if masked else 0, seed=3),
        "mask": numbers(2, taps, rows, columns, seed=4) if masked else np.zeros(0, np.float32),
    }
    made = model("DeformConv", inputs, **attributes)
    check(made, inputs, reference=True, tolerance=2e-4)


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ([5, 6], [2, 3], {}),
        ([5, 6], [2, 2], {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
        ([7, 8], [3, 2], {"dilations": [2, 3], "strides": [1, 2]}),
        ([4, 3, 5], [2, 2, 2], {}),
        ([9], [4], {"strides": [2]}),
    ],
)
def test_columns_back_to_an_image(image: list[int], block: list[int], attributes: dict[str, Any]):
    rank = len(image)
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = (
        attributes.get("strides", [1] * rank),
        attributes.get("dilations", [1] * rank),
    )
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    inputs = {
        "x": numbers(2, 3 * int(np.prod(block)), int(np.prod(counts))),
        "image": np.array(image),
        "block": np.array(block),
    }
    check(model("Col2Im", inputs, ("image", "block"), **attributes), inputs)


def test_columns_of_an_ordinary_image_have_a_kernel():
    inputs: dict[str, np.ndarray] = {
        "x": numbers(1, 9, 254 * 254),
        "image": np.array([256, 256]),
        "block": np.array([3, 3]),
    }
    made = compiler.compile(model("Col2Im", inputs, ("image", "block")), budget=0)
    assert isinstance(made, compiler.Module)
    columns = inputs["x"].reshape(3, 3, 254, 254)
    image = np.zeros((1, 1, 256, 256), "f4")
    for row, column in np.ndindex(3, 3):
        image[0, 0, row : row + 254, column : column + 254] += columns[row, column]
    (found,) = made.run({"x": inputs["x"]}).values()
    np.testing.assert_allclose(found, image, 1e-5, 1e-5)


def test_an_unpooled_image():
    x = np.abs(numbers(2, 3, 4, 6))
    pooled = np.array(
        [[i * 24 + a * 12 + b * 2 + 1 for b in range(3) for a in range(2)] for i in range(6)]
    )
    index = np.sort(pooled, 1).reshape(2, 3, 2, 3)
    inputs = {"x": x[:, :, :2, :3], "index": index}
    made = model("MaxUnpool", inputs, kernel_shape=[2, 2], strides=[2, 2])
    check(made, inputs)
    larger = {**inputs, "size": np.array([2, 3, 5, 7])}
    made = model("MaxUnpool", larger, ("size",), kernel_shape=[2, 2], strides=[2, 2])
    check(made, larger, reference=True)


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "reason"),
    [
        ("GridSample", [(1, 1, 4, 4), (2, 3, 3, 2)], {}, "its grid"),
        ("GridSample", [(1, 1, 4, 4), (1, 3, 3, 3)], {}, "its grid"),
        ("GridSample", [(1, 1, 4, 4, 4), (1, 3, 3, 3, 3)], {"mode": "cubic"}, "cubic"),
        ("DeformConv", [(1, 2, 5, 5), (2, 2, 3, 3), (1, 16, 3, 3)], {}, "its offset"),
        ("DeformConv", [(1, 2, 5, 5), (3, 1, 3, 3), (1, 18, 3, 3)], {"group": 2}, "its weight"),
        ("MaxUnpool", [(1, 1, 2, 2), (1, 1, 2, 3)], {"kernel_shape": [2, 2]}, "its indices"),
        ("RoiAlign", [(1, 1, 4, 4), (2, 5), (2,)], {}, "its rois"),
    ],
)
def test_what_does_not_fit_is_refused(
    op_type: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], reason: str
):
    inputs = {f"x{i}": numbers(*shape) for i, shape in enumerate(shapes)}
    if op_type in ("MaxUnpool", "RoiAlign"):
        last = f"x{len(shapes) - 1}"
        inputs[last] = np.zeros(shapes[-1], np.int64)
    with pytest.raises((ModelError, ShapeError), match=reason):
        import_model(model(op_type, inputs, **attributes))
