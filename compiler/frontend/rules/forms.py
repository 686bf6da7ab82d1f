"""Rules that rewrite old forms of operators to that of the normalised opset.

A rule takes a Call and returns its outputs. Inputs that decide shapes become attributes.
"""

from dataclasses import replace
from math import prod

import numpy as np

from compiler.frontend.builder import supported
from compiler.frontend.evaluate import dtype_name
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.semantics.table import (
    CAST_PACKED_INTEGERS,
    SLICE_BACKWARDS,
    SLICE_TO_THE_END,
    SQUEEZE_EMPTY_AXES,
)
from compiler.frontend.unsupported import Unsupported
from compiler.net.evaluation.rounding import finite_limits, is_floating
from compiler.net.graph import Value, constant
from compiler.net.operators import OPERATORS, facts_of
from compiler.net.operators.reductions import LISTED_REDUCTIONS
from compiler.tensors.dtypes import FLOAT8, element_type, numpy_dtype
from compiler.tensors.exact import same_extents


@rule("Identity")
def rewrite_identity(call: Call) -> list[Value]:
    """The input itself."""
    return [call.data]


@rule("Softmax", "LogSoftmax")
def rewrite_softmax(call: Call) -> list[Value]:
    """Before opset 13 it normalised the axis and all that follow."""
    x = call.data
    rank = call.data.rank
    old = call.version < 13
    axis = call.axis()
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


def _reduce_nothing(call: Call) -> Value:
    """A reduction over no axes, which is still an elementwise function."""
    other = facts_of(call.op_type).of_one
    return call.one(other, *[call.data] * OPERATORS[other].least_inputs) if other else call.data


@rule(*LISTED_REDUCTIONS)
def rewrite_reduce(call: Call) -> list[Value]:
    """Axes were attributes before opset 18 (ReduceSum: 13)."""
    node = call.canonical()
    return call.emit_node(node) if node.attributes["axes"] else [_reduce_nothing(call)]


@rule("Squeeze", "Unsqueeze")
def rewrite_axes(call: Call) -> list[Value]:
    """Axes were attributes before opset 13; a Squeeze without any drops every axis of size one."""
    if SQUEEZE_EMPTY_AXES in call.onnxruntime:
        call.inputs = call.inputs[:1]
        call.drop("axes")
    node = call.canonical()
    return call.emit_node(node) if node.attributes["axes"] else [call.data]


@rule("Reshape", "Expand")
def rewrite_shape_of_result(call: Call) -> list[Value]:
    """Zeros, -1 and sizes to broadcast become the result's shape; nothing is left of the same."""
    node = call.canonical()
    same = same_extents(node.attributes["shape"], call.data.shape)
    return [call.data] if same else call.emit_node(node)


@rule("Tile")
def rewrite_tile(call: Call) -> list[Value]:
    """Removed if it repeats nothing."""
    node = call.canonical()
    return [call.data] if all(r == 1 for r in node.attributes["repeats"]) else call.emit_node(node)


@rule("Split")
def rewrite_split(call: Call) -> list[Value]:
    """Sizes were attributes before opset 13; a number of parts becomes sizes."""
    node = call.canonical()
    parts = len(call.used)
    return (
        [call.data]
        if parts == 1
        else call.builder.emit("Split", node.inputs, node.attributes, parts)
    )


@rule("Slice")
def rewrite_slice(call: Call) -> list[Value]:
    """Bounds were attributes before opset 10; a whole slice is removed."""
    if SLICE_BACKWARDS in call.onnxruntime:
        ends, steps = call.content(2), call.content(4)
        turned = np.isin(ends, SLICE_TO_THE_END) & (steps < 0)
        call.inputs[2] = constant("", np.where(turned, np.iinfo(ends.dtype).min, ends))
    node = call.canonical()
    same = same_extents(node.attributes["size"], call.data.shape)
    whole = same and set(node.attributes["step"]) <= {1}
    return [call.data] if whole else call.emit_node(node)


@rule("Pad")
def rewrite_pad(call: Call) -> list[Value]:
    """Pads were attributes before opset 11, axes are new in 18; all dimensions get pads."""
    value = call.scalar(call.take("value")) if call.version < 11 else call.input(2)
    node = call.canonical()
    if not any(node.attributes["pads"]):
        return [call.data]
    filled = value is not None and call["mode"] == "constant"
    return call.emit_node(replace(node, inputs=[call.data, value] if filled else [call.data]))


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
    x = call.data
    attributes = call.attributes
    element = attributes.get("to")
    target = call.operand(1).dtype if element is None else dtype_name(element)
    if x.array is None:
        supported(Value("", target))
        if target == x.dtype:
            return [x]
        call.drop("round_mode", *(("saturate",) if target not in FLOAT8 else ()))
    if CAST_PACKED_INTEGERS in call.onnxruntime:
        # Floats rounded to the nearest integers, halves away from zero, as C's round does.
        size = call.one("Abs", x)
        low = call.one("Floor", size)
        half = call.builder.constant(0.5, x.dtype)
        over = call.one("GreaterOrEqual", call.one("Sub", size, low), half)
        high = call.one("Add", low, call.one("Cast", over, to=element_type(x.dtype)))
        x = call.one("Mul", high, call.one("Sign", x))
    return [call.one("Cast", x, **{**attributes, "to": element_type(target)})]


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
    x = call.data
    groups = call.attributes["num_groups"]
    repeats = x.shape[1] // groups
    channels: list[Value] = []
    for value in call.operands[1:]:
        wide = call.expanded(call.reshaped(value, [groups, 1]), [groups, repeats])
        channels.append(call.reshaped(wide, [-1]))
    return call.emit([x, *channels])


@rule("Concat")
def rewrite_concat(call: Call) -> list[Value]:
    """Empty inputs are dropped; one input is the result."""
    axis = call.axis()
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
