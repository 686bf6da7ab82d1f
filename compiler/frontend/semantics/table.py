"""Every rule: `docs/differences.md`, warnings, checks of choices and tests are made from these."""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.frontend.evaluate import dtype_name
from compiler.frontend.node import ModelNode
from compiler.frontend.semantics.activations import activation_parameters, standard_activation
from compiler.frontend.semantics.resizes import (
    cropped_same_size,
    elements_of,
    fractional_corners,
    resampled_same_axis,
    resampled_same_size,
    rounded_integers,
)
from compiler.frontend.semantics.rule import SemanticsRule
from compiler.frontend.semantics.windows import PoolAxis, Windows, pool_axes
from compiler.net.operators.pooling import WINDOW_POOLS
from compiler.net.operators.recurrence import GATES
from compiler.tensors.dtypes import FLOATS

_PACKED = ("int2", "int4", "uint2", "uint4")
"""The integers of which several share a byte."""


def _keeps_size(use: ModelNode) -> bool:
    """Whether windows are padded automatically, so that strides alone decide the size."""
    return str(use["auto_pad"]).startswith("SAME")


def _is_regular(use: ModelNode, kernel: Sequence[int]) -> bool:
    """Whether windows have a number for each axis; others are errors."""
    windows = Windows.of(use, kernel)
    pads = zip(windows.pads, windows.kernel * 2, strict=False)
    return not windows.misfit(use.shape()[2:]) and all(pad < size for pad, size in pads)


def _cropping_pool(use: ModelNode) -> bool:
    """Whether a pool that is padded automatically has other windows in onnxruntime."""
    if not _keeps_size(use) or not _is_regular(use, use.attributes["kernel_shape"]):
        return False
    axes = pool_axes(use, as_onnxruntime=True)
    # onnxruntime's fast MaxPool, which has neither dilations nor Indices, refuses negative pads
    plain = all(d == 1 for d in use.attributes.get("dilations") or ())
    fast = use.op_type == "MaxPool" and plain and sum(use.used) == 1
    refused = fast and any(min(axis.before, axis.after) < 0 for axis in axes)
    if refused or any(axis.count < 0 for axis in axes):
        return False
    return axes != pool_axes(use)


def _large_kernel(use: ModelNode) -> bool:
    if _keeps_size(use) or not _is_regular(use, use.attributes["kernel_shape"]):
        return False
    axes = pool_axes(use)
    fits = all(axis.count >= 0 for axis in axes)
    return fits and any(axis.room < 0 and not _is_cut_window(axis) for axis in axes)


def _is_cut_window(axis: PoolAxis) -> bool:
    """Whether `ceil_mode` has a window that reaches over the end, by the ONNX text too."""
    return axis.ceil and axis.room > -axis.stride


def _short_window(use: ModelNode) -> bool:
    weight = use.inputs[1]
    if not _keeps_size(use) or use.attributes.get("output_shape") or weight is None:
        return False
    kernel = list(weight.shape[2:])
    if not _is_regular(use, kernel):
        return False
    windows = Windows.of(use, kernel)
    extra = use.attributes.get("output_padding") or [0] * len(kernel)
    axes = zip(windows.spans, windows.strides, extra, strict=True)
    return any(span + more < stride for span, stride, more in axes)


def _one_pixel(use: ModelNode) -> bool:
    size = elements_of(use, 1)
    aligned = bool(use["align_corners"])
    return aligned and size is not None and 1 in size.reshape(-1)[2:]


def _unpooled_into_larger(use: ModelNode) -> bool:
    """Whether an index names another pixel in `output_shape` than in the unpadded output."""
    wanted = elements_of(use, 2)
    windows = Windows.of(use, use.attributes["kernel_shape"])
    if windows.misfit(use.shape()[2:]) or wanted is None or len(wanted) != len(use.shape()):
        return False
    own = windows.unpooled(use.shape())
    pairs = enumerate(zip(own, wanted.tolist(), strict=True))
    return any(size != other and prod(own[:axis]) > 1 for axis, (size, other) in pairs)


def _empty_axes(use: ModelNode) -> bool:
    """Whether a Squeeze names no axes, of which its input has some of one element."""
    axes = use.attributes.get("axes")
    if len(use.inputs) > 1 and use.inputs[1] is not None:
        axes = range(use.inputs[1].shape[0]) if len(use.inputs[1].shape) == 1 else None
    return axes is not None and not len(axes) and 1 in use.shape()


