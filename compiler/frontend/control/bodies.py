"""Checks of nodes with bodies: their conditions and trip counts, and the values of bodies."""

from collections.abc import Sequence
from math import prod

import onnx

from compiler.frontend.sources.checking import Declared
from compiler.net.graph import Attributes, Inputs, Value
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.net.operators.shapes import axis_in, has_rank, listed


def check_bodies(op_type: str, inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    """Raise Mismatch for a node that does not fit its bodies or its inputs."""
    _CHECKS[op_type](inputs, attributes, outputs)


def check_number(value: Value | None, dtype: str, what: str) -> None:
    """Raise Mismatch unless a condition or trip count is omitted, or one number of a dtype."""
    if value is None or value.unknown:
        return
    if value.dtype != dtype:
        raise Mismatch(f"its {what} is {value.dtype or 'a sequence'}, it must be {dtype}")
    if prod(value.shape) != 1:
        raise ShapeMismatch(f"its {what} has the shape {listed(value.shape)}, it is one number")


def check_carried(before: Sequence[Value], after: Sequence[Value], with_shapes: bool) -> None:
    """Raise Mismatch if a loop-carried value leaves an iteration with another type."""
    for old, new in zip(before, after, strict=False):
        known = old.dtype and new.dtype
        if known and old.dtype != new.dtype:
            raise Mismatch(f"its body carries {old.dtype} on as {new.dtype}")
        if known and with_shapes and old.shape != new.shape:
            shapes = f"{listed(old.shape)} on as {listed(new.shape)}"
            raise ShapeMismatch(f"its body carries a state of shape {shapes}")


def check_passed(body: onnx.GraphProto, values: Sequence[Value], shaped: int) -> None:
    """Raise Mismatch for values that do not fit the declared types of a body's inputs.

    Only the first `shaped` must fit in shape: a Loop's carried values may change theirs.
    """
    for i, (info, value) in enumerate(zip(body.input, values, strict=False)):
        if info.type.HasField("tensor_type"):
            declared = Declared.of(info.type)
            declared = declared if i < shaped else Declared(declared.dtype, None)
            declared.check(f"its body declares {info.name!r} as", value)


def _counts(what: str, count: int, wanted: int) -> None:
    if count != wanted:
        raise Mismatch(f"its body has {count} {what} instead of {wanted}")


def _if(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    check_number(inputs[0], "bool", "condition")
    for name in ("then_branch", "else_branch"):
        branch: onnx.GraphProto = attributes[name]
        if len(branch.input) or len(branch.output) < outputs:
            raise Mismatch(
                f"its {name} has {len(branch.input)} inputs and {len(branch.output)} outputs"
                f" instead of 0 and {outputs}"
            )


def _loop(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    body: onnx.GraphProto = attributes["body"]
    limit, condition = [*inputs, None, None][:2]
    check_number(limit, "int64", "trip count")
    check_number(condition, "bool", "condition")
    if any(value is None for value in inputs[2:]):
        raise Mismatch("a value that it carries is left out")
    _counts("inputs", len(body.input), max(len(inputs), 2))
    if len(body.output) < len(body.input) - 1 or len(body.output) <= outputs - 1:
        wanted = max(len(body.input) - 1, outputs + 1)
        raise Mismatch(f"its body has {len(body.output)} outputs instead of {wanted} or more")


def _of_length(attributes: Attributes, name: str, count: int) -> Sequence[int]:
    values = attributes.get(name) or [0] * count
    if len(values) != count:
        raise Mismatch(f"its {name} {listed(values)} are {len(values)} numbers instead of {count}")
    return values


def _directions(attributes: Attributes, name: str, count: int) -> None:
    values = _of_length(attributes, name, count)
    if any(value not in (0, 1) for value in values):
        raise Mismatch(f"its {name} are {listed(values)}; they can be 0 and 1")


def _scan(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    body, count = attributes["body"], attributes["num_scan_inputs"]
    if not 1 <= count <= len(inputs) or any(value is None for value in inputs):
        raise Mismatch(f"its num_scan_inputs is {count}, it has {len(inputs)} inputs")
    states = len(inputs) - count
    _counts("inputs", len(body.input), len(inputs))
    if len(body.output) < max(states, outputs):
        raise Mismatch(f"its body has {len(body.output)} outputs instead of {outputs}")
    _directions(attributes, "scan_input_directions", count)
    _of_length(attributes, "scan_output_axes", len(body.output) - states)
    _directions(attributes, "scan_output_directions", len(body.output) - states)
    sequences = [value for value in inputs[states:] if value is not None]
    shapes = [value.shape for value in sequences]
    for shape in shapes:
        has_rank("a scanned input", shape, 1)
    axes = scanned_axes(attributes, sequences)
    if len({shape[axis] for shape, axis in zip(shapes, axes, strict=True)}) > 1:
        named = " and ".join(map(listed, shapes))
        raise ShapeMismatch(f"it scans inputs of shapes {named}, which differ in length")


def scanned_axes(attributes: Attributes, sequences: Sequence[Value]) -> list[int]:
    """The axis of each sequence that a Scan scans, from the front."""
    axes = _of_length(attributes, "scan_input_axes", len(sequences))
    return [axis_in(axis, value.rank) for axis, value in zip(axes, sequences, strict=True)]


def _map(inputs: Inputs, attributes: Attributes, outputs: int) -> None:
    body: onnx.GraphProto = attributes["body"]
    if any(value is None for value in inputs):
        raise Mismatch("an input is left out")
    _counts("inputs", len(body.input), len(inputs))
    if len(body.output) < outputs:
        raise Mismatch(f"its body has {len(body.output)} outputs instead of {outputs}")


_CHECKS = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _map}
