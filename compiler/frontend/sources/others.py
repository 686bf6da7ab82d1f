"""Old forms of normalisations, and operators that depend on an axis alone."""

from fractions import Fraction
from math import isfinite

import numpy as np

from compiler.frontend.node import ModelNode, checks
from compiler.frontend.semantics.windows import Windows
from compiler.net.attributes import Mismatch
from compiler.net.node import ShapeMismatch
from compiler.net.operators.normalization import check_groups
from compiler.net.operators.shapes import has_rank, has_shape, listed, one_number
from compiler.net.spec import LARGEST_TENSOR
from compiler.tensors.substitution import holds_extents


@checks("Attention")
def _attention(node: ModelNode) -> None:
    """By the ONNX text Q and K are both multiplied by the root of the scale, against overflow.

    Q, K and V all have heads as an axis, or none of them has. Attributes may repeat their number.
    There is a value for each key, in the past as well.
    """
    ranks = [len(node.shape(index)) for index in range(3)]
    if len({*ranks}) > 1:
        raise ShapeMismatch(f"its Q, K and V have {listed(ranks)} axes, not one number of them")
    for key, value in ((1, 2), (4, 5)):
        keys, values = node.shape(key), node.shape(value)
        if keys[-2:-1] != values[-2:-1]:
            raise ShapeMismatch(
                f"its keys {listed(keys)} and values {listed(values)} differ in number"
            )
    for name, index in (("q_num_heads", 0), ("kv_num_heads", 1)):
        count = node[name]
        if ranks[0] == 4 and count is not None and count != node.shape(index)[1]:
            raise ShapeMismatch(
                f"its {name} is {count}, its input {'QK'[index]} {listed(node.shape(index))} has"
                f" {node.shape(index)[1]} heads"
            )
    scale = node["scale"]
    if scale is not None and scale < 0:
        raise Mismatch(f"its scale is {scale}, of which Q and K are multiplied by the root")


@checks("TensorScatter")
def _tensor_scatter(node: ModelNode) -> None:
    axis = node.axis()
    size = node.shape()[axis]
    count = node.shape(1)[axis]
    if count > size:
        raise ShapeMismatch(
            f"its update {listed(node.shape(1))} has {count} positions, its cache"
            f" {listed(node.shape())} has {size}"
        )


@checks("Mod")
def _mod(node: ModelNode) -> None:
    """Floats have no floored remainder before opset 28."""
    value = node.inputs[0]
    if value is None or node.version >= 28 or node["fmod"]:
        return
    if "float" in value.dtype:
        raise Mismatch(f"its inputs are {value.dtype}, which needs fmod=1 before opset 28")


@checks("Hardmax")
def _hardmax(node: ModelNode) -> None:
    node.axis()


@checks("EyeLike")
def _eye_like(node: ModelNode) -> None:
    has_rank("its input", node.shape(), 2, 2)


@checks("Range")
def _range(node: ModelNode) -> None:
    for i, name in enumerate(("start", "limit", "delta")):
        one_number(f"its {name}", node.shape(i))
    known = [operand for operand in node.inputs if operand and operand.array is not None]
    if len(known) == 3 and not any(holds_extents(operand.array) for operand in known):
        numbers = (float(np.reshape(np.asarray(operand.array), ())) for operand in known)
        _check_steps(*numbers)


def _check_steps(start: float, limit: float, delta: float) -> None:
    """Raise Mismatch unless a Range has as many numbers as a tensor can have."""
    counts = f"it counts from {start:g} to {limit:g} in steps of {delta:g}"
    if delta == 0 or not all(map(isfinite, (start, limit, delta))):
        raise Mismatch(counts)
    if (Fraction(limit) - Fraction(start)) / Fraction(delta) > LARGEST_TENSOR:
        raise ShapeMismatch(f"{counts}: kernels index at most {LARGEST_TENSOR} elements")


@checks("MeanVarianceNormalization")
def _mean_variance(node: ModelNode) -> None:
    if node.attributes.get("axes") == []:
        raise Mismatch("its axes are none")