SLICE_TO_THE_END = (2**31 - 1, 2**63 - 1)
"""The ends that onnxruntime takes for the end of an axis in the direction of the step."""


def _ends_beyond_the_start(use: ModelNode) -> bool:
    """Whether a Slice with a negative step ends where onnxruntime takes the step's direction."""
    ends, steps = elements_of(use, 2), elements_of(use, 4)
    if ends is None or steps is None or len(ends) != len(steps) or ends.dtype.kind != "i":
        return False
    pairs = zip(ends.tolist(), steps.tolist(), strict=True)
    return any(end in SLICE_TO_THE_END and step < 0 for end, step in pairs)


def _has_other_half(use: ModelNode) -> bool:
    """Whether the bins of an inverse one-sided transform are not the half of its length."""
    inverse = use["inverse"] and use["onesided"]
    given = elements_of(use, 1)
    shape = use.shape()
    default = -2 if use["axis"] is None else use["axis"]  # an attribute before opset 20
    named = elements_of(use, 2) if use.input(2) is not None else np.array([default])
    if not inverse or given is None or named is None:
        return False
    axis = int(named[0])
    if not -len(shape) <= axis < len(shape):
        return False
    length = int(given[0])
    bins = shape[axis]
    half = length // 2 + 1
    if length < 1 or bins <= 1 or shape[-1] != 2:
        return False
    # one bin more is the conjugate of another, and all of an odd length have their conjugates
    return bins != half and (bins != half + 1 if length % 2 == 0 else bins > half)


def _one_query_before_keys(use: ModelNode) -> bool:
    """Whether a causal Attention has past keys, and more new ones than the one of its query."""
    past = use.input(4)
    if not use["is_causal"] or past is None or len(past.shape) != 4 or len(use.shape(1)) < 3:
        return False
    return past.shape[2] > 0 and use.shape(0)[-2] == 1 and use.shape(1)[-2] > 1


def _rounds_to_packed(use: ModelNode) -> bool:
    like = use.input(1)
    target = dtype_name(use.attributes["to"]) if like is None else like.dtype
    return target in _PACKED and use.data.dtype in FLOATS


def _lacks_parameters(use: ModelNode) -> bool:
    """Whether an activation function has a parameter by default that differs in onnxruntime."""
    names = [standard_activation(name) for name in use.attributes.get("activations") or ()]
    listed = [name for name in names if name is not None]
    own, other = (
        activation_parameters(listed, use.attributes, as_onnxruntime=way) for way in (False, True)
    )
    return len(listed) == len(names) and own != other


RESIZE_ALIGN_CORNERS_SCALE = SemanticsRule(
    name="resize-align-corners-scale",
    operators=("Resize",),
    when="the coordinates are `align_corners` and size times scale is a fraction",
    onnxruntime="places the last element, as PyTorch and OpenVINO do, at the last of the input",
    onnx="counts corners by the size with its fraction",
    reason="ONNX's reference, and its test resize_downsample_scales_linear_align_corners",
    attribute="coordinate_transformation_mode",
    meets=fractional_corners,
    pytorch="onnxruntime",
)

RESIZE_INTEGERS = SemanticsRule(
    name="resize-integers",
    operators=("Resize", "Upsample"),
    when="integers are interpolated linearly, or filled with a fraction",
    onnxruntime="drops the fraction",
    onnx="rounds to the nearest integer",
    reason="ONNX's reference rounds",
    attribute="mode",
    meets=rounded_integers,
    pytorch="onnx",
)

RESIZE_CROP_SAME_SIZE = SemanticsRule(
    name="resize-crop-same-size",
    operators=("Resize",),
    when="the coordinates are `tf_crop_and_resize` and an axis keeps its size",
    onnxruntime="does not crop that axis",
    onnx="resizes the region of every axis",
    reason="the ONNX text: the coordinates of tf_crop_and_resize hold for any scale",
    attribute="coordinate_transformation_mode",
    meets=cropped_same_size,
)

