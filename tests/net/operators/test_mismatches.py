"""Invalid uses of operators: each message says what does not fit."""

from typing import Any

import numpy as np
import pytest

from compiler.frontend.node import ModelNode
from compiler.frontend.sources import check_source, check_source_attributes
from compiler.net.graph import Inputs, Value, constant
from compiler.net.operators import LARGEST_TENSOR, Mismatch, ShapeMismatch
from compiler.net.operators.canonical import infer_onnx as infer


def x(*shape: int, dtype: str = "float32") -> Value:
    """A tensor computed at run time."""
    return Value("", dtype, shape)


def known(*values: int) -> Value:
    """A constant vector of int64."""
    return constant("", np.array(values, np.int64))


def scalar(value: int) -> Value:
    """A constant scalar of int64."""
    return constant("", np.array(value, np.int64))


def matrix(value: int) -> Value:
    """A constant of int64 with two dimensions and one element."""
    return constant("", np.array([[value]], np.int64))


def _resetting(cell: str, functions: int) -> dict[str, Any]:
    """The attributes of a Recurrence whose cell resets its state first, as a GRU's may."""
    activations = {"activations": ["Tanh"] * functions}
    activations |= {f"activation_{name}": [0.0] * functions for name in ("alpha", "beta")}
    return {"cell": cell, "direction": "forward", "linear_before_reset": 0, **activations}


