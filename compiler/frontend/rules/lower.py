"""Rules that decompose operators into simpler ones of the table."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod, trunc

import numpy as np

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.dead_taps import crop_dead_taps
from compiler.frontend.rules.onnxruntime_resize import (
    aligned_antialiased,
    interpolated_integers,
)
from compiler.frontend.rules.types import in_float32, in_type
from compiler.frontend.semantics.table import (
    CONV_TRANSPOSE_SAME_SHORT_KERNEL,
    RESIZE_ALIGN_CORNERS_SCALE,
    RESIZE_CROP_SAME_SIZE,
    RESIZE_INTEGERS,
    RESIZE_SAME_AXIS,
    RESIZE_SAME_SIZE,
)
from compiler.frontend.semantics.windows import Windows, divided_pads
from compiler.frontend.sources.forms import resize_form
from compiler.frontend.unsupported import NeedsHost, Unsupported
from compiler.net.attributes import Shape
from compiler.net.building.builder import is_known
from compiler.net.graph import Attributes, Value
from compiler.net.node import Node
from compiler.net.operators.resize import scaled_size
from compiler.tensors.dtypes import element_type, numpy_dtype


def _chain(call: Call, op_type: str, operands: Sequence[Value]) -> Value:
    result, *others = operands
    for value in others:
        result = call.one(op_type, result, value)
    return result


@rule("Max", "Min")
def rewrite_extremum(call: Call) -> list[Value]:
    """A chain of two-operand operators."""
    return [_chain(call, call.op_type, call.operands)]


@rule("Sum", "Mean")
def rewrite_sum(call: Call) -> list[Value]:
    """A chain of additions, of which a Mean is divided by their number.

    Floats of 16 bits are rounded once, at the end: the sum of 60000, 60000 and -60000 is a float16,
    the first two have none.
    """
    operands = call.operands
    if call.op_type == "Sum" and len(operands) < 3:
        return [_chain(call, "Add", operands)]
    result = _chain(call, "Add", [in_float32(call, value) for value in operands])
    if call.op_type == "Mean":
        count = call.builder.constant(1 / len(operands), result.dtype)
        result = call.one("Mul", result, count)
    return [in_type(call, result, call.data.dtype)]


@rule("BatchNormalization")
def rewrite_batch_normalization(call: Call) -> list[Value]:
    """With constant statistics: a Mul and an Add, which can be folded into a convolution.

    If these overflow the type, the statistics remain operands. In training they are the batch's.
    """
    training = bool(call.take("training_mode"))
    per_activation = not call["spatial"]
    check_statistics(training, not per_activation, call.used)
    if training:
        return _normalised_by_batch(call)
    call.drop("spatial", "momentum")
    constants = _affine(call) if is_known(call.inputs[1:5]) else None
    if constants is None:
        return [_normalised(call)] if per_activation else call.emit()
    if not per_activation:
        channels = (-1, *[1] * (call.data.rank - 2))
        constants = [array.reshape(channels) for array in constants]
    factor, shift = (call.scalar(array) for array in constants)
    return [call.one("Add", call.one("Mul", call.data, factor), shift)]


def check_statistics(training: bool, spatial: bool, used: Sequence[bool]) -> None:
    """Raise Unsupported for statistics that batch normalisation does not compute."""
    if training and (not spatial or any(used[3:])):
        raise Unsupported("it saves statistics of old opsets", "export for inference")
    if not training and any(used[1:]):
        raise Unsupported("running statistics are not computed", "export the model for inference")


def _normalised_by_batch(call: Call) -> list[Value]:
    """Batch normalisation in training: by the batch's statistics, which enter the running ones."""
    x, scale, bias, mean, variance = (in_float32(call, value) for value in call.operands)
    axes = [axis for axis in range(x.rank) if axis != 1]
    centre = call.one("ReduceMean", x, axes=axes)
    centred = call.one("Sub", x, centre)
    spread = call.one("ReduceMean", call.one("Mul", centred, centred), axes=axes)
    epsilon = call.builder.constant(call["epsilon"], x.dtype)
    factor, shift = (
        in_type(call, call.reshaped(v, [-1, *[1] * (x.rank - 2)]), x.dtype) for v in (scale, bias)
    )
    normal = call.one("Div", centred, call.one("Sqrt", call.one("Add", spread, epsilon)))
    y = call.one("Add", call.one("Mul", normal, factor), shift)
    pairs = ((mean, centre), (variance, spread))
    running = [_running(call, old, new) for old, new in pairs]
    wanted = [call.data.dtype, *(value.dtype for value in call.operands[3:])]
    results = zip([y, *running], wanted, strict=True)
    return [in_type(call, value, dtype) for value, dtype in results][: len(call.used)]


def _running(call: Call, old: Value, new: Value) -> Value:
    """A running statistic after one more batch."""
    momentum = call["momentum"]
    kept, added = (call.builder.constant(part, old.dtype) for part in (momentum, 1 - momentum))
    new = in_type(call, call.reshaped(new, [-1]), old.dtype)
    return call.one("Add", call.one("Mul", old, kept), call.one("Mul", new, added))