RESIZE_SAME_SIZE = SemanticsRule(
    name="resize-same-size",
    operators=("Resize", "Upsample"),
    when="some scale is not 1, but every axis keeps its size",
    onnxruntime="gives the input",
    onnx="resizes by the scale",
    reason="the ONNX text: coordinates are computed from the scale",
    attribute="",
    meets=resampled_same_size,
)

RESIZE_SAME_AXIS = SemanticsRule(
    name="resize-same-axis",
    operators=("Resize",),
    when="`antialias` is 1, and an axis keeps its size by a scale that is not 1, with others",
    onnxruntime="leaves that axis as it is",
    onnx="resizes it by the scale",
    reason="the ONNX text: coordinates are computed from the scale",
    attribute="antialias",
    meets=resampled_same_axis,
)

POOL_SAME_PADS = SemanticsRule(
    name="pool-same-pads",
    operators=WINDOW_POOLS,
    when="`auto_pad` is SAME_* and the kernel has dilations, or a stride is longer than it",
    onnxruntime="computes the pads from the kernel without its dilations, and crops the input where"
    " they are negative",
    onnx="computes them from the dilated kernel, and never crops",
    reason="the ONNX text: the output of SAME_* is ceil(input / stride), and pads add elements",
    attribute="auto_pad",
    meets=_cropping_pool,
    changes_shape=True,
)

POOL_LARGE_KERNEL = SemanticsRule(
    name="pool-large-kernel",
    operators=WINDOW_POOLS,
    when="the kernel is larger than the input with its pads",
    onnxruntime="gives one window, as its quotients round towards zero, or none",
    onnx="refuses the model",
    reason="by the ONNX text there is no window; onnxruntime refuses it where the operator is Conv",
    attribute="",
    meets=_large_kernel,
    refuses=True,
    changes_shape=True,
)

MAX_UNPOOL_OUTPUT_SHAPE = SemanticsRule(
    name="max-unpool-output-shape",
    operators=("MaxUnpool",),
    when="`output_shape` is larger than the output that the attributes give",
    onnxruntime="counts indices in the larger output, as MaxPool does in its input",
    onnx="counts them in the smaller one, and pads it",
    reason="ONNX's test maxunpool_export_with_output_shape; its text does not say in which",
    attribute="kernel_shape",
    meets=_unpooled_into_larger,
)

CONV_TRANSPOSE_SAME_SHORT_KERNEL = SemanticsRule(
    name="conv-transpose-same-short-kernel",
    operators=("ConvTranspose",),
    when="`auto_pad` is SAME_* and the kernel is shorter than the stride",
    onnxruntime="gives a result that ends with the last window",
    onnx="gives input times stride elements",
    reason="the ONNX text: output_shape[i] = input_shape[i] * strides[i]",
    attribute="auto_pad",
    meets=_short_window,
    changes_shape=True,
)

ATTENTION_ONE_QUERY = SemanticsRule(
    name="attention-one-causal-query",
    operators=("Attention",),
    when="`is_causal` is 1, and there are past keys, one query and several new keys",
    onnxruntime="shows the query every key",
    onnx="shows it the past keys and the first new one",
    reason="the ONNX text: a query sees as many new keys as its position",
    attribute="is_causal",
    attributes={"is_causal": 0},
    meets=_one_query_before_keys,
)

AFFINE_GRID_ONE_PIXEL = SemanticsRule(
    name="affine-grid-one-pixel",
    operators=("AffineGrid",),
    when="`align_corners` is 1 and an axis has one pixel",
    onnxruntime="puts it at 1",
    onnx="puts it at -1",
    reason="ONNX's reference; its text does not say",
    attribute="align_corners",
    meets=_one_pixel,
)

LSTM_CLIP_CELL = SemanticsRule(
    name="lstm-clip-cell",
    operators=("LSTM",),
    when="`clip` is set",
    onnxruntime="clips what the gates' activations read, and not the cell's state that h reads",
    onnx="clips what every activation reads",
    reason="the ONNX text: clip is applied to the input of activations, of which h is one",
    attribute="clip",
    meets=lambda use: "clip" in use.attributes,
)

