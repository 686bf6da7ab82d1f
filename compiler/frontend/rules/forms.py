"""Rules that rewrite old forms of operators to that of the normalised opset.

A rule takes a Call and returns its outputs. Structural inputs become complete and canonical: axes
non-negative and sorted, slices with starts, ends, axes and steps, pads of every dimension.
"""

from math import prod

import numpy as np

from compiler.frontend.builder import supported
from compiler.frontend.evaluate import dtype_name, element_type
from compiler.frontend.graph import Unsupported, Value, axis_of
from compiler.frontend.rules.call import Call, filled, rule
from compiler.frontend.semantics.table import CAST_PACKED_INTEGERS, SQUEEZE_EMPTY_AXES
from compiler.ir.values import numpy_dtype
from compiler.net.evaluation.rounding import finite_limits, is_floating
from compiler.net.operators import ShapeMismatch
from compiler.net.operators.injective import slice_range
from compiler.net.operators.reductions import LISTED_REDUCTIONS
from compiler.tensors.dtypes import FLOAT8


@rule("Identity")
def rewrite_identity(call: Call) -> list[Value]:
    """The input itself."""
    return [call.data]


@rule("Softmax", "LogSoftmax")
def rewrite_softmax(call: Call) -> list[Value]:
    """Before opset 13 it normalised the axis and all that follow."""
    x, rank = call.data, call.data.rank
    old = call.version < 13
    axis = axis_of(call["axis"], rank)
    wide = [i for i in range(axis, rank) if x.shape[i] != 1]
    if not old or len(wide) <= 1:
        return call.emit(axis=wide[0] if old and wide else axis)
    flat = call.reshaped(x, [*x.shape[:axis], prod(x.shape[axis:])])
    result = call.one(call.op_type, flat, axis=axis)
    return [call.reshaped(result, x.shape)]


@rule("Clip")
def rewrite_clip(call: Call) -> list[Value]:
    """Bounds were attributes before opset 11; by default they are the limits of the type."""
    dtype = numpy_dtype(call.data.dtype)
    limits = finite_limits(dtype) if is_floating(dtype) else (None, None)
    bounds: list[Value | None] = []
    for i, name in enumerate(("min", "max")):
        given = call.attributes.pop(name, None)
        default = limits[i] if given is None else given
        bound = call.input(i + 1)
        bounds.append(call.scalar(default) if bound is None and default is not None else bound)
    return call.emit([call.data, *bounds])


_WITHOUT_AXES = {
    "ReduceL1": "Abs",
    "ReduceL2": "Abs",
    "ReduceLogSum": "Log",
}


def _reduce_nothing(call: Call) -> Value:
    """A reduction over no axes, which is still an elementwise function."""
    if call.op_type == "ReduceSumSquare":
        return call.one("Mul", call.data, call.data)
    other = _WITHOUT_AXES.get(call.op_type)
    return call.one(other, call.data) if other else call.data


@rule(*LISTED_REDUCTIONS)
def rewrite_reduce(call: Call) -> list[Value]:
    """Axes were attributes before opset 18 (ReduceSum: 13)."""
    rank = call.data.rank
    axes = call.integers("axes", 1)
    keep_all = call.take("noop_with_empty_axes")
    if not axes:
        axes = [] if keep_all else list(range(rank))
    if not axes:
        return [_reduce_nothing(call)]
    return call.emit([call.data, call.vector(sorted({axis_of(a, rank) for a in axes}))])


@rule("Squeeze")
def rewrite_squeeze(call: Call) -> list[Value]:
    """Axes were attributes before opset 13; they default to every dimension of size one."""
    x = call.data
    axes = call.integers("axes", 1)
    if axes is None or SQUEEZE_EMPTY_AXES in call.onnxruntime:
        axes = [i for i, size in enumerate(x.shape) if size == 1]
    if not axes:
        return [x]
    return call.emit([x, call.vector(sorted({axis_of(a, x.rank) for a in axes}))])


