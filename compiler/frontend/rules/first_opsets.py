"""The forms of opsets 1 to 6, rewritten to those of opset 7, with which the rules begin."""

from collections.abc import Callable

import onnx

from compiler.frontend.evaluate import schema_of
from compiler.frontend.rules.call import Call
from compiler.frontend.unsupported import Unsupported
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.support.registry import Registrar

FIRST_KNOWN = 7
"""The oldest opset whose forms the rules know."""

_REMOVED = ("consumed_inputs", "output_sequence")
"""Attributes without a meaning for the result."""

_CHANGES: dict[str, Callable[[Call], None]] = {}
"""The changes of operators whose form changed before opset 7, but for what broadcasts."""

_changes = Registrar(_CHANGES)


def modernise(call: Call) -> None:
    """Rewrite a node of a first opset in place; raises Unsupported or Mismatch."""
    call.drop(*_REMOVED)
    schema = schema_of(call.op_type, call.version)
    if call.op_type in _CHANGES:
        _CHANGES[call.op_type](call)
    elif schema is not None and "broadcast" in schema.attributes:
        _broadcast(call)


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


@_changes("PRelu")
def _slope(call: Call) -> None:
    """A slope of several numbers has one for each channel."""
    slope = call.operand(1)
    missing = call.operand(0).rank - 2
    if slope.rank == 1 and slope.shape != (1,) and missing > 0:
        _append_axes(call, missing)


@_changes("Gemm")
def _gemm(call: Call) -> None:
    call.drop("broadcast")


@_changes("BatchNormalization")
def _batch_normalization(call: Call) -> None:
    if not call.take("is_test"):
        call.attributes["training_mode"] = 1


@_changes("Dropout")
def _dropout(call: Call) -> None:
    if not call.take("is_test") and call["ratio"]:
        raise Unsupported("it drops values at random (is_test=0)", "export for inference")


@_changes("Reshape")
def _reshape(call: Call) -> None:
    if "shape" in call.attributes:
        call.inputs = [call.operand(0), call.vector(call.attributes.pop("shape"))]


@_changes("Concat")
def _concat(call: Call) -> None:
    call.attributes.setdefault("axis", 1)


@_changes("Cast")
def _cast(call: Call) -> None:
    target = call.attributes.get("to")
    if isinstance(target, str):
        if target not in onnx.TensorProto.DataType.keys():
            raise Mismatch(f"its attribute 'to' is {target!r}, which is not an element type")
        call.attributes["to"] = onnx.TensorProto.DataType.Value(target)


@_changes("Pad")
def _pad(call: Call) -> None:
    if "paddings" in call.attributes:
        call.attributes["pads"] = call.attributes.pop("paddings")


@_changes("GlobalLpPool", "LpPool")
def _norm(call: Call) -> None:
    """The order of a norm was a float."""
    check_order(call["p"])
    call.attributes["p"] = int(call["p"])


def check_order(order: float) -> None:
    """Raise Unsupported for a norm of a fractional order."""
    if order != int(order):
        raise Unsupported(f"its norm is of order {order}", "use an integer")


@_changes("Selu")
def _selu(call: Call) -> None:
    if call.version < 6:  # the defaults were rounded
        call.attributes = {"alpha": 1.6732, "gamma": 1.0507, **call.attributes}


@_changes("Split")
def _split(call: Call) -> None:
    if len(call.inputs) > 1 and call.inputs[1] is not None:
        call.attributes["split"] = [int(size) for size in call.content(1).reshape(-1)]
    call.inputs = call.inputs[:1]


@_changes("Tile")
def _tile(call: Call) -> None:
    """The first form repeats one axis."""
    if call.version < 6 and len(call.inputs) > 2:
        repeats = [1] * call.data.rank
        repeats[call.from_front(call.content(2).reshape(-1)[0])] = int(call.content(1).flat[0])
        call.inputs = [call.data, call.vector(repeats)]


@_changes("Upsample")
def _upsample(call: Call) -> None:
    if "scales" not in call.attributes:
        height, width = (call.attributes.pop(f"{name}_scale") for name in ("height", "width"))
        call.attributes["scales"] = [1.0, 1.0, height, width]