RECURRENT_ACTIVATION_DEFAULTS = SemanticsRule(
    name="recurrent-activation-defaults",
    operators=tuple(GATES),
    when="`activations` has Affine, ScaledTanh or ThresholdedRelu, and `activation_alpha` or"
    " `activation_beta` no value for it",
    onnxruntime="takes 0",
    onnx="takes 1, and 0 for the beta of Affine",
    reason="the ONNX text: default values are the same as of corresponding ONNX operators, which"
    " opset 1 has; it gives none for ScaledTanh, where 0 would make every result 0",
    attribute="activations",
    meets=_lacks_parameters,
)

SQUEEZE_EMPTY_AXES = SemanticsRule(
    name="squeeze-empty-axes",
    operators=("Squeeze",),
    when="`axes` is empty",
    onnxruntime="removes every axis of one element",
    onnx="removes none",
    reason="the ONNX text: all are removed if `axes` is not provided",
    attribute="",
    meets=_empty_axes,
    changes_shape=True,
)

SLICE_BACKWARDS = SemanticsRule(
    name="slice-backwards-to-the-end",
    operators=("Slice",),
    when="a step is negative, and its end is the largest number of int32 or int64",
    onnxruntime="ends at the beginning of the axis",
    onnx="ends at the end of the axis, after where it starts, so that no element is left",
    reason="the ONNX text: an end beyond the axis is clamped to it, also for negative steps",
    attribute="",
    meets=_ends_beyond_the_start,
    changes_shape=True,
)

CAST_PACKED_INTEGERS = SemanticsRule(
    name="cast-packed-integers",
    operators=("Cast", "CastLike"),
    when="floats become integers of 2 or 4 bits",
    onnxruntime="rounds to the nearest integer, and halves away from zero",
    onnx="drops the fraction",
    reason="ONNX's reference; both drop it where wider integers are made",
    attribute="",
    meets=_rounds_to_packed,
)

DFT_HALF_SPECTRUM = SemanticsRule(
    name="dft-half-spectrum",
    operators=("DFT",),
    when="`inverse` and `onesided` are 1, and there are more bins than half of `dft_length` has, or"
    " fewer of an even one",
    onnxruntime="reads bins beyond the half, too, and writes conjugates over them; the last of"
    " fewer bins has none",
    onnx="takes the half, filled with zeros where bins are missing, and mirrors it",
    reason="the ONNX text: a one-sided transform has the first floor(n/2) + 1 bins; its reference",
    attribute="onesided",
    meets=_has_other_half,
)

FUNCTION_NAMED_AS_OPERATOR = SemanticsRule(
    name="function-named-as-operator",
    operators=(),
    when="a function of the model has the domain and the name of an operator of its opset",
    onnxruntime="computes the operator",
    onnx="calls the function",
    reason="onnx.proto leaves it to runtimes which of both has priority; the function is the"
    " model's own",
    attribute="",
    meets=lambda use: False,  # not by nodes themselves: with_chosen_functions
)

FUNCTION_OPSET = SemanticsRule(
    name="function-opset",
    operators=(),
    when="a function of the model imports an opset in which one of its operators has other"
    " attributes, defaults or inputs than in the model's opset, or another meaning",
    onnxruntime="computes the operator by the model's opset",
    onnx="computes it by the function's",
    reason="onnx.proto asks for the same schema by both, and does not say what others mean; the"
    " function was written with its own opset",
    attribute="",
    meets=lambda use: False,  # not by nodes themselves: with_chosen_functions
)

SEMANTICS_RULES = (
    RESIZE_ALIGN_CORNERS_SCALE,
    RESIZE_INTEGERS,
    RESIZE_CROP_SAME_SIZE,
    RESIZE_SAME_SIZE,
    RESIZE_SAME_AXIS,
    POOL_SAME_PADS,
    POOL_LARGE_KERNEL,
    MAX_UNPOOL_OUTPUT_SHAPE,
    CONV_TRANSPOSE_SAME_SHORT_KERNEL,
    ATTENTION_ONE_QUERY,
    AFFINE_GRID_ONE_PIXEL,
    LSTM_CLIP_CELL,
    RECURRENT_ACTIVATION_DEFAULTS,
    SQUEEZE_EMPTY_AXES,
    SLICE_BACKWARDS,
    CAST_PACKED_INTEGERS,
    DFT_HALF_SPECTRUM,
    FUNCTION_NAMED_AS_OPERATOR,
    FUNCTION_OPSET,
)
"""All rules, in the order of the page."""
