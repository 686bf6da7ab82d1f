"""Every rule: `docs/differences.md`, warnings, checks of choices and tests are made from these."""

from collections.abc import Sequence
from math import floor

import numpy as np

from compiler.frontend.semantics.rule import NodeUse, SemanticsRule
from compiler.frontend.semantics.windows import PoolAxis, effective, pool_axes

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_WHOLE = ("int32", "int8", "uint8")
"""The integers that onnxruntime interpolates."""


def _is_regular(use: NodeUse, kernel: Sequence[int]) -> bool:
    """Whether windows have a number for each axis; others are errors."""
    rank = len(use.shape) - 2
    lists = [use.attributes.get(name) or kernel for name in ("strides", "dilations")]
    pads = use.attributes.get("pads") or [0] * (2 * rank)
    small = all(pad < size for pad, size in zip(pads, [*kernel, *kernel], strict=False))
    return small and len(pads) == 2 * rank and all(len(x) == rank for x in (kernel, *lists))


def _pool_fits(use: NodeUse) -> bool:
    """Whether onnxruntime has a number of windows of a pool that is padded automatically."""
    if not _is_regular(use, use.attributes["kernel_shape"]):
        return False
    axes = pool_axes(use.shape[2:], use.attributes, undilated=True, crops=True)
    return use.keeps_size and all(axis.count >= 0 for axis in axes)


def _dilated_pool(use: NodeUse) -> bool:
    if not _pool_fits(use):
        return False
    image, attributes = use.shape[2:], use.attributes
    return pool_axes(image, attributes, undilated=True) != pool_axes(image, attributes)


def _skipping_pool(use: NodeUse) -> bool:
    if not _pool_fits(use):
        return False
    image, attributes = use.shape[2:], use.attributes
    # onnxruntime refuses negative pads of a MaxPool without dilations
    if use.op_type == "MaxPool" and all(d == 1 for d in attributes.get("dilations") or [1]):
        return False
    axes = pool_axes(image, attributes, undilated=True, crops=True)
    return any(axis.before + axis.after < 0 for axis in axes)


def _large_kernel(use: NodeUse) -> bool:
    if use.keeps_size or not _is_regular(use, use.attributes["kernel_shape"]):
        return False
    axes = pool_axes(use.shape[2:], use.attributes)
    fits = all(axis.count >= 0 for axis in axes)
    return fits and any(axis.room < 0 and not _is_cut_window(axis) for axis in axes)


def _is_cut_window(axis: PoolAxis) -> bool:
    """Whether `ceil_mode` has a window that reaches over the end, by the ONNX text too."""
    return axis.ceil and axis.room > -axis.stride


def _short_window(use: NodeUse) -> bool:
    weight = use.inputs[1]
    if not use.keeps_size or use.attributes.get("output_shape") or weight is None:
        return False
    kernel = list(weight.shape[2:])
    if not _is_regular(use, kernel):
        return False
    ones, nothing = [1] * len(kernel), [0] * len(kernel)
    strides, steps = (list(use.attributes.get(n) or ones) for n in ("strides", "dilations"))
    extra = list(use.attributes.get("output_padding") or nothing)
    axes = zip(effective(kernel, steps), strides, extra, strict=True)
    return any(span + more < stride for span, stride, more in axes)


def _fractional_corners(use: NodeUse) -> bool:
    """Whether coordinates count from the corners of a size by scales that is no whole number."""
    attributes, scales = use.attributes, use.known(2)
    aligned = attributes.get("coordinate_transformation_mode") == "align_corners"
    if scales is None or not aligned or not _interpolates(use):
        return False
    axes = attributes.get("axes") or range(len(use.shape))
    sizes = [np.float32(use.shape[a]) * np.float32(s) for a, s in zip(axes, scales, strict=True)]
    return any(size != floor(size) for size in sizes)


def _interpolates(use: NodeUse) -> bool:
    return use.attributes.get("mode", "nearest") in ("linear", "bilinear", "cubic")


def _interpolated_integers(use: NodeUse) -> bool:
    # antialiased ones are sums in fixed point, which is another kind of rounding
    linear = use.attributes.get("mode", "nearest") in ("linear", "bilinear")
    return linear and not use.attributes.get("antialias", 0) and use.dtype in _WHOLE


