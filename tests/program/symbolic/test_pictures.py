"""Networks on pictures are compiled once for all sizes, and compute what onnxruntime does."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.net.operators.resize import scaled_size
from compiler.program.model import DynamicModule
from compiler.tensors.assumptions import assuming
from compiler.tensors.extents import Undecided, extent_of, value_at
from compiler.tensors.symbols import Symbol
from tests.program.checks import check
from tests.program.symbolic.test_running import LOGGER, messages, tensor

SIZES = ((2, 30, 44), (2, 17, 25), (3, 33, 20), (2, 9, 11), (4, 40, 36))
"""Batches, heights and widths; odd ones and small ones among them."""


class Network:
    """A network on pictures of three channels whose weights are random."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The result of one more operator."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, [*inputs], [name], **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        """An array as an input."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, filters: int, channels: int, kernel: int, **attributes: Any) -> str:
        """A convolution with a bias, and Relu."""
        shape = (filters, channels, kernel, kernel)
        weight = self.random.standard_normal(shape) / (channels * kernel**2) ** 0.5
        bias = self.random.standard_normal(filters)
        operands = [self.constant(array.astype("f4")) for array in (weight, bias)]
        return self.add("Relu", self.add("Conv", x, *operands, **attributes))

    def model(self, result: str) -> onnx.ModelProto:
        """The model, whose batch, height and width are open."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.weights)
        opset = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9)


def classifier() -> onnx.ModelProto:
    """A stem, a residual block, a depthwise block, and a head."""
    net, same = Network(), {"pads": [1] * 4}
    x = net.conv("x", 16, 3, 7, pads=[3] * 4, strides=[2, 2])
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], **same)
    x = net.add("Add", x, net.conv(net.conv(x, 8, 16, 1), 16, 8, 3, **same))
    x = net.conv(net.conv(x, 32, 16, 1), 32, 1, 3, group=32, strides=[2, 2], **same)
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    weight = net.constant(net.random.standard_normal((32, 10)).astype("f4"))
    return net.model(net.add("MatMul", x, weight))


def pyramid() -> onnx.ModelProto:
    """A smaller picture is enlarged to the size of the larger one, and put beside it."""
    net = Network()
    large = net.conv("x", 8, 3, 3, pads=[1] * 4)
    small = net.conv(large, 8, 8, 3, pads=[1] * 4, strides=[2, 2])
    shape, own = net.add("Shape", large, start=2), net.add("Shape", small, end=2)
    sizes = net.add("Concat", own, shape, axis=0)
    wide = net.add("Resize", small, "", "", sizes, mode="nearest")
    soft = net.add("Resize", small, "", "", sizes, mode="linear")
    return net.model(net.add("Concat", large, wide, soft, axis=1))


def upsampler() -> onnx.ModelProto:
    """Pictures that become twice as large in three ways."""
    net = Network()
    x = net.conv("x", 8, 3, 3, pads=[1] * 4)
    scales = net.constant(np.array([1, 1, 2, 2], "f4"))
    kernel = net.constant(net.random.standard_normal((8, 8, 2, 2)).astype("f4"))
    ways = [
        net.add("Resize", x, "", scales, mode="linear"),
        net.add("ConvTranspose", x, kernel, strides=[2, 2]),
        net.add("DepthToSpace", net.conv(x, 32, 8, 1), blocksize=2),
    ]
    return net.model(net.add("Sum", *ways))


def shrunk() -> onnx.ModelProto:
    """Resizes by scales that are rounded in float32."""
    net = Network()
    scales = net.constant(np.array([1, 1, 0.7, 0.3], "f4"))
    same = {"coordinate_transformation_mode": "asymmetric"}
    ways = [
        net.add("Resize", "x", "", scales, mode="nearest", nearest_mode="floor", **same),
        net.add("Resize", "x", "", scales, mode="linear"),
    ]
    return net.model(net.add("Sum", *ways))


