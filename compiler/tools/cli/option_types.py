"""The types of options: each reads a text, and says what it must be."""

from argparse import ArgumentTypeError
from threading import TIMEOUT_MAX


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`x=1,3,224,224` as a name and a shape; a scalar is `x=`."""
    name, equals, dims = text.rpartition("=")
    try:
        shape = tuple(int(dim) for dim in dims.split(",")) if dims else ()
    except ValueError:
        equals = ""
        shape = ()
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r} is not of the form NAME=1,3,224,224")
    return name, shape


def seconds(text: str) -> float:
    """A number of seconds that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= TIMEOUT_MAX:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def megabytes(text: str) -> float:
    """A positive number of megabytes."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a size in megabytes")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def seed(text: str) -> int:
    """A whole number that is not negative."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)