def _one_pixel(use: NodeUse) -> bool:
    size = use.known(1)
    aligned = bool(use.attributes.get("align_corners", 0))
    return aligned and size is not None and 1 in size.reshape(-1)[2:]


RESIZE_ALIGN_CORNERS_SCALE = SemanticsRule(
    name="resize-align-corners-scale",
    operators=("Resize",),
    when="the coordinates are `align_corners` and scales give no whole size",
    onnxruntime="(as PyTorch and OpenVINO) places the last element at the last of the input",
    onnx="counts corners by the size with its fraction",
    reason="ONNX's reference, and its test resize_downsample_scales_linear_align_corners",
    meets=_fractional_corners,
)

RESIZE_INTEGERS = SemanticsRule(
    name="resize-integers",
    operators=("Resize", "Upsample"),
    when="integers are interpolated linearly",
    onnxruntime="cuts off what follows the point",
    onnx="rounds to the nearest integer",
    reason="ONNX's reference rounds",
    meets=_interpolated_integers,
)

POOL_SAME_DILATIONS = SemanticsRule(
    name="pool-same-dilations",
    operators=_POOLS,
    when="`auto_pad` is SAME_* and the kernel has dilations",
    onnxruntime="computes the pads from the kernel without its dilations",
    onnx="computes them from the dilated kernel",
    reason="the ONNX text: the output of SAME_* is ceil(input / stride)",
    meets=_dilated_pool,
    changes_shape=True,
)

POOL_SAME_STRIDES = SemanticsRule(
    name="pool-same-strides",
    operators=_POOLS,
    when="`auto_pad` is SAME_* and windows skip elements, as a stride is longer than the kernel",
    onnxruntime="crops the input by negative pads",
    onnx="pads by nothing",
    reason="the ONNX text: pads add elements, and Conv does so in onnxruntime too",
    meets=_skipping_pool,
    changes_shape=True,
)

POOL_LARGE_KERNEL = SemanticsRule(
    name="pool-large-kernel",
    operators=_POOLS,
    when="the kernel is larger than the input with its pads",
    onnxruntime="gives one window, as its quotients round towards zero, or none",
    onnx="refuses the model",
    reason="by the ONNX text there is no window; onnxruntime refuses it where the operator is"
    " Conv",
    meets=_large_kernel,
    refuses=True,
    changes_shape=True,
)

CONV_TRANSPOSE_SAME_SHORT_KERNEL = SemanticsRule(
    name="conv-transpose-same-short-kernel",
    operators=("ConvTranspose",),
    when="`auto_pad` is SAME_* and the kernel is shorter than the stride",
    onnxruntime="gives a result that ends with the last window",
    onnx="gives input times stride elements",
    reason="the ONNX text: output_shape[i] = input_shape[i] * strides[i]",
    meets=_short_window,
    changes_shape=True,
)

AFFINE_GRID_ONE_PIXEL = SemanticsRule(
    name="affine-grid-one-pixel",
    operators=("AffineGrid",),
    when="`align_corners` is 1 and an axis has one pixel",
    onnxruntime="puts it at 1",
    onnx="puts it at -1",
    reason="ONNX's reference; its text does not say",
    meets=_one_pixel,
)

LSTM_CLIP_CELL = SemanticsRule(
    name="lstm-clip-cell",
    operators=("LSTM",),
    when="`clip` is set",
    onnxruntime="clips what the gates' activations read, and not the cell's state that h reads",
    onnx="clips what every activation reads",
    reason="the ONNX text: clip is applied to the input of activations, of which h is one",
    meets=lambda use: "clip" in use.attributes,
)

RULES = (
    RESIZE_ALIGN_CORNERS_SCALE,
    RESIZE_INTEGERS,
    POOL_SAME_DILATIONS,
    POOL_SAME_STRIDES,
    POOL_LARGE_KERNEL,
    CONV_TRANSPOSE_SAME_SHORT_KERNEL,
    AFFINE_GRID_ONE_PIXEL,
    LSTM_CLIP_CELL,
)
"""All rules, in the order of the page."""
