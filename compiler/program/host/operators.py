"""Host operators: sequences' and optionals', and those whose results no shape inference knows."""

from functools import partial

import numpy as np

from compiler.frontend.interpreter.constants import compressed, non_zero
from compiler.frontend.interpreter.suppression import non_maximum_suppression
from compiler.net.operators import check_room
from compiler.program.host.registry import HostCall, HostFunction, HostValue, host_operator


@host_operator("Compress", first=9)
def compress(call: HostCall) -> HostFunction:
    """The slices along an axis, or the elements, whose condition is true."""
    return partial(_compressed, axis=call.attributes.get("axis"))


def _compressed(x: np.ndarray, condition: np.ndarray, axis: int | None) -> tuple[np.ndarray]:
    return (compressed(x, condition, axis),)


@host_operator("ConstantOfShape", first=9)
def constant_of_shape(call: HostCall) -> HostFunction:
    """One number, or one text, in a shape."""
    return partial(_filled, value=call.attributes.get("value", np.zeros(1, np.float32)))


def _filled(shape: np.ndarray, value: np.ndarray) -> tuple[np.ndarray]:
    check_room(value.dtype, shape.tolist())
    return (np.full(shape, value.reshape(()), value.dtype),)


@host_operator("NonZero", first=9)
def indices_of_non_zero(call: HostCall) -> HostFunction:
    """The indices of all elements that are not zero, as a row for each axis."""
    return _non_zero


def _non_zero(x: np.ndarray) -> tuple[np.ndarray]:
    return (non_zero(x),)


@host_operator("NonMaxSuppression", first=10)
def suppression(call: HostCall) -> HostFunction:
    """The boxes that do not overlap a better one too much."""
    centred = call.attributes.get("center_point_box", 0)
    return partial(non_maximum_suppression, center_point_box=centred)


@host_operator("Identity", first=16)
@host_operator("Optional", first=15)
def optional_value(call: HostCall) -> HostFunction:
    """The input: a tensor, a sequence, or the value of an optional, None if there is none."""
    return _value


def _value(value: HostValue = None) -> tuple[HostValue]:
    return (value,)


@host_operator("OptionalGetElement", first=15)
def element(call: HostCall) -> HostFunction:
    """The value of an optional that has one."""
    return _element


def _element(value: HostValue) -> tuple[HostValue]:
    if value is None:
        raise ValueError("the optional is empty")
    return (value,)


@host_operator("OptionalHasElement", first=15)
def has_element(call: HostCall) -> HostFunction:
    """Whether an optional holds a value."""
    return _is_given


def _is_given(value: HostValue = None) -> tuple[np.ndarray]:
    return (np.array(value is not None),)
