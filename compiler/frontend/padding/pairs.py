"""Pairs of values: a bucket's tensor and the smaller graph's, which is its leading box."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.frontend.graph import Graph, Operator, Value
from compiler.ir.operators import STRUCTURAL_INPUTS


class CannotPad(Exception):
    """Raised where the bucket's graph does not compute a smaller one; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of the bucket, and that of the smaller graph."""

    large: Value
    small: Value

    @property
    def padded(self) -> tuple[int, ...]:
        """The axes along which there is padding."""
        sizes = zip(self.large.shape, self.small.shape, strict=True)
        return tuple(axis for axis, (large, small) in enumerate(sizes) if large != small)


@dataclass(frozen=True, slots=True)
class OperatorPair:
    """An operator of both graphs; inputs that are left out are None."""

    operator: Operator
    smaller: Operator
    inputs: tuple[Pair | None, ...]
    outputs: tuple[Pair | None, ...]

    def operand(self, index: int) -> Pair:
        """An input that the operator always has."""
        pair = self.inputs[index]
        assert pair is not None, self.operator.node
        return pair

    @property
    def output(self) -> Pair:
        """The first output."""
        pair = self.outputs[0]
        assert pair is not None, self.operator.node
        return pair

    @property
    def label(self) -> str:
        """Its operator and node, for messages."""
        return f"{self.operator.op_type} {self.operator.node!r}"


def operator_pairs(bucket: Graph, smaller: Graph) -> Iterator[OperatorPair]:
    """The operators of both graphs in order; raises CannotPad if they are not the same."""
    if len(bucket.operators) != len(smaller.operators):
        raise CannotPad("its graph has other operators")
    partner = dict(zip(smaller.inputs, bucket.inputs, strict=True))
    for large, small in zip(bucket.operators, smaller.operators, strict=True):
        if large.op_type != small.op_type or not _same(large.attributes, small.attributes):
            raise CannotPad(f"{small.op_type} {small.node!r} is another operator in its graph")
        if large.bodies:
            raise CannotPad(f"{small.op_type} {small.node!r} has bodies")
        structural = STRUCTURAL_INPUTS.get(large.op_type, ())
        inputs = tuple(
            _input_pair(a, b, partner, index in structural)
            for index, (a, b) in enumerate(zip(large.inputs, small.inputs, strict=True))
        )
        outputs = tuple(map(_pair, large.outputs, small.outputs))
        partner |= {p.small: p.large for p in outputs if p is not None}
        yield OperatorPair(large, small, inputs, outputs)


def _pair(large: Value | None, small: Value | None) -> Pair | None:
    """Two values of the same type and rank, or two that are left out."""
    if large is None or small is None:
        if large is not small:
            raise CannotPad("its operators have other operands")
        return None
    if large.dtype != small.dtype or large.rank != small.rank:
        raise CannotPad(f"{small.name!r} has another type in its graph")
    if any(a < b for a, b in zip(large.shape, small.shape, strict=True)):
        raise CannotPad(f"{small.name!r} is larger in its graph")
    return Pair(large, small)


def _input_pair(
    large: Value | None, small: Value | None, partner: Mapping[Value, Value], structural: bool
) -> Pair | None:
    if large is None or small is None:
        return _pair(large, small)
    if small.array is None or large.array is None:
        if partner.get(small) is not large:
            raise CannotPad(f"{small.name!r} is computed in another way in its graph")
        return Pair(large, small)
    if structural:
        return Pair(large, small) if large.rank == small.rank else None
    pair = _pair(large, small)
    box = tuple(slice(0, size) for size in small.shape)
    if not _equal(large.array[box], small.array):
        raise CannotPad(f"the constant {small.name!r} depends on the size")
    return pair


def _equal(large: np.ndarray, small: np.ndarray) -> bool:
    """Whether two arrays are equal; those of the same memory, such as weights, are."""
    first, second = large.__array_interface__, small.__array_interface__
    same = all(first[key] == second[key] for key in ("data", "shape", "strides", "typestr"))
    return same or np.array_equal(large, small, equal_nan=small.dtype.kind == "f")


def _same(large: Mapping[str, object], small: Mapping[str, object]) -> bool:
    if large.keys() != small.keys():
        return False
    return all(np.array_equal(large[key], small[key]) for key in large)  # pyright: ignore
