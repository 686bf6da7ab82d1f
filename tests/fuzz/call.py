"""A node as what is known of its differences sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Call:
    """A node with its attributes, opset and operands; one that is left out is None."""

    op: str
    attributes: Mapping[str, Any]
    opset: int
    inputs: list[Any]
    outputs: int = 1
    """The outputs that it names."""

    def has_nan(self) -> bool:
        """Whether an operand holds NaN."""
        return any(bool(np.isnan(x).any()) for x in self._floats())

    def has_infinity(self) -> bool:
        """Whether an operand holds an infinity."""
        return any(bool(np.isinf(x).any()) for x in self._floats())

    def is_finite(self, place: int) -> bool:
        """Whether one operand holds finite numbers only, or is left out."""
        given = self.inputs[place] if place < len(self.inputs) else None
        return given is None or bool(np.isfinite(np.asarray(given, np.float64)).all())

    def _floats(self) -> list[Array]:
        arrays: list[Array] = [x for x in self.inputs if isinstance(x, np.ndarray)]
        return [x for x in arrays if x.dtype.kind == "f"]
