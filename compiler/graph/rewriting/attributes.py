"""Attributes of terms: ONNX's with all defaults, and structural operands by name.

A term has only tensors as inputs. The constants that ONNX passes as operands (axes, sizes, pads)
are attributes here: a Slice of one axis and step 1 has `axis`, `start` and `stop`, a Reshape
`shape`, a Pad of zeros `pads`; any other structural operand stays an array, as `operand N`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from compiler.net.operators import KnownTensor
from compiler.net.operators.canonical import complete_attributes
from compiler.net.operators.injective import slice_range

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
        full.pop("kernel_shape", None)
    return full


def _frozen(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return FrozenArray.of(cast(NDArray[Any], value))
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def _thawed(value: Any) -> Any:
    return list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value


def as_term(
    kind: str,
    constants: Mapping[int, NDArray[Any]],
    attributes: Mapping[str, Any],
    shape: Shape,
    result: Shape,
) -> dict[str, Hashable]:
    """The attributes of a term for an operator, with its structural operands by position.

    `shape` and `result` are the shapes of its first operand and result.
    """
    full: dict[str, Hashable] = {name: _frozen(value) for name, value in attributes.items()}
    if kind == "Reshape":
        return {"shape": result}
    if kind == "Slice" and (bounds := _one_slice(constants, shape)) is not None:
        return bounds
    if kind == "Pad" and 3 not in constants:
        return {**full, "pads": tuple(map(int, constants[1]))}
    return full | {f"operand {i}": FrozenArray.of(array) for i, array in constants.items()}


def _one_slice(constants: Mapping[int, NDArray[Any]], shape: Shape) -> dict[str, Hashable] | None:
    """The bounds of a Slice along one axis with step 1, from the front."""
    if constants[1].size != 1 or 3 not in constants:
        return None
    if 4 in constants and constants[4].item() != 1:
        return None
    axis = int(constants[3].item()) % len(shape)
    part = slice_range(shape[axis], int(constants[1].item()), int(constants[2].item()), 1)
    return {"axis": axis, "start": part.start, "stop": max(part.start, part.stop)}


def as_operator(
    kind: str, tensors: Sequence[KnownTensor | None], attributes: Mapping[str, Hashable]
) -> tuple[list[KnownTensor | None], dict[str, Any]]:
    """ONNX's operands, constants among them, and ONNX's attributes of a term."""
    plain: dict[str, Any] = dict(attributes)
    structural = _structural(kind, plain)
    operands = list(tensors)
    for position in sorted(structural):
        array = structural[position]
        operands += [None] * (position - len(operands))
        operands.insert(position, KnownTensor(str(array.dtype), array.shape, array))
    return operands, {name: _thawed(value) for name, value in plain.items()}


def _structural(kind: str, plain: dict[str, Any]) -> dict[int, NDArray[Any]]:
    """Take the structural operands out of a term's attributes, by position."""
    named = [name for name in plain if name.startswith("operand ")]
    arrays: dict[int, NDArray[Any]] = {int(n.split()[1]): plain.pop(n).array for n in named}
    if kind == "Slice" and "start" in plain:
        numbers = (plain.pop("start"), plain.pop("stop"), plain.pop("axis"))
        arrays = {i + 1: np.array([number], np.int64) for i, number in enumerate(numbers)}
    if kind == "Reshape":
        arrays = {1: np.array(plain.pop("shape"), np.int64)}
    if kind == "Pad" and "pads" in plain:
        arrays = {1: np.array(plain.pop("pads"), np.int64)}
    return arrays
