"""Checks of what a session is given, before it runs."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from compiler.backends.host_arrays import native
from compiler.errors import InvalidArgument, ShapeError
from compiler.interfaces.onnxruntime.node_arg import NodeArg, dtype_of_type
from compiler.program.signature import SymbolSizes, ValueType, checked_value
from compiler.tensors.dtypes import numpy_dtype


def checked_feed(
    inputs: Sequence[NodeArg],
    overridable: Sequence[NodeArg],
    feed: Mapping[str, Any],
    types: Mapping[str, ValueType],
) -> dict[str, Any]:
    """The feed with lists as arrays; raises InvalidArgument for what does not fit the inputs.

    Initializers that are inputs too may be left out. `types` are those of the inputs that are not
    tensors of numbers.
    """
    args = {arg.name: arg for arg in (*inputs, *overridable)}
    for name in feed:
        if name not in args:
            raise InvalidArgument(
                f"the model has no input {name!r}; its inputs are {', '.join(args) or 'none'}"
            )
    absent = [
        arg.name for arg in inputs if arg.name not in feed and not arg.type.startswith("optional")
    ]
    if absent:
        raise InvalidArgument(
            f"the inputs {', '.join(map(repr, absent))} are missing; given were"
            f" {', '.join(map(repr, feed)) or 'none'}"
        )
    symbols: SymbolSizes = {}
    return {
        name: _checked_value(types[name], value, symbols)
        if name in types
        else _checked(args[name], value)
        for name, value in feed.items()
    }


def _checked_value(type: ValueType, value: Any, symbols: SymbolSizes) -> Any:
    try:
        return checked_value(f"the input {type}", type, value, symbols)
    except ShapeError as error:
        raise InvalidArgument(str(error)) from error


def _checked(arg: NodeArg, value: Any) -> Any:
    dtype = dtype_of_type(arg.type)
    if dtype is None:  # of maps and others, whose types the module checks
        return value
    listed = type(value) in (list, tuple, int, float, bool)
    array: Any = np.asarray(value, dtype) if listed else value
    array = native(cast(Any, array)) if isinstance(array, np.ndarray) else array
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise InvalidArgument(f"the input {arg.name!r} is a {type(value).__name__}: pass an array")
    passed = dtype_of(array)
    if passed is not None and passed != dtype and not (dtype.kind == "O" and passed.kind in "SU"):
        raise InvalidArgument(
            f"the input {arg.name!r} is {passed}, and the model takes {dtype} ({arg.type}):"
            " convert it"
        )
    shape = tuple(array.shape)
    if arg.shape and len(shape) != len(arg.shape):
        raise InvalidArgument(
            f"the input {arg.name!r} has {len(shape)} dimensions, {list(shape)}, and the model"
            f" takes {len(arg.shape)}, {arg.shape}"
        )
    for axis, (size, declared) in enumerate(zip(shape, arg.shape, strict=False)):
        if isinstance(declared, int) and size != declared:
            raise InvalidArgument(
                f"dimension {axis} of the input {arg.name!r} is {size}, and the model takes"
                f" {declared}"
            )
    return array


def dtype_of(array: Any) -> "np.dtype[Any] | None":
    """The numpy dtype of an array; None for a library's own that numpy does not know."""
    try:
        name = array.dtype
        return numpy_dtype(name) if isinstance(name, str) else np.dtype(name)
    except TypeError:
        return None
