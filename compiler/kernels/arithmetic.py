"""Integer arithmetic of kernels."""

from typing import Any


def ceil_div(number: Any, divisor: Any) -> Any:
    """The quotient, rounded up; of an extent over symbols another one."""
    return -(-number // divisor)


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is not below a number."""
    return -(-number // multiple) * multiple