@rule("Unsqueeze")
def rewrite_unsqueeze(call: Call) -> list[Value]:
    """Axes were attributes before opset 13."""
    axes = call.integers("axes", 1) or []
    if not axes:
        return [call.data]
    rank = call.data.rank + len(axes)
    return call.emit([call.data, call.vector(sorted(axis_of(a, rank) for a in axes))])


@rule("Reshape")
def rewrite_reshape(call: Call) -> list[Value]:
    """Zeros and -1 of the target become sizes."""
    x = call.data
    target = call.integers("shape", 1) or []
    allow_zero = call.take("allowzero")
    shape = [
        x.shape[i] if s == 0 and not allow_zero and i < x.rank else s for i, s in enumerate(target)
    ]
    shape = filled(shape, prod(x.shape))
    return [x if tuple(shape) == x.shape else call.reshaped(x, shape)]


@rule("Expand")
def rewrite_expand(call: Call) -> list[Value]:
    """The target becomes the result's shape."""
    x = call.data
    target = call.integers("shape", 1) or []
    try:
        shape = np.broadcast_shapes(x.shape, tuple(target))
    except ValueError as error:
        raise ShapeMismatch(f"its input {x.shape} does not broadcast to {target}") from error
    return [x] if shape == x.shape else call.emit([x, call.vector(shape)])


@rule("Tile")
def rewrite_tile(call: Call) -> list[Value]:
    """Removed if it repeats nothing."""
    repeats = call.integers("repeats", 1) or []
    return [call.data] if all(r == 1 for r in repeats) else call.emit()


