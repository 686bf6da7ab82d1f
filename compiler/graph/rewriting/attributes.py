"""Attributes of terms: those of operators, frozen, but for a Slice of one axis and step 1.

Such a Slice has `axis`, `start` and `stop`, by which rules match it on a tensor of any rank.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from compiler.net.operators import KnownTensor
from compiler.net.operators.canonical import complete_attributes
from compiler.net.operators.shapes import axis_in

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrozenArray:
    """A constant operand by its content."""

    dtype: str
    shape: Shape
    content: bytes

    @classmethod
    def of(cls, array: NDArray[Any]) -> "FrozenArray":
        """The content of an array."""
        return cls(str(array.dtype), array.shape, array.tobytes())

    @property
    def array(self) -> NDArray[Any]:
        """The array."""
        return np.frombuffer(self.content, self.dtype).reshape(self.shape)


def with_defaults(
    kind: str, attributes: Mapping[str, Hashable], shapes: Sequence[Shape | None]
) -> dict[str, Hashable]:
    """All attributes but the extents of a Conv's kernel, which are its weight's; lists as tuples.

    Axes count from the front.
    """
    full = {
        name: _frozen(value)
        for name, value in complete_attributes(kind, attributes, shapes).items()
    }
    if kind == "Conv":
        del full["kernel_shape"]
    return full


def _frozen(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return FrozenArray.of(cast(NDArray[Any], value))
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def as_term(attributes: Mapping[str, Any], shape: Shape) -> dict[str, Hashable]:
    """The attributes of a term for an operator whose first operand has a shape."""
    sliced = set(attributes) == {"start", "step", "size"}
    if sliced and (bounds := _one_slice(attributes, shape)) is not None:
        return bounds
    return {name: _frozen(value) for name, value in attributes.items()}


def _one_slice(attributes: Mapping[str, Any], shape: Shape) -> dict[str, Hashable] | None:
    """The bounds of a Slice along one axis with step 1; None of any other."""
    start, size = attributes["start"], attributes["size"]
    cut = [axis for axis, extent in enumerate(shape) if size[axis] != extent]
    if len(cut) > 1 or not shape or any(step != 1 for step in attributes["step"]):
        return None
    axis = cut[0] if cut else 0
    return {"axis": axis, "start": start[axis], "stop": start[axis] + size[axis]}


def as_operator(
    tensors: Sequence[KnownTensor | None], attributes: Mapping[str, Hashable]
) -> dict[str, Any]:
    """The attributes of an operator for a term on some operands."""
    plain: dict[str, Any] = dict(attributes)
    if "stop" in plain and tensors[0] is not None:
        return _bounds_of_each_axis(tensors[0].shape, **plain)
    return {
        name: list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value
        for name, value in plain.items()
    }


def _bounds_of_each_axis(shape: Shape, axis: int, start: int, stop: int) -> dict[str, Any]:
    """The attributes of a Slice of one axis; raises ShapeMismatch for an axis that is not there."""
    axis_in(axis, len(shape))
    starts = [0] * len(shape)
    sizes = list(shape)
    starts[axis], sizes[axis] = start, stop - start
    return {"start": starts, "step": [1] * len(shape), "size": sizes}
