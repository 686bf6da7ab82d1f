"""Models of one valid node, broken in one way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.fuzz.case import Case
from tests.fuzz.draw import ANY, Draw, Shape
from tests.fuzz.graphs import random_node

Breaker = Callable[[Draw, onnx.ModelProto, dict[str, Any]], str | None]
"""Breaks a model and its feeds in place and says how; None where there is nothing to break."""


def other_shape(draw: Draw, shape: Shape) -> Shape:
    """A shape near another one: a dimension changed, dropped, added or swapped."""
    dims = list(shape)
    choices = ["add"] + ["change", "drop", "swap"] * bool(dims)
    match draw.choice(choices):
        case "add":
            dims.insert(draw.randint(0, len(dims)), draw.choice([1, 2, 3]))
        case "drop":
            del dims[draw.randrange(len(dims))]
        case "swap":
            i, j = draw.randrange(len(dims)), draw.randrange(len(dims))
            dims[i], dims[j] = dims[j], dims[i]
        case _:
            i = draw.randrange(len(dims))
            dims[i] = max(0, dims[i] + draw.choice([-2, -1, 1, 2, 3, 64]))
    return tuple(dims)


def _resized(array: Any, shape: Shape) -> Any:
    return (
        np.resize(array, shape).astype(array.dtype) if array.size else np.ones(shape, array.dtype)
    )


def _target(draw: Draw, model: onnx.ModelProto) -> Any:
    graph = model.graph
    tensors = [*graph.input, *graph.initializer]
    return draw.choice(tensors) if tensors else None


def _replace(model: onnx.ModelProto, feeds: dict[str, Any], target: Any, array: Any) -> None:
    if isinstance(target, TensorProto):
        target.CopyFrom(numpy_helper.from_array(array, target.name))
    else:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        target.CopyFrom(helper.make_tensor_value_info(target.name, element, array.shape))
        feeds[target.name] = array


def _array(feeds: dict[str, Any], target: Any) -> Any:
    if isinstance(target, TensorProto):
        return numpy_helper.to_array(target)
    return feeds[target.name]


def break_shape(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """One operand of another shape."""
    target = _target(draw, model)
    if target is None:
        return None
    array = _array(feeds, target)
    shape = other_shape(draw, array.shape)
    if int(np.prod(shape)) > 100_000:
        return None
    _replace(model, feeds, target, _resized(array, shape))
    return f"{target.name} is {list(shape)} instead of {list(array.shape)}"


def break_dtype(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """One operand of another dtype."""
    target = _target(draw, model)
    if target is None:
        return None
    array = _array(feeds, target)
    dtype = draw.choice([name for name in ANY if name != array.dtype.name])
    with np.errstate(all="ignore"):
        _replace(model, feeds, target, array.astype(dtype))
    return f"{target.name} is {dtype} instead of {array.dtype}"


def break_value(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """A constant of integers (axes, shapes, indices) with another value."""
    tensors = [t for t in model.graph.initializer if t.data_type in (6, 7) and 0 not in t.dims]
    if not tensors:
        return None
    target = draw.choice(tensors)
    array = numpy_helper.to_array(target).copy()
    place = draw.randrange(array.size)
    value = draw.choice([-100, -5, -2, -1, 0, 1, 2, 5, 7, 100, 2**31, -(2**63), 2**63 - 1])
    if array.dtype == np.int32:
        value = max(-(2**31), min(2**31 - 1, value))
    array.reshape(-1)[place] = value
    target.CopyFrom(numpy_helper.from_array(array, target.name))
    return f"{target.name}[{place}] is {value}"


def _node(model: onnx.ModelProto) -> onnx.NodeProto:
    return next(n for n in reversed(model.graph.node) if n.op_type != "Constant")


_STRINGS = [
    "",
    "magic",
    "NOTSET",
    "SAME_UPPER",
    "VALID",
    "linear",
    "cubic",
    "reflect",
    "\xff",
    "a,b->",
]
_NUMBERS = [-(2**62), -100, -3, -2, -1, 0, 1, 2, 3, 5, 7, 100, 2**31, 2**62]


def break_attribute(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """An attribute of the schema with a value that it should not have, or of another type."""
    node = _node(model)
    version = model.opset_import[0].version
    if node.domain or not onnx.defs.has(node.op_type, version, ""):
        return None
    schema = onnx.defs.get_schema(node.op_type, version, "")
    attributes: list[Any] = list(schema.attributes.values())
    plain = [a for a in attributes if a.type.name not in ("GRAPH", "TENSOR")]
    if not plain:
        return None
    chosen = draw.choice(plain)
    old = next((a for a in node.attribute if a.name == chosen.name), None)
    kind = draw.choice(["INT", "INTS", "STRING", "FLOAT"]) if draw.chance(0.1) else chosen.type.name
    value = _other_value(draw, kind, old)
    if old is not None:
        node.attribute.remove(old)
    number = {"INT": 2, "FLOAT": 1, "STRING": 3, "INTS": 7, "FLOATS": 6, "STRINGS": 8}[kind]
    node.attribute.append(helper.make_attribute(chosen.name, value, attr_type=number))
    return f"{chosen.name}={value!r}"


def _other_value(draw: Draw, kind: str, old: AttributeProto | None) -> Any:
    match kind:
        case "INT":
            return draw.choice(_NUMBERS)
        case "FLOAT":
            return draw.choice([0.0, -1.0, 1e30, float("nan"), float("inf"), -1e-30])
        case "STRING":
            return draw.choice(_STRINGS).encode("utf-8", "replace")
        case "STRINGS":
            return [draw.choice(_STRINGS).encode() for _ in range(draw.randint(0, 4))]
        case "FLOATS":
            return [draw.choice([0.0, -1.0, 1e30, 2.5]) for _ in range(draw.randint(0, 4))]
        case _:
            values = list(old.ints) if old is not None and old.ints else [1, 1]
            change = draw.choice(["value", "drop", "add"])
            if change == "value" and values:
                values[draw.randrange(len(values))] = draw.choice(_NUMBERS)
            elif change == "drop":
                values = values[1:]
            else:
                values.append(draw.choice([0, 1, 2]))
            return values


def drop_attribute(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """An attribute left out."""
    node = _node(model)
    if not node.attribute:
        return None
    old = draw.choice(list(node.attribute))
    node.attribute.remove(old)
    return f"without {old.name}"


def break_inputs(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """An input missing, doubled, swapped or left empty."""
    node = _node(model)
    names = list(node.input)
    if not names:
        return None
    i, j = draw.randrange(len(names)), draw.randrange(len(names))
    change = draw.choice(["drop", "add", "swap", "empty"])
    if change == "drop":
        del names[i]
    elif change == "add":
        names.insert(i, names[j])
    elif change == "swap":
        names[i], names[j] = names[j], names[i]
    else:
        names[i] = ""
    del node.input[:]
    node.input.extend(names)
    return f"inputs {names} ({change})"


def break_output(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """A declared output of another shape or element type."""
    info = draw.choice(list(model.graph.output))
    tensor = info.type.tensor_type
    if draw.chance(0.5):
        tensor.elem_type = draw.choice(
            [e for e in (1, 6, 7, 9, 10, 11, 2, 77) if e != tensor.elem_type]
        )
        return f"{info.name} is declared with element type {tensor.elem_type}"
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    other = other_shape(draw, shape)
    info.CopyFrom(helper.make_tensor_value_info(info.name, tensor.elem_type, other))
    return f"{info.name} is declared as {list(other)}" if other != shape else None


def twice_the_output(draw: Draw, model: onnx.ModelProto, feeds: dict[str, Any]) -> str | None:
    """Two outputs of one name, or none at all."""
    model.graph.output.append(draw.choice(list(model.graph.output)))
    return "an output twice"


BREAKERS: list[Breaker] = [
    *[break_shape] * 5, *[break_attribute] * 5, *[break_value] * 3, *[break_inputs] * 2,
    break_dtype, break_dtype, drop_attribute, break_output, twice_the_output,
]  # fmt: skip


def open_dimensions(draw: Draw, case: Case) -> Case | None:
    """A model with a symbolic dimension, compiled for another size than it was made for."""
    model, feeds = case.proto, dict(case.feeds)
    infos = [i for i in model.graph.input if feeds[i.name].ndim]
    if not infos:
        return None
    info = draw.choice(infos)
    shape = list(feeds[info.name].shape)
    axis = draw.randrange(len(shape))
    info.type.tensor_type.shape.dim[axis].dim_param = "N"
    shape[axis] = draw.choice([1, 2, 3, 4, 5, 7])
    feeds[info.name] = _resized(feeds[info.name], tuple(shape))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return case.changed(
        model=model.SerializeToString(),
        feeds=feeds,
        input_shapes={info.name: shape},
        note=f"input shape {info.name}={shape}",
    )


def random_invalid(seed: int, target: str) -> Case | None:
    """A valid node broken in one way."""
    draw = Draw(seed)
    for _ in range(20):
        share = draw.choice([0.0, 0.3, 0.3, 1.0])
        case = random_node(draw.getrandbits(40), target, share, "invalid")
        broken = case and _broken(draw, case)
        if broken:
            return broken.changed(seed=seed, threads=1, semantics="onnxruntime")
    return None


def _broken(draw: Draw, case: Case) -> Case | None:
    if draw.chance(0.15):
        return open_dimensions(draw, case)
    model, feeds = case.proto, dict(case.feeds)
    breaker = draw.choice(BREAKERS)
    note = breaker(draw, model, feeds)
    if note is None:
        return None
    said = f"{breaker.__name__}: {note}"
    return case.changed(model=model.SerializeToString(), feeds=feeds, note=said)