@rule("Split")
def rewrite_split(call: Call) -> list[Value]:
    """Sizes were attributes before opset 13; a number of parts becomes sizes."""
    x, parts = call.data, len(call.used)
    axis = axis_of(call["axis"], x.rank)
    sizes = call.integers("split", 1)
    call.attributes.pop("num_outputs", None)
    if not sizes:
        size = -(-x.shape[axis] // parts)
        sizes = [size] * (parts - 1) + [x.shape[axis] - size * (parts - 1)]
    if parts == 1:
        return [x]
    return call.builder.emit("Split", [x, call.vector(sizes)], {"axis": axis}, parts)


@rule("Slice")
def rewrite_slice(call: Call) -> list[Value]:
    """Bounds were attributes before opset 10; here they are inside the dimensions."""
    x = call.data
    starts, ends = call.integers("starts", 1) or [], call.integers("ends", 2) or []
    axes = call.integers("axes", 3) or list(range(len(starts)))
    steps = call.integers("steps", 4) or [1] * len(starts)
    bounds: dict[int, tuple[int, int, int]] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis_of(axis, x.rank)
        size = x.shape[axis]
        part = slice_range(size, start, end, step)
        first = max(part.start, 0)
        last = max(first, part.stop) if step > 0 else part.stop
        last = last if last >= 0 else -size - 1  # -1 would be the last element
        if (first, last, step) != (0, size, 1):
            bounds[axis] = (first, last, step)
    if not bounds:
        return [x]
    axes = sorted(bounds)
    first, last, step = (call.vector(v) for v in zip(*(bounds[a] for a in axes), strict=True))
    return call.emit([x, first, last, call.vector(axes), step])


@rule("Pad")
def rewrite_pad(call: Call) -> list[Value]:
    """Pads were attributes before opset 11, axes are new in 18; all dimensions get pads."""
    x = call.data
    pads = call.integers("pads", 1) or []
    value = call.input(2)
    if call.version < 11:
        value = call.scalar(call.take("value"))
    axes = call.integers("axes", 3)
    axes = list(range(x.rank)) if axes is None else axes
    full = [0] * (2 * x.rank)
    for i, axis in enumerate(axes):
        axis = axis_of(axis, x.rank)
        full[axis], full[axis + x.rank] = pads[i], pads[i + len(axes)]
    constant = call["mode"] == "constant"
    if not any(full):
        return [x]
    return call.emit([x, call.vector(full), *([value] if constant and value else [])])


@rule("TopK")
def rewrite_topk(call: Call) -> list[Value]:
    """K was an attribute before opset 10."""
    return call.emit([call.data, call.vector(call.integers("k", 1) or [])])


@rule("Dropout")
def rewrite_dropout(call: Call) -> list[Value]:
    """The identity, as in inference."""
    training = call.known(2)
    ratio = call.input(1)
    if (
        training is not None
        and training.any()
        and not (ratio is not None and ratio.array is not None and not ratio.array.any())
    ):
        raise Unsupported("it drops values at random (training mode)", "export for inference")
    dtype = "bool" if call.version >= 10 else call.data.dtype
    kept = call.version >= 12  # before that onnxruntime's mask is empty, and ONNX says nothing
    if len(call.used) == 1:
        return [call.data]
    return [call.data, call.filled(kept, call.data.shape, dtype)]


@rule("Cast", "CastLike")
def rewrite_cast(call: Call) -> list[Value]:
    """Removed if it changes nothing; attributes of other types of a byte are removed too."""
    x, attributes = call.data, call.attributes
    like = call.op_type == "CastLike"
    target = call.operand(1).dtype if like else dtype_name(attributes["to"])
    if x.array is None:
        supported(Value("", target))
        if target == x.dtype:
            return [x]
        attributes.pop("round_mode", None)
        if target not in FLOAT8:
            attributes.pop("saturate", None)
    if CAST_PACKED_INTEGERS in call.onnxruntime:
        x = _rounded_half_away(call, x)
    return [call.one("Cast", x, **{**attributes, "to": element_type(target)})]


def _rounded_half_away(call: Call, x: Value) -> Value:
    """Floats rounded to the nearest integers, halves away from zero, as C's round does."""
    size = call.one("Abs", x)
    low = call.one("Floor", size)
    half = call.builder.constant(0.5, x.dtype)
    over = call.one("GreaterOrEqual", call.one("Sub", size, low), half)
    high = call.one("Add", low, call.one("Cast", over, to=element_type(x.dtype)))
    return call.one("Mul", high, call.one("Sign", x))


@rule("IsInf", "IsNaN")
def rewrite_test_of_floats(call: Call) -> list[Value]:
    """Of floats of a byte by way of float32."""
    if call.data.dtype not in FLOAT8:
        return call.emit()
    return call.emit([call.one("Cast", call.data, to=element_type("float32"))])


@rule("Scatter")
def rewrite_scatter(call: Call) -> list[Value]:
    """The old name of ScatterElements."""
    return [call.builder.emit("ScatterElements", call.inputs, call.attributes)[0]]


@rule("GroupNormalization")
def rewrite_group_normalization(call: Call) -> list[Value]:
    """Scale and bias are per channel since opset 21; before they were per group."""
    if call.version >= 21:
        return call.emit()
    x, groups = call.data, call.attributes["num_groups"]
    repeats = x.shape[1] // groups
    channels: list[Value] = []
    for value in call.operands[1:]:
        column = call.reshaped(value, [groups, 1])
        wide = call.one("Expand", column, call.vector([groups, repeats]))
        channels.append(call.reshaped(wide, [-1]))
    return call.emit([x, *channels])


@rule("Concat")
def rewrite_concat(call: Call) -> list[Value]:
    """Empty inputs are dropped; one input is the result."""
    axis = axis_of(call.attributes["axis"], call.data.rank)
    kept = [v for v in call.inputs if v is not None and v.shape[axis] != 0]
    first, *others = kept or [call.data]
    return call.emit([first, *others], axis=axis) if others else [first]


@rule("SpaceToDepth")
def rewrite_space_to_depth(call: Call) -> list[Value]:
    """Opset 28 adds a mode with the channel first, which becomes a Transpose."""
    mode = call.take("mode")
    if mode == "DCR":
        return call.emit()
    (batch, channels, height, width), block = call.data.shape, call.attributes["blocksize"]
    split = [batch, channels, height // block, block, width // block, block]
    tiles = call.reshaped(call.data, split)
    moved = call.one("Transpose", tiles, perm=[0, 1, 3, 5, 2, 4])
    return [call.reshaped(moved, [batch, channels * block**2, height // block, width // block])]
