"""Integers as guards and computed attributes of rules see them in a proof."""

from collections.abc import Callable
from typing import Any

import z3


class Branching(Exception):
    """A guard or a computed attribute decides on a symbol, which has no one truth value."""


class Truth:
    """A formula, which combines with `&`, `|` and `~`, as bools do."""

    def __init__(self, formula: Any):
        self.formula = formula

    def __and__(self, other: Any) -> "Truth":
        return Truth(z3.And(self.formula, formula(other)))

    def __or__(self, other: Any) -> "Truth":
        return Truth(z3.Or(self.formula, formula(other)))

    def __invert__(self) -> "Truth":
        return Truth(z3.Not(self.formula))

    __rand__, __ror__ = __and__, __or__

    def __bool__(self) -> bool:
        raise Branching(f"it branches on {self.formula}")


Divide = Callable[[Any, Any], Any]
"""The rounded-down quotient of two symbols."""


class Size:
    """An integer symbol with Python's arithmetic; comparisons are formulas."""

    def __init__(self, symbol: Any, divide: Divide):
        self.symbol, self.divide = symbol, divide

    def _size(self, symbol: Any) -> "Size":
        return Size(symbol, self.divide)

    def __add__(self, other: Any) -> "Size":
        return self._size(self.symbol + symbol(other))

    def __sub__(self, other: Any) -> "Size":
        return self._size(self.symbol - symbol(other))

    def __rsub__(self, other: Any) -> "Size":
        return self._size(symbol(other) - self.symbol)

    def __mul__(self, other: Any) -> "Size":
        return self._size(self.symbol * symbol(other))

    def __floordiv__(self, other: Any) -> "Size":
        return self._size(self.divide(self.symbol, symbol(other)))

    def __rfloordiv__(self, other: Any) -> "Size":
        return self._size(self.divide(symbol(other), self.symbol))

    def __mod__(self, other: Any) -> "Size":
        return self - self // other * other

    def __neg__(self) -> "Size":
        return self._size(-self.symbol)

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: Any) -> Any:
        return Truth(self.symbol == symbol(other))

    def __ne__(self, other: Any) -> Any:
        return Truth(self.symbol != symbol(other))

    def __lt__(self, other: Any) -> Truth:
        return Truth(self.symbol < symbol(other))

    def __le__(self, other: Any) -> Truth:
        return Truth(self.symbol <= symbol(other))

    def __gt__(self, other: Any) -> Truth:
        return Truth(self.symbol > symbol(other))

    def __ge__(self, other: Any) -> Truth:
        return Truth(self.symbol >= symbol(other))

    def __hash__(self) -> int:
        raise Branching(f"it looks {self.symbol} up")

    def __bool__(self) -> bool:
        raise Branching(f"it branches on {self.symbol}")

    def __index__(self) -> int:
        raise Branching(f"it counts to {self.symbol}")


def symbol(value: Any) -> Any:
    """The symbol of a Size, or a number as it is."""
    return value.symbol if isinstance(value, Size) else value


def formula(value: Any) -> Any:
    """The formula of a condition, or of a bool."""
    return value.formula if isinstance(value, Truth) else z3.BoolVal(bool(value))