SHAPES: list[tuple[str, Inputs, dict[str, Any], str]] = [
    ("Conv", [x(1, 2, 8), x(4, 2, 3), x(3)], {}, r"bias.*\[3\].*\[4\].*\[4, 2, 3\]"),
    ("Conv", [x(1, 2, 8), x(3, 1, 3)], {"group": 2}, r"3 output channels.*2 groups"),
    ("Conv", [x(1, 2, 8, 8), x(4, 2, 3)], {}, r"\[4, 2, 3\], 3 dimensions instead of 4"),
    ("Conv", [x(1, 2, 8), x(4, 2, 3)], {"strides": [1, 1]}, r"strides \[1, 1\]"),
    ("Conv", [x(1, 2, 8), x(4, 2, 3)], {"dilations": [4]}, r"9 elements of axis 2.*has 8"),
    ("ConvTranspose", [x(1, 2, 2), x(2, 1, 1)], {"pads": [1, 1]}, r"would be \[0\]"),
    ("MatMul", [x(2, 3), x(4, 5)], {}, r"\[2, 3\] and \[4, 5\].*3 columns, 4 rows"),
    ("Gather", [x(), x(1, dtype="int64")], {}, r"has the shape \[\]"),
    ("GatherND", [x(2, 3), x(2, 3, dtype="int64")], {}, r"\[2, 3\].*1 to 2"),
    ("OneHot", [x(3, dtype="int64"), known(4), x(3)], {}, r"values.*\[3\].*\[2\]"),
    ("ReverseSequence", [x(4, 2), x(3, dtype="int64")], {}, r"\[3\] instead of \[2\]"),
    ("Pad", [x(2, 3), known(1, 1)], {}, r"2 numbers instead of 4.*\[2, 3\]"),
    ("Pad", [x(5), known(-2, 3)], {"mode": "reflect"}, r"3 elements.*\[5\], which has 2"),
    ("Pad", [x(5), known(-5, 1)], {"mode": "wrap"}, r"\[5\], which has none"),
    ("Pad", [x(2), known(-2, -1)], {}, r"-2 and -1 take more than.*\[2\]"),
    ("Unsqueeze", [x(2), known(5)], {}, r"axis 5 is outside a tensor of 2"),
    ("Resize", [x(2, 3), None, None, known(4)], {}, r"sizes \[4\].*\[2, 3\]"),
    ("Einsum", [x(5, 1)], {"equation": "ii->i"}, r"a diagonal.*\[5, 1\].*axes of 5 and 1"),
    ("Where", [x(2, dtype="bool"), x(3), x(1)], {}, r"\[2\] and \[3\] and \[1\]"),
    ("ArgMax", [x(0, 2)], {"axis": 0}, r"axis 0 of the input of shape \[0, 2\] has no elements"),
    ("Relu", [x(LARGEST_TENSOR + 1)], {}, f"{LARGEST_TENSOR + 1} elements"),
    ("ReduceSum", [x(2, 3), scalar(0)], {}, r"shape \[\], it must be a vector"),
    ("TopK", [x(2, 3), scalar(1)], {}, r"shape \[\], it must be a vector"),
    ("TopK", [x(2, 3), known(1, 1)], {}, r"K has the shape \[2\] instead of \[1\]"),
    ("Slice", [x(4), scalar(0), scalar(1)], {}, r"shape \[\], it must be a vector"),
    ("CumSum", [x(4), matrix(0)], {}, r"shape \[1, 1\], it is one number"),
    ("Clip", [x(2), x(1, 1)], {}, r"bound 'min' has the shape \[1, 1\] instead of \[\]"),
    ("MaxPool", [x(1, 1, 4)], {"kernel_shape": [1], "pads": [1, 0]}, r"pads \[1, 0\]"),
    ("MaxPool", [x(1, 1, 4)], {"kernel_shape": [1], "dilations": []}, r"dilations \[\]"),
    ("MaxPool", [x(1, 1, 2)], {"kernel_shape": [7], "strides": [2], "ceil_mode": 1}, "7 elements"),
    ("Expand", [x(1), known(1 << 20, 1 << 20)], {}, r"\[1048576, 1048576\]"),
    ("Tile", [x(1 << 16), known(1 << 16)], {}, r"\[4294967296\]"),
]
OTHERS: list[tuple[str, Inputs, dict[str, Any], str]] = [
    ("Nonsense", [x()], {}, "no operator 'Nonsense'"),
    ("Relu", [x(), x()], {}, "2 inputs instead of 1"),
    ("Relu", [None], {}, "input 0 is left out"),
    ("Relu", [x()], {"alpha": 1.0}, "no attribute 'alpha'"),
    ("Elu", [x()], {"alpha": "one"}, "'alpha' is 'one', which is not a number"),
    ("Concat", [x(1)], {}, "'axis' is missing"),
    ("Add", [x(), x(dtype="int32")], {}, "input 1 is int32, another is float32"),
    ("Add", [x(dtype="bool"), x(dtype="bool")], {}, "input 0 is bool"),
    ("Conv", [x(1, 2, 8), x(4, 2, 3)], {"strides": [0]}, r"'strides' is \[0\]; it must be 1"),
    ("Reshape", [x(4), x(2, dtype="int64")], {}, "input 1 must be a constant"),
    ("Reshape", [x(4), known(-2, -2)], {}, r"\[-2, -2\]"),
    ("Slice", [x(4), known(0), known(2), known(0), known(0)], {}, r"steps \[0\] have a 0"),
    ("Einsum", [x(2)], {"equation": "i,j->ij"}, "for 2 inputs, it has 1"),
    ("Einsum", [x(2)], {"equation": "i->k"}, "'k' of its equation"),
    ("Cast", [x()], {"to": 8}, "element type 8"),
    ("Resize", [x(2), None, None, None], {}, "both or neither"),
    *[
        ("Recurrence", [x(1, 1, rows), x(1, rows, 1)], own, f"is 0, but a {own['cell']} has no")
        for rows, own in ((1, _resetting("RNN", 1)), (4, _resetting("LSTM", 3)))
    ],
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "match"), SHAPES)
def test_shapes_that_do_not_fit(
    op_type: str, inputs: Inputs, attributes: dict[str, Any], match: str
):
    with pytest.raises(ShapeMismatch, match=match):
        infer(op_type, inputs, attributes)


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "match"), OTHERS)
def test_other_things_that_do_not_fit(
    op_type: str, inputs: Inputs, attributes: dict[str, Any], match: str
):
    with pytest.raises(Mismatch, match=match) as caught:
        infer(op_type, inputs, attributes)
    assert not isinstance(caught.value, ShapeMismatch)


@pytest.mark.parametrize("size", [0, 1])
def test_empty_tensors_and_scalars_stay_valid(size: int):
    assert infer("Relu", [x(size, 3)], {})[0].shape == (size, 3)
    assert infer("Concat", [x(size, 3), x(0, 3)], {"axis": 0})[0].shape == (size, 3)
    assert infer("MatMul", [x(2, size), x(size, 3)], {})[0].shape == (2, 3)
    assert infer("Reshape", [x(size, 0), known(0, 5)], {"allowzero": 1})[0].shape == (0, 5)
    assert infer("ReduceSum", [x()], {"keepdims": 0})[0].shape == ()
    assert infer("Softmax", [x()], {})[0].shape == ()


