"""A caller's values as numpy arrays of the host."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import numpy

from compiler.backends.memory import Array
from compiler.errors import FlowloomError, ShapeError


def native(array: Array) -> Array:
    """An array in this machine's byte order: the same one, or a copy."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@contextmanager
def reading(what: str) -> Generator[None]:
    """Turn any error of a value's own methods, which are a caller's code, into ShapeError.

    `what` names the value: "the input 'x'".
    """
    try:
        yield
    except FlowloomError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ShapeError(f"{what} cannot be read ({reason}): pass a numpy array") from error


def read_input(name: str, value: Any, *, listed: bool = False) -> Array:
    """An input as an array in this machine's byte order; `listed` takes lists and numbers, too.

    Raises ShapeError, which names the input, for a value that is not an array in host memory.
    """
    if isinstance(value, numpy.ndarray | numpy.generic):
        return native(numpy.asarray(cast(Any, value)))
    with reading(f"the input {name!r}"):
        if hasattr(value, "__dlpack__"):
            return native(numpy.from_dlpack(value))
        if listed:
            return native(numpy.asarray(value))
    kind = type(value).__name__
    raise ShapeError(f"the input {name!r} is a {kind}: pass a numpy array, or a DLPack one")
