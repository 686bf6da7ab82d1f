"""QuantisedGraph that integers stand for."""

from dataclasses import dataclass, replace

import numpy as np

from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.tensors.dtypes import FLOAT8


@dataclass(frozen=True, eq=False, slots=True)
class Dequantised:
    """Floats that integers of a dtype stand for; a vector of scales is along `axis`.

    `move` made them of the floats of `source`, or their `integers` of those of `source` where the
    graph has these. `origin` is the QuantizeLinear whose integers they are, but for moves.
    """

    node: str
    dtype: str
    scale: Value
    zero: Value | None
    axis: int = 0
    integers: Value | None = None
    source: "Dequantised | None" = None
    move: Node[Value] | None = None
    origin: Node[Value] | None = None
    moves: int = 0
    """How many operators moved the numbers one after another."""

    @property
    def whole(self) -> bool:
        """Whether one scale and one zero point hold for the whole tensor."""
        return not self.scale.shape and (self.zero is None or not self.zero.shape)

    @property
    def is_bytes(self) -> bool:
        """Whether the integers are bytes."""
        return self.dtype in ("int8", "uint8")

    @property
    def is_float8(self) -> bool:
        """Whether they are floats of a byte, whose zero point is 0, instead of integers."""
        zero = None if self.zero is None else self.zero.array
        return self.dtype in FLOAT8 and (
            self.zero is None or (zero is not None and not zero.astype("float32").any())
        )

    @property
    def constant(self) -> Value | None:
        """The integers, if they are constants."""
        return None if self.integers is None or self.integers.array is None else self.integers

    def scaled_by(self, scale: Value, zero: Value | None) -> "Dequantised":
        """The numbers that the same integers stand for by another scale and zero point."""
        if is_same(self.scale, scale) and is_same(self.zero, zero):
            return self
        source = self.source and self.source.scaled_by(scale, zero)
        return replace(self, scale=scale, zero=zero, source=source)


def is_same(one: Value | None, other: Value | None) -> bool:
    """Whether two scales or zero points are equal; a zero point that is left out is 0."""
    if one is other:
        return True
    arrays = [np.zeros(()) if value is None else value.array for value in (one, other)]
    first, second = arrays
    return first is not None and second is not None and np.array_equal(first, second)