def test_resize_multiplies_as_onnxruntime_does():
    scales = constant("", np.array([2.3], np.float32))
    assert infer("Resize", [x(10), None, scales], {})[0].shape == (23,)


QUANTISED: Inputs = [x(2, 3), x(), x(), x(3, 4), x(), x(), x(4), x()]

OLD: list[tuple[str, int, Inputs, dict[str, Any], str]] = [
    ("Squeeze", 1, [x(2, 3)], {"axes": [0]}, r"dimension 0.*\[2, 3\]"),
    ("Slice", 1, [x(4)], {"starts": [0, 1], "ends": [2, 3], "axes": [0, 0]}, "repeat one"),
    ("Split", 2, [x(5)], {}, r"\[5\] into 2 parts of \[3, 3\]"),
    ("Pad", 2, [x(2)], {"pads": [1]}, "1 numbers instead of 2"),
    ("TopK", 1, [x(3)], {"k": 4}, "first 4 of axis 0"),
    ("Upsample", 7, [x(2, 2)], {"scales": [2.0]}, r"scales \[2.0\]"),
    ("Sum", 8, [x(2), x(3)], {}, r"\[2\] and \[3\]"),
    ("LSTM", 14, [x(3, 2, 4), x(1, 8, 4), x(1, 8, 2), x(1, 9)], {}, r"bias B.*\[1, 9\].*\[1, 16\]"),
    ("GRU", 14, [x(3, 2, 4), x(1, 6, 4), x(1, 6, 2)], {"activations": ["Tanh"]}, "instead of 2"),
    (
        "RNN",
        14,
        [x(3, 1, 4), x(1, 2, 4), x(1, 2, 2), None, known(4)],
        {},
        r"index 4.*\[0, 3\]",
    ),
    ("QuantizeLinear", 13, [x(2, 3), x(2)], {}, r"scale.*\[2\] instead of \[3\]"),
    ("MatMulInteger", 10, [x(2, 3), x(4, 5)], {}, "3 columns, 4 rows"),
    ("ConvInteger", 10, [x(1, 2, 5), x(1, 3, 3)], {}, "3 input channels in each of 1 groups"),
    ("ConvTranspose", 11, [x(1, 2, 3), x(2, 1, 3)], {"output_shape": [7]}, "larger by a stride"),
    ("Hardmax", 13, [x(2)], {"axis": 2}, "axis 2 is outside"),
    ("EyeLike", 9, [x(2)], {}, "1 dimensions"),
    ("Attention", 23, [x(1, 2, 3, 4)] * 3, {"q_num_heads": 1}, "q_num_heads is 1, its input Q"),
    ("Attention", 23, [x(1, 2, 3, 4)] * 3, {"kv_num_heads": 3}, r"\[1, 2, 3, 4\] has 2 heads"),
    ("TensorScatter", 24, [x(2, 3, 4), x(2, 5, 4)], {}, r"5 positions, its cache \[2, 3, 4\]"),
    ("Mod", 13, [x(2), x(2)], {"fmod": 0}, "float32, which needs fmod=1"),
    ("Range", 11, [scalar(0), matrix(5), scalar(1)], {}, r"limit has the shape \[1, 1\]"),
    (
        "Range",
        11,
        [scalar(0), scalar(2**40), scalar(1)],
        {},
        "in steps of 1: kernels index at most",
    ),
    ("Range", 11, [scalar(0), scalar(5), scalar(0)], {}, "from 0 to 5 in steps of 0"),
    ("MeanVarianceNormalization", 13, [x(2, 3, 4, 5)], {"axes": []}, "axes are none"),
    ("DequantizeLinear", 21, [x(4), x()], {"block_size": 2}, r"block_size is 2.*\[\]"),
    ("ConvInteger", 10, [x(1, 2, 5), x(1, 2, 3), x(1, 1)], {}, r"\[1, 1\] instead of \[\]"),
    ("QLinearMatMul", 10, QUANTISED, {}, r"scale of the result.*\[4\] instead of \[\]"),
]