def _affine(call: Call) -> list[np.ndarray] | None:
    """The factor and shift of a batch normalisation, unless they are infinite in its type."""
    scale, bias, mean, variance = (v.content.astype(np.float64) for v in call.operands[1:5])
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + call["epsilon"])
        dtype = numpy_dtype(call.data.dtype)
        constants = [array.astype(dtype) for array in (factor, bias - mean * factor)]
    return constants if all(np.isfinite(array).all() for array in constants) else None


def _normalised(call: Call) -> Value:
    """Batch normalisation with statistics for each channel and position, computed at run time."""
    x, scale, bias, mean, variance = call.inputs
    epsilon = call.scalar(call["epsilon"])
    deviation = call.one("Sqrt", call.one("Add", variance, epsilon))
    factor = call.one("Div", scale, deviation)
    return call.one("Add", call.one("Mul", call.one("Sub", x, mean), factor), bias)


@rule("Gemm")
def rewrite_gemm(call: Call) -> list[Value]:
    """Without C where beta is 0: as in BLAS it is not read then, whatever it holds."""
    unread = call["beta"] == 0
    return call.emit(call.inputs[:2] if unread else call.inputs)


@rule("Conv")
def rewrite_convolution(call: Call) -> list[Value]:
    """Windows with explicit strides, dilations and pads, and without dead taps."""
    call.attributes["kernel_shape"] = list(call.operand(1).shape[2:])
    explicit = explicit_window(call)
    return call.emit(crop_dead_taps(call, explicit), **explicit)


def explicit_window(call: Call) -> dict[str, list[int]]:
    """The strides, dilations and pads of windows; `auto_pad` is taken from the attributes."""
    windows = Windows.of(call, call.attributes["kernel_shape"])
    mode = call.take("auto_pad")
    if mode.startswith("SAME"):
        call.drop("ceil_mode")
    windows = windows.padded(mode, call.data.shape[2:])
    return {"strides": windows.strides, "dilations": windows.dilations, "pads": windows.pads}


@rule("ConvTranspose")
def rewrite_conv_transpose(call: Call) -> list[Value]:
    """Explicit strides, dilations, pads and output padding; whether known weights are finite."""
    windows = Windows.of(call, call.operand(1).shape[2:])
    sizes = call.data.shape[2:]
    pads = windows.pads
    extra = call.take("output_padding") or [0] * len(sizes)
    mode, target = call.take("auto_pad"), call.take("output_shape")
    if not target and mode.startswith("SAME"):
        target = [n * s for n, s in zip(sizes, windows.strides, strict=True)]
    if target:
        axes = zip(sizes, windows.strides, windows.spans, strict=True)
        full = [s * (n - 1) + k for n, s, k in axes]
        total = [f + e - t for f, e, t in zip(full, extra, target[-len(sizes) :], strict=True)]
        pads = divided_pads([max(t, 0) for t in total], more_before=mode != "SAME_UPPER")
        if CONV_TRANSPOSE_SAME_SHORT_KERNEL not in call.onnxruntime:
            extra = [e + max(-t, 0) for e, t in zip(extra, total, strict=True)]
    explicit: dict[str, object] = {"strides": windows.strides, "dilations": windows.dilations}
    if any(extra):
        explicit["output_padding"] = list(extra)
    weight = call.operand(1).array
    if weight is not None and not np.isfinite(weight).all():
        explicit["finite"] = 0
    return call.emit(None, kernel_shape=windows.kernel, pads=pads, **explicit)


@rule("Upsample", "Resize")
def rewrite_resize(call: Call) -> list[Value]:
    """Upsample and the first Resize sampled at `x / scale`, rounded as described below."""
    if RESIZE_SAME_SIZE in call.onnxruntime:
        return [call.data]
    if call.op_type == "Upsample" or call.version == 10:
        return [_resize_by_scale(call)]
    mode = call.attributes.get("coordinate_transformation_mode")
    if mode == "tf_half_pixel_for_nn":
        return _of_old_mode(call)
    crops = mode == "tf_crop_and_resize"
    node = resize_form(call).canonical()
    shape = call.data.shape
    numbers = dict(node.attributes)
    if RESIZE_CROP_SAME_SIZE in call.onnxruntime and crops:
        numbers["roi"] = _cropping_scaled(shape, numbers)
    if "axes" in numbers and not crops and call["keep_aspect_ratio_policy"] == "stretch":
        _name_every_axis(shape, numbers)
    if RESIZE_ALIGN_CORNERS_SCALE in call.onnxruntime and call["antialias"]:
        return [aligned_antialiased(call, numbers)]
    _scale_as_onnxruntime(call, numbers)
    if numbers["sizes"]:
        numbers["scales"] = []
    if RESIZE_INTEGERS in call.onnxruntime:
        return _integers_of_onnxruntime(call, replace(node, attributes=numbers))
    return call.emit_node(replace(node, attributes=numbers))


