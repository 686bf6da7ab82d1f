"""Operators on constants: import computes the same as onnxruntime at run time, or as the text."""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import DTypeLike
from onnx import helper, numpy_helper

from compiler.errors import ShapeError
from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from tests.frontend.checks import run
from tests.lowered import import_lowered

N = helper.make_node
RNG = np.random.default_rng(3)
X1, X2, X3 = (RNG.standard_normal((1, 2, *[5] * n)).astype(np.float32) for n in (1, 2, 3))
W = RNG.standard_normal((4, 2, 3, 3)).astype(np.float32)
X4 = RNG.standard_normal((1, 4, 5, 5)).astype(np.float32)


def model(node: onnx.NodeProto, *arrays: np.ndarray, constant: bool = True, opset: int = 21):
    """A model of one node whose inputs are constants, or the graph's inputs."""
    tensors = [
        numpy_helper.from_array(np.asarray(a), n)
        for a, n in zip(arrays, [n for n in node.input if n], strict=True)
    ]
    infos = [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph(
        [node], "g", [] if constant else infos, outputs, tensors if constant else []
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def with_element_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the element type of its outputs: onnx's, else that of its first tensor."""
    inferred = onnx.shape_inference.infer_shapes(proto)
    for output, found in zip(proto.graph.output, inferred.graph.output, strict=True):
        own = proto.graph.initializer[0].data_type
        output.type.tensor_type.elem_type = found.type.tensor_type.elem_type or own
    return proto


def folded(node: onnx.NodeProto, *arrays: np.ndarray, opset: int = 21) -> list[np.ndarray]:
    """The outputs of a node on constants, computed at import: no operator is left."""
    proto = with_element_types(model(node, *arrays, opset=opset))
    imported = import_lowered(proto)
    assert "dataflow.op" not in str(imported.module)
    return list(interpret(imported.module, imported.weights, {}).values())


def recurrent(op_type: str, gates: int, **attributes: Any):
    """A recurrent layer of three steps and two sequences of different lengths."""
    shapes = [(3, 2, 4), (1, gates * 3, 4), (1, gates * 3, 3), (1, 2 * gates * 3)]
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    node = N(op_type, ["x", "w", "r", "b", "n"], ["y", "h"], hidden_size=3, **attributes)
    return node, *arrays, np.array([3, 1], np.int32)


def window(op_type: str, x: np.ndarray, **attributes: Any):
    """A pooling node on x."""
    return N(op_type, ["x"], ["y"], **attributes), x


def resized(x: np.ndarray, scale: float, **attributes: Any):
    """Resize of the last two axes by a scale."""
    scales = np.array([1, 1, scale, scale], np.float32)
    return N("Resize", ["x", "", "s"], ["y"], **attributes), x, scales


T: dict[str, Any] = {"strides": [2, 2], "pads": [1, 0, 0, 1], "group": 2}
WRONG_OR_REFUSED_BEFORE = {
    "LpNormalization p=1": (N("LpNormalization", ["x"], ["y"], p=1), X2),
    "ConvTranspose groups, pads": (N("ConvTranspose", ["x", "w"], ["y"], **T), X4, W),
    "ConvTranspose auto_pad": (
        N("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2], group=2),
        X4, W,
    ),
    "GlobalMaxPool rank 3": (N("GlobalMaxPool", ["x"], ["y"]), X1),
    "MaxPool 1-D one-sided pads": window("MaxPool", X1, kernel_shape=[3], pads=[0, 2]),
    "MaxPool 1-D SAME_LOWER": window("MaxPool", X1, kernel_shape=[2], auto_pad="SAME_LOWER"),
    "MaxPool 3-D VALID": window("MaxPool", X3, kernel_shape=[3, 3, 1], auto_pad="VALID"),
    "MaxPool 3-D SAME_LOWER": window("MaxPool", X3, kernel_shape=[3, 3, 1], auto_pad="SAME_LOWER"),
    "MaxPool 3-D odd": window("MaxPool", X3, kernel_shape=[2, 2, 3], pads=[1, 0, 0, 1, 0, 0]),
    "AveragePool 3-D": window("AveragePool", X3, kernel_shape=[1, 2, 2], auto_pad="SAME_UPPER"),
    "AveragePool 3-D VALID": window(
        "AveragePool", X3, kernel_shape=[1, 3, 1], auto_pad="VALID", ceil_mode=1
    ),
    "LpPool ceil_mode": window("LpPool", X2, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    "LRN rank 4": (N("LRN", ["x"], ["y"], size=3, alpha=0.5), X4),
    "Resize nearest": resized(X2, 2.6, mode="nearest", nearest_mode="ceil"),
    "Resize cubic": resized(X2, 2.6, mode="cubic"),
    "GRU lengths": recurrent("GRU", 3),
    "RNN lengths": recurrent("RNN", 1),
    "LSTM lengths": recurrent("LSTM", 4),
    "LSTM input_forget": recurrent("LSTM", 4, input_forget=1),
    "GroupNormalization": (
        N("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2),
        X4, np.arange(4, dtype=np.float32), np.ones(4, np.float32),
    ),
    "Mean that broadcasts": (N("Mean", ["c", "x"], ["y"]), np.ones((2, 1, 1), np.float32), X2),
    "Pad negative": (N("Pad", ["x", "p"], ["y"]), X1, np.array([0, 0, -2, 0, 0, 1])),
    "ReduceLogSumExp of integers": (
        N("ReduceLogSumExp", ["x", "a"], ["y"]), np.arange(6, dtype=np.int32).reshape(2, 3), [1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_OR_REFUSED_BEFORE)
def test_constants_fold_to_what_onnxruntime_computes(name: str):
    node, *arrays = WRONG_OR_REFUSED_BEFORE[name]
    arrays = [np.asarray(array) for array in arrays]
    names = [name for name in node.input if name]
    feeds = dict(zip(names, arrays, strict=True))
    expected = run(model(node, *arrays, constant=False), feeds)
    for got, wanted in zip(folded(node, *arrays), expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_clip_limits_what_activations_see(op_type: str, gates: int):
    node, *arrays = recurrent(op_type, gates, clip=0.01)
    wide, *_ = recurrent(op_type, gates)
    clipped, free = folded(node, *arrays)[0], folded(wide, *arrays)[0]
    assert not np.allclose(clipped, free)
    limit = np.tanh(0.01)
    assert np.abs(clipped).max() <= (limit if op_type == "RNN" else 3 * limit)


def quantized(x: list[float], dtype: DTypeLike) -> np.ndarray:
    """x quantised in steps of one."""
    node = N("QuantizeLinear", ["x", "s", "z"], ["q"])
    q = np.asarray(x, np.float32), np.array(1, np.float32), np.array(0, dtype)
    cast = N("Cast", ["q"], ["y"], to=onnx.TensorProto.INT32)
    proto = model(node, *q)
    proto.graph.node.append(cast)
    proto.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [len(x)])
    )
    imported = import_model(proto)
    (result,) = interpret(imported.module, imported.weights, {}).values()
    return result


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, ml_dtypes.int4, ml_dtypes.uint4])
def test_quantised_constants_saturate(dtype: DTypeLike):
    limits = ml_dtypes.iinfo(dtype)
    numbers = [np.inf, -np.inf, 1e30, -1e30, 2.5, 3.5]
    top, bottom = int(limits.max), int(limits.min)
    assert quantized(numbers, dtype).tolist() == [top, bottom, top, bottom, 2, 4]


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
def test_narrow_weights_are_dequantised_by_blocks(dtype: DTypeLike):
    x = np.arange(8).reshape(4, 2).astype(np.float32).astype(dtype)
    scale = np.array([[1, 2], [3, 4]], np.float32)
    node = N("DequantizeLinear", ["x", "s"], ["y"], axis=0, block_size=2)
    (got,) = folded(node, x, scale)
    np.testing.assert_array_equal(got, x.astype(np.float32) * np.repeat(scale, 2, 0))


def test_nan_is_true_and_float8_saturates():
    x = np.array([np.nan, 0, 1e9, -1e9], np.float32)
    (got,) = folded(N("Cast", ["x"], ["y"], to=onnx.TensorProto.BOOL), x)
    assert got.tolist() == [True, False, True, True]


def test_inputs_that_do_not_fit_name_the_node():
    node = N("Gemm", ["a", "b"], ["y"], name="first")
    with pytest.raises(ShapeError, match="first"):
        folded(node, np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))


def test_a_large_constant_is_a_view():
    from compiler.frontend.interpreter import evaluate_node

    shape = np.array([1 << 20, 1 << 20])
    (zeros,) = evaluate_node("ConstantOfShape", [shape], {})
    (wide,) = evaluate_node("Expand", [np.ones((1, 1), np.float32), shape], {})
    for array in (zeros, wide):
        assert array is not None
        assert array.strides == (0, 0)
