"""Checks of nodes with bodies: how many values go in and out, and what steers them."""

from collections.abc import Sequence
from math import prod

import onnx

from compiler.frontend.graph import Attributes, Inputs
from compiler.ir.operators import Mismatch, ShapeMismatch
from compiler.ir.operators.shapes import axis_in, has_rank, listed


def check_bodies(op_type: str, inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    """Raise Mismatch for an If, Loop or Scan that does not fit its bodies or its inputs."""
    _CHECKS[op_type](inputs, attributes, outputs)


def _one_number(inputs: Inputs, index: int, what: str) -> None:
    value = inputs[index] if index < len(inputs) else None
    if value is not None and prod(value.shape) != 1:
        raise ShapeMismatch(f"its {what} has the shape {listed(value.shape)}, it is one number")


def _counts(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise Mismatch(f"its body has {found} {what} instead of {wanted}")


def _if(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    _one_number(inputs, 0, "condition")
    for name in ("then_branch", "else_branch"):
        branch: onnx.GraphProto = attributes[name]
        if len(branch.input) or len(branch.output) < outputs:
            raise Mismatch(
                f"its {name} has {len(branch.input)} inputs and {len(branch.output)} outputs"
                f" instead of 0 and {outputs}"
            )


def _loop(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    body: onnx.GraphProto = attributes["body"]
    _one_number(inputs, 0, "trip count")
    _one_number(inputs, 1, "condition")
    _counts("inputs", len(body.input), max(len(inputs), 2))
    if len(body.output) < len(body.input) - 1 or len(body.output) <= outputs - 1:
        wanted = max(len(body.input) - 1, outputs + 1)
        raise Mismatch(f"its body has {len(body.output)} outputs instead of {wanted} or more")


def _of_length(attributes: Attributes, name: str, count: int) -> Sequence[int]:
    values = attributes.get(name) or [0] * count
    if len(values) != count:
        raise Mismatch(f"its {name} {listed(values)} are {len(values)} numbers instead of {count}")
    return values


def _scan(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    body, count = attributes["body"], attributes["num_scan_inputs"]
    if not 1 <= count <= len(inputs) or any(value is None for value in inputs):
        raise Mismatch(f"its num_scan_inputs is {count}, it has {len(inputs)} inputs")
    states = len(inputs) - count
    _counts("inputs", len(body.input), len(inputs))
    if len(body.output) < max(states, outputs):
        raise Mismatch(f"its body has {len(body.output)} outputs instead of {outputs}")
    _of_length(attributes, "scan_input_directions", count)
    for name in ("scan_output_axes", "scan_output_directions"):
        _of_length(attributes, name, len(body.output) - states)
    _same_length(inputs[states:], _of_length(attributes, "scan_input_axes", count))


def _same_length(sequences: Inputs, axes: Sequence[int]) -> None:
    shapes = [value.shape for value in sequences if value is not None]
    for shape in shapes:
        has_rank("a scanned input", shape, 1)
    lengths = {s[axis_in(axis, len(s))] for s, axis in zip(shapes, axes, strict=True)}
    if len(lengths) > 1:
        named = " and ".join(map(listed, shapes))
        raise ShapeMismatch(f"it scans inputs of shapes {named}, which differ in length")


_CHECKS = {"If": _if, "Loop": _loop, "Scan": _scan}