def pools() -> onnx.ModelProto:
    """Pools whose windows reach over the ends of a picture."""
    net = Network()
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    ways = [
        net.add("MaxPool", "x", **window),
        net.add("AveragePool", "x", **window),
        net.add("AveragePool", "x", count_include_pad=1, **window),
        net.add("LpPool", "x", **window),
    ]
    return net.model(net.add("Sum", *ways))


@pytest.mark.parametrize("network", [classifier, pyramid, upsampler, shrunk, pools])
def test_pictures_of_all_sizes_are_compiled_for_once(
    network: Callable[[], onnx.ModelProto], caplog: pytest.LogCaptureFixture
):
    model = network()
    module = compiler.compile(model, threads=2)
    assert isinstance(module, DynamicModule)
    with caplog.at_level(logging.WARNING, LOGGER):
        for batch, height, width in SIZES:
            check(module, model, {"x": tensor(batch, 3, height, width)})
    assert messages(caplog) == ["all"]


def resize(dtype: str, scale: float, **attributes: Any) -> onnx.ModelProto:
    """A picture of bytes or floats that is scaled linearly, and its type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    scales = numpy_helper.from_array(np.array([1, 1, scale, scale], "f4"), "scales")
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", **attributes)
    x = helper.make_tensor_value_info("x", kind, ["n", 3, "h", "w"])
    y = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "g", [x], [y], [scales])
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


@pytest.mark.parametrize("scale", [2.0, 0.5])
def test_pictures_of_bytes_are_resized_by_one_compilation(
    scale: float, caplog: pytest.LogCaptureFixture
):
    model = resize("uint8", scale)
    module = compiler.compile(model, semantics="onnx", threads=2)
    random = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING, LOGGER):
        for batch, height, width in SIZES:
            pixels = random.integers(0, 256, (batch, 3, height, width), np.uint8)
            shapes = {"x": pixels.shape}
            alone = compiler.compile(model, semantics="onnx", input_shapes=shapes, threads=1)
            wanted = alone.run({"x": pixels})["y"]
            np.testing.assert_array_equal(module.run({"x": pixels})["y"], wanted)
    assert messages(caplog) == ["all"]


def test_filters_that_depend_on_sizes_are_compiled_for_each(caplog: pytest.LogCaptureFixture):
    model = resize("float32", 0.5, antialias=1)
    module = compiler.compile(model, threads=2)
    assert isinstance(module, DynamicModule)
    with caplog.at_level(logging.WARNING, LOGGER):
        for batch, height, width in SIZES[:2]:
            check(module, model, {"x": tensor(batch, 3, height, width)})
    reason, *others = messages(caplog)
    assert "filters of antialias depend on sizes" in reason
    assert len(others) == 2


def test_a_size_gives_what_a_module_for_it_alone_does():
    model, (first, second) = pools(), (tensor(2, 3, 30, 44), tensor(2, 3, 17, 25))
    module = compiler.compile(model, threads=1)
    module.run({"x": first})
    alone = compiler.compile(model, input_shapes={"x": second.shape}, threads=1)
    for name, array in alone.run({"x": second}).items():
        np.testing.assert_allclose(module.run({"x": second})[name], array, 1e-5, 1e-5)


@pytest.mark.parametrize("scale", [0.3, 0.7, 1 / 3, 1.5, 0.7234, 7.77, 100.3])
def test_a_scaled_size_is_that_of_each_size(scale: float):
    size = extent_of(Symbol("n", 2, None, 50))
    with assuming() as assumptions:
        scaled = scaled_size(size, scale)
    (condition,) = assumptions
    largest = max(n for n in range(1 << 17) if condition.holds({"n": n}))
    assert largest > 1000
    for n in (*range(2, 1000), *range(largest - 999, largest + 1)):
        assert value_at(scaled, {"n": n}) == scaled_size(n, scale)


def test_a_scale_whose_products_no_fraction_gives_is_one_of_numbers():
    assert scaled_size(90, 1.3) == 116  # 117 less a rounding error; 10 become 13
    with assuming(), pytest.raises(Undecided, match="is rounded"):
        scaled_size(extent_of(Symbol("n", 2, None, 100)), 1.3)
