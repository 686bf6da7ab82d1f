"""The forms of opsets 1 to 6, rewritten to those of opset 7, with which the rules begin."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from compiler.frontend.builder import Builder, run_time_input
from compiler.frontend.graph import Attributes, Inputs, Unsupported, Value
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.net.operators.shapes import axis_in

FIRST_KNOWN = 7
"""The oldest opset whose forms the rules know."""

_REMOVED = ("consumed_inputs", "output_sequence")
"""Attributes without a meaning for the result."""


@dataclass(slots=True)
class Old:
    """A node of an opset before 7; `inputs` and `attributes` become those of opset 7."""

    op_type: str
    version: int
    inputs: Inputs
    attributes: Attributes
    builder: Builder

    def operand(self, index: int) -> Value:
        """An input that must be given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise Mismatch(f"its input {index} is left out")
        return value

    def content(self, index: int) -> np.ndarray:
        """The numbers of an input that must be a constant."""
        value = self.operand(index)
        if value.array is None:
            raise run_time_input(index, value)
        return value.array.reshape(-1)

    def append_axes(self, count: int) -> None:
        """Give the second input more axes of size 1 at the end."""
        value = self.operand(1)
        axes = list(range(value.rank, value.rank + count))
        self.inputs[1] = self.builder.one("Unsqueeze", value, axes=axes)


def modernise(old: Old) -> None:
    """Rewrite a node in place; raises Unsupported or Mismatch."""
    for name in _REMOVED:
        old.attributes.pop(name, None)
    change = _CHANGES.get(old.op_type)
    if change is not None:
        change(old)


def _broadcast(old: Old) -> None:
    """The second operand broadcasts only if that is asked for, from an axis or to the last ones."""
    wanted, axis = old.attributes.pop("broadcast", 0), old.attributes.pop("axis", None)
    first, second = old.operand(0), old.operand(1)
    if not wanted and first.shape != second.shape:
        raise ShapeMismatch(
            f"its inputs have the shapes {list(first.shape)} and {list(second.shape)}, which differ"
            " without broadcast=1"
        )
    missing = 0 if axis is None else first.rank - axis_in(axis, first.rank) - second.rank
    if wanted and missing > 0:
        old.append_axes(missing)


def _slope(old: Old) -> None:
    """A slope of several numbers has one for each channel."""
    slope, missing = old.operand(1), old.operand(0).rank - 2
    if slope.rank == 1 and slope.shape != (1,) and missing > 0:
        old.append_axes(missing)


def _gemm(old: Old) -> None:
    old.attributes.pop("broadcast", None)


def _batch_normalization(old: Old) -> None:
    if old.attributes.pop("is_test", 0) == 0:
        old.attributes["training_mode"] = 1


def _dropout(old: Old) -> None:
    if old.attributes.pop("is_test", 0) == 0 and old.attributes.get("ratio", 0.5):
        raise Unsupported("it drops values at random (is_test=0)", "export for inference")


def _reshape(old: Old) -> None:
    if "shape" in old.attributes:
        old.inputs = [old.operand(0), old.builder.integers(old.attributes.pop("shape"))]


def _concat(old: Old) -> None:
    old.attributes.setdefault("axis", 1)


def _cast(old: Old) -> None:
    target = old.attributes.get("to")
    if isinstance(target, str):
        if target not in onnx.TensorProto.DataType.keys():
            raise Mismatch(f"its attribute 'to' is {target!r}, which is not an element type")
        old.attributes["to"] = onnx.TensorProto.DataType.Value(target)


def _pad(old: Old) -> None:
    if "paddings" in old.attributes:
        old.attributes["pads"] = old.attributes.pop("paddings")


def _norm(old: Old) -> None:
    """The order of a norm was a float."""
    order = old.attributes.get("p", 2)
    check_order(order)
    old.attributes["p"] = int(order)


def check_order(order: float) -> None:
    """Raise Unsupported for a norm of a fractional order."""
    if order != int(order):
        raise Unsupported(f"its norm is of order {order}", "use an integer")


def _selu(old: Old) -> None:
    if old.version < 6:  # the defaults were rounded
        old.attributes = {"alpha": 1.6732, "gamma": 1.0507, **old.attributes}


def _split(old: Old) -> None:
    if len(old.inputs) > 1 and old.inputs[1] is not None:
        old.attributes["split"] = [int(size) for size in old.content(1)]
    old.inputs = old.inputs[:1]


def _tile(old: Old) -> None:
    """The first form repeats one axis."""
    if old.version < 6 and len(old.inputs) > 2:
        x = old.operand(0)
        repeats = [1] * x.rank
        repeats[axis_in(int(old.content(2)[0]), x.rank)] = int(old.content(1)[0])
        old.inputs = [x, old.builder.integers(repeats)]


def _upsample(old: Old) -> None:
    if "scales" not in old.attributes:
        height, width = (old.attributes.pop(f"{name}_scale") for name in ("height", "width"))
        old.attributes["scales"] = [1.0, 1.0, height, width]


_CHANGES: dict[str, Callable[[Old], None]] = {
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