@checks("GroupNormalization")
def _group_normalization(node: ModelNode) -> None:
    """Scale and bias had one number a group before opset 21."""
    if node.version >= 21:
        return
    x = node.shape()
    groups = node.attributes["num_groups"]
    check_groups(groups, x)
    for i, name in ((1, "scale"), (2, "bias")):
        what = f"one number for each of {groups} groups of the input of shape {listed(x)}"
        has_shape(f"its {name}", node.shape(i), (groups,), what)


@checks("BatchNormalization")
def _batch_normalization(node: ModelNode) -> None:
    """Old forms may have a statistic for each activation."""
    x = node.shape()
    has_rank("its input", x, 1)
    one = x[1:2] or (1,)
    wanted = one if node["spatial"] else x[1:]
    for i, name in enumerate(("scale", "bias", "mean", "variance"), 1):
        has_shape(f"its {name}", node.shape(i), wanted, f"the input has the shape {listed(x)}")


@checks("ConvTranspose")
def _conv_transpose(node: ModelNode) -> None:
    """Lists that the node has fit the spatial axes, the weight and the strides."""
    x = node.shape()
    rank = len(node.shape()) - 2
    lengths = {"strides": (rank,), "dilations": (rank,), "pads": (2 * rank,)}
    lengths |= {"kernel_shape": (rank,), "output_padding": (rank,), "output_shape": (rank, len(x))}
    for name, allowed in lengths.items():
        values = node.attributes.get(name)
        if values is not None and len(values) not in allowed:
            raise ShapeMismatch(
                f"its {name} {listed(values)} are {len(values)} numbers instead of {allowed[0]},"
                f" for the input of shape {listed(x)}"
            )
    sizes = node.attributes.get("kernel_shape")
    if sizes is not None and tuple(sizes) != node.shape(1)[2:]:
        raise ShapeMismatch(
            f"its kernel_shape is {listed(sizes)}, its weight has the shape {listed(node.shape(1))}"
        )
    windows = Windows.of(node, node.shape(1)[2:])
    padding = node["output_padding"] or [0] * rank
    steps = zip(padding, windows.strides, windows.dilations, strict=False)
    # ONNX's text; onnxruntime and PyTorch refuse more, which no convolution has as its gradient
    if any(more >= max(stride, dilation) for more, stride, dilation in steps):
        raise ShapeMismatch(
            f"its output_padding {listed(padding)} is not less than its strides"
            f" {listed(windows.strides)} or dilations {listed(windows.dilations)}"
        )
    target = node["output_shape"]
    if not target or node["auto_pad"].startswith("SAME"):
        return
    # An excess that no sum reaches is padding of the output, which has the same bound.
    spatial = zip(
        x[2:], target[-rank:], windows.strides, windows.dilations, windows.spans, strict=True
    )
    for size, wanted, stride, dilation, span in spatial:
        if wanted - (stride * (size - 1) + span) >= max(stride, dilation):
            raise ShapeMismatch(
                f"its output_shape {listed(target)} is larger by a stride or more than what its"
                f" kernel {listed(node.shape(1)[2:])} makes of the input of shape {listed(x)}"
            )


def _scalar(node: ModelNode, index: int, name: str) -> None:
    value = node.input(index)
    if value is not None and value.shape != ():
        raise ShapeMismatch(f"its {name} has the shape {listed(value.shape)}, it is a scalar")
    if value is not None and value.array is not None and name != "axis" and value.array < 1:
        raise Mismatch(f"its {name} is {int(np.asarray(value.array))}, it is at least 1")


@checks("DFT")
def _transform(node: ModelNode) -> None:
    has_rank("its input", node.shape(), 2)
    _scalar(node, 1, "dft_length")
    _scalar(node, 2, "axis")


@checks("STFT")
def _short_time_transform(node: ModelNode) -> None:
    signal = node.shape()
    if len(signal) != 3 or signal[2] not in (1, 2):
        raise ShapeMismatch(f"its signal {listed(signal)} is not [batch, length, 1 or 2]")
    _scalar(node, 1, "frame_step")
    _scalar(node, 3, "frame_length")