@pytest.mark.parametrize(("op_type", "version", "inputs", "attributes", "match"), OLD)
def test_nodes_of_other_forms(
    op_type: str, version: int, inputs: Inputs, attributes: dict[str, Any], match: str
):
    outputs = 2 if op_type in ("Split", "TopK") else 1
    with pytest.raises(Mismatch, match=match):
        check_source(ModelNode(op_type, version, list(inputs), attributes, [True] * outputs))


FLAGS = [
    ("ReduceSum", "keepdims"),
    ("ReduceSum", "noop_with_empty_axes"),
    ("ArgMax", "select_last_index"),
    ("CumSum", "exclusive"),
    ("CumSum", "reverse"),
    ("Mod", "fmod"),
    ("TopK", "sorted"),
    ("TopK", "largest"),
    ("MaxPool", "ceil_mode"),
    ("AveragePool", "count_include_pad"),
    ("BatchNormalization", "training_mode"),
    ("BatchNormalization", "spatial"),
    ("Gemm", "transA"),
    ("Reshape", "allowzero"),
    ("Resize", "antialias"),
    ("CastLike", "saturate"),
    ("ConcatFromSequence", "new_axis"),
    ("LSTM", "input_forget"),
]


@pytest.mark.parametrize(("op_type", "name"), FLAGS)
@pytest.mark.parametrize("value", [-1, 2, 5, 1 << 31])
def test_flags_are_0_or_1(op_type: str, name: str, value: int):
    for valid in (0, 1):
        check_source_attributes(ModelNode(op_type, 13, [], {name: valid}, [True]))
    with pytest.raises(Mismatch, match=f"'{name}' is {value}; it can be 0, 1"):
        check_source_attributes(ModelNode(op_type, 13, [], {name: value}, [True]))


VALUES: list[tuple[str, str, Any]] = [
    ("Cast", "round_mode", "linear"),
    ("CastLike", "round_mode", "magic"),
    ("EyeLike", "dtype", -(1 << 62)),
    ("QuantizeLinear", "precision", 100),
    ("GRU", "clip", -1.0),
    ("GroupNormalization", "stash_type", 5),
    ("SequenceEmpty", "dtype", 77),
    ("Attention", "qk_matmul_output_mode", 4),
    ("Attention", "softmax_precision", 2),
    ("Attention", "kv_num_heads", 0),
]


@pytest.mark.parametrize(("op_type", "name", "value"), VALUES)
def test_other_values_that_no_attribute_has(op_type: str, name: str, value: Any):
    with pytest.raises(Mismatch, match=f"'{name}' is {value!r}"):
        check_source_attributes(ModelNode(op_type, 13, [], {name: value}, [True]))


@pytest.mark.parametrize("op_type", ["Conv", "ConvInteger", "ConvTranspose", "QLinearConv"])
def test_pads_are_given_in_one_way(op_type: str):
    def check(attributes: dict[str, Any]) -> None:
        check_source_attributes(ModelNode(op_type, 11, [], attributes, [True]))

    check({"auto_pad": "NOTSET", "pads": [1, 1]})
    check({"auto_pad": "VALID"})
    with pytest.raises(Mismatch, match="both auto_pad and pads"):
        check({"auto_pad": "VALID", "pads": [1, 1]})


def ceiled(size: int, stride: int, kernel: int) -> tuple[int, ...]:
    """The shape of a pooling with ceil_mode."""
    attributes = {"kernel_shape": [kernel], "strides": [stride], "ceil_mode": 1}
    return infer("MaxPool", [x(1, 1, size)], attributes, 2)[0].shape


@pytest.mark.parametrize("sizes", [(6, 2, 7), (1, 4, 2)])
def test_a_window_of_ceil_mode_reaches_past_its_image(sizes: tuple[int, int, int]):
    assert ceiled(*sizes) == (1, 1, 1)


@pytest.mark.parametrize("sizes", [(5, 2, 7), (6, 2, 8), (4, 4, 9)])
def test_a_window_of_ceil_mode_begins_in_its_image(sizes: tuple[int, int, int]):
    with pytest.raises(ShapeMismatch, match="its kernel reaches over"):
        ceiled(*sizes)


def test_a_number_that_is_none_is_refused():
    with pytest.raises(Mismatch, match="'alpha' is NaN"):
        infer("Celu", [x(2)], {"alpha": float("nan")})
