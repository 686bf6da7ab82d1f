"""The forms of opsets 1 to 6, rewritten to those of opset 7, with which the rules begin."""

from collections.abc import Callable

import onnx

from compiler.frontend.graph import Unsupported
from compiler.frontend.rules.call import Call
from compiler.net.operators import Mismatch, ShapeMismatch

FIRST_KNOWN = 7
"""The oldest opset whose forms the rules know."""

_REMOVED = ("consumed_inputs", "output_sequence")
"""Attributes without a meaning for the result."""


def modernise(call: Call) -> None:
    """Rewrite a node of a first opset in place; raises Unsupported or Mismatch."""
    call.drop(*_REMOVED)
    change = _CHANGES.get(call.op_type)
    if change is not None:
        change(call)


def _append_axes(call: Call, count: int) -> None:
    """Give the second input more axes of size 1 at the end."""
    value = call.operand(1)
    axes = list(range(value.rank, value.rank + count))
    call.inputs[1] = call.one("Unsqueeze", value, axes=axes)


def _broadcast(call: Call) -> None:
    """The second operand broadcasts only if that is asked for, from an axis or to the last ones."""
    wanted, axis = call.take("broadcast"), call.take("axis")
    first, second = call.operand(0), call.operand(1)
    if not wanted and first.shape != second.shape:
        raise ShapeMismatch(
            f"its inputs have the shapes {list(first.shape)} and {list(second.shape)}, which differ"
            " without broadcast=1"
        )
    missing = 0 if axis is None else first.rank - call.from_front(axis) - second.rank
    if wanted and missing > 0:
        _append_axes(call, missing)


def _slope(call: Call) -> None:
    """A slope of several numbers has one for each channel."""
    slope = call.operand(1)
    missing = call.operand(0).rank - 2
    if slope.rank == 1 and slope.shape != (1,) and missing > 0:
        _append_axes(call, missing)


def _gemm(call: Call) -> None:
    call.drop("broadcast")


def _batch_normalization(call: Call) -> None:
    if not call.take("is_test"):
        call.attributes["training_mode"] = 1


def _dropout(call: Call) -> None:
    if not call.take("is_test") and call["ratio"]:
        raise Unsupported("it drops values at random (is_test=0)", "export for inference")


def _reshape(call: Call) -> None:
    if "shape" in call.attributes:
        call.inputs = [call.operand(0), call.vector(call.attributes.pop("shape"))]


def _concat(call: Call) -> None:
    call.attributes.setdefault("axis", 1)


def _cast(call: Call) -> None:
    target = call.attributes.get("to")
    if isinstance(target, str):
        if target not in onnx.TensorProto.DataType.keys():
            raise Mismatch(f"its attribute 'to' is {target!r}, which is not an element type")
        call.attributes["to"] = onnx.TensorProto.DataType.Value(target)


def _pad(call: Call) -> None:
    if "paddings" in call.attributes:
        call.attributes["pads"] = call.attributes.pop("paddings")


def _norm(call: Call) -> None:
    """The order of a norm was a float."""
    check_order(call["p"])
    call.attributes["p"] = int(call["p"])


def check_order(order: float) -> None:
    """Raise Unsupported for a norm of a fractional order."""
    if order != int(order):
        raise Unsupported(f"its norm is of order {order}", "use an integer")


def _selu(call: Call) -> None:
    if call.version < 6:  # the defaults were rounded
        call.attributes = {"alpha": 1.6732, "gamma": 1.0507, **call.attributes}


def _split(call: Call) -> None:
    if len(call.inputs) > 1 and call.inputs[1] is not None:
        call.attributes["split"] = [int(size) for size in call.content(1).reshape(-1)]
    call.inputs = call.inputs[:1]


def _tile(call: Call) -> None:
    """The first form repeats one axis."""
    if call.version < 6 and len(call.inputs) > 2:
        repeats = [1] * call.data.rank
        repeats[call.from_front(call.content(2).reshape(-1)[0])] = int(call.content(1).flat[0])
        call.inputs = [call.data, call.vector(repeats)]


def _upsample(call: Call) -> None:
    if "scales" not in call.attributes:
        height, width = (call.attributes.pop(f"{name}_scale") for name in ("height", "width"))
        call.attributes["scales"] = [1.0, 1.0, height, width]


_CHANGES: dict[str, Callable[[Call], None]] = {
    **dict.fromkeys("Add And Div Equal Greater Less Mul Or Pow Sub Xor".split(), _broadcast),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _dropout,
    "Gemm": _gemm,
    "GlobalLpPool": _norm,
    "LpPool": _norm,
    "PRelu": _slope,
    "Pad": _pad,
    "Reshape": _reshape,
    "Selu": _selu,
    "Split": _split,
    "Tile": _tile,
    "Upsample": _upsample,
}
"""The changes of operators whose form changed before opset 7."""