def _integers_of_onnxruntime(call: Call, node: Node[Value]) -> list[Value]:
    """Integers resized as onnxruntime does it, which truncates the fill of nearest samples."""
    if call["mode"] != "nearest":
        return [interpolated_integers(call, dict(node.attributes))]
    fill = {"extrapolation_value": trunc(node["extrapolation_value"])}
    return call.emit_node(replace(node, attributes={**node.attributes, **fill}))


def _scale_as_onnxruntime(call: Call, numbers: Attributes) -> None:
    """Replace the scales of a Resize by what the text has for onnxruntime's result."""
    shape = call.data.shape
    axes = numbers.get("axes") or range(len(shape))
    scaled = [(shape[axis], n) for axis, n in zip(axes, numbers["scales"], strict=False)]
    if RESIZE_SAME_AXIS in call.onnxruntime:
        numbers["scales"] = [1.0 if scaled_size(n, scale) == n else scale for n, scale in scaled]
    if RESIZE_ALIGN_CORNERS_SCALE in call.onnxruntime and scaled:
        # the whole sizes that scales give, in the place of which they align corners
        numbers["sizes"] = [scaled_size(n, scale) for n, scale in scaled]


def _cropping_scaled(shape: Shape, numbers: Attributes) -> list[float]:
    """The region of a Resize, which is everything along the axes that keep their sizes."""
    axes = numbers.get("axes") or range(len(shape))
    sizes = zip(axes, numbers["sizes"], strict=False)
    scales = numbers["scales"] or [size / max(shape[axis], 1) for axis, size in sizes]
    starts, ends = np.split(np.array(numbers["roi"]), 2)
    same = np.array(scales) == 1
    return [*np.where(same, 0, starts).tolist(), *np.where(same, 1, ends).tolist()]


def _of_old_mode(call: Call) -> list[Value]:
    """The result in a mode that only opset 11 has, and no kernel."""
    if not is_known(call.inputs):
        reason = "the coordinate transformation 'tf_half_pixel_for_nn' is gone since opset 13"
        raise NeedsHost(reason, "export the model with opset 13 or newer")
    return call.evaluated()


def _name_every_axis(shape: Shape, numbers: Attributes) -> None:
    """Give the scales or sizes of some axes of a Resize those of the others, which stay."""
    axes = numbers.pop("axes")
    for name, every in (("scales", [1.0] * len(shape)), ("sizes", [*shape])):
        for axis, number in zip(axes, numbers[name], strict=bool(numbers[name])):
            every[axis] = number
        numbers[name] = numbers[name] and every


def _resize_by_scale(call: Call) -> Value:
    """Nearest neighbours round down when enlarging and up when shrinking, as onnxruntime does."""
    given = call.attributes.get("scales")
    scales = np.asarray(call.content(1) if given is None else given, np.float32).reshape(-1)
    asked = call["mode"]
    mode = {"linear": "linear", "bilinear": "linear", "nearest": "nearest"}.get(asked)
    if mode is None:
        raise Unsupported(f"its mode is {asked!r}", "use nearest or linear, or opset 11 or newer")
    numbers: Attributes = {"roi": [], "scales": scales.tolist(), "sizes": []}
    numbers |= {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if RESIZE_INTEGERS in call.onnxruntime:
        return interpolated_integers(call, numbers)
    up = np.maximum(scales, 1)
    down = np.minimum(scales, 1)
    result = call.data
    parts = [(scales, "floor")] if mode == "linear" else [(up, "floor"), (down, "ceil")]
    for part, rounding in parts:
        if (part != 1).any():
            of_part = numbers | {"scales": part.tolist(), "nearest_mode": rounding}
            result = call.one("Resize", result, **of_part)
    return result


@rule("Hardmax")
def rewrite_hardmax(call: Call) -> list[Value]:
    """One at the first maximum along an axis; before opset 13 along all axes from there on."""
    x = call.data
    old = call.version < 13
    if 0 in x.shape:
        return [x]
    axis = call.axis()
    shape = [*x.shape[:axis], prod(x.shape[axis:])] if old else list(x.shape)
    if len(shape) == 1:  # OneHot does not accept a scalar
        shape = [1, *shape]
        axis = 1
    flat = call.reshaped(x, shape) if tuple(shape) != x.shape else x
    where = call.one("ArgMax", flat, axis=axis, keepdims=0)
    known = "float32" if x.dtype == "bfloat16" else x.dtype  # which OneHot accepts since opset 24
    values = call.builder.constant([0, 1], known)
    result = call.one("OneHot", where, values, depth=flat.shape[axis], axis=axis)
    if known != x.dtype:
        result = call.one("Cast", result, to=element_type(x.dtype))
    return [result if flat is x else call.reshaped(result, x.shape)]


@rule("Shape")
def rewrite_shape(call: Call) -> list[Value]:
    """Known from the input's shape."""
    start, end = call["start"], call["end"]
    return [call.vector(call.data.shape[start:end])]


@rule("Size")
def rewrite_size(call: Call) -> list[Value]:
    """Known from the input's shape."""
    return [call.reshaped(call.vector([prod(call.data.shape)]), [])]
