"""Pairs of values: a bucket's tensor, and the smaller graph's, whose elements it has."""

from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.frontend.graph import Graph, Operator, Value
from compiler.frontend.padding.axes import Axes, Axis, Crop, boxed_axes
from compiler.net.operators import OPERATORS, STRUCTURAL_INPUTS

_LEFT_OUT = ("Expand", "Reshape", "Slice", "Tile")
"""Operators that some graphs do without, as they keep their input there."""


class CannotPad(Exception):
    """Raised where the bucket's graph does not compute a smaller one; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor of the bucket, that of its example, that of the smaller graph, and its axes."""

    large: Value
    example: Value
    small: Value
    axes: Axes

    @property
    def open(self) -> tuple[int, ...]:
        """The axes along which there is padding for some runs in the bucket."""
        return tuple(number for number, axis in enumerate(self.axes) if axis.open)

    @property
    def fits(self) -> bool:
        """Whether its axes have the sizes of its tensors."""
        shapes = zip(self.large.shape, self.example.shape, self.small.shape, strict=True)
        return [axis.sizes for axis in self.axes] == [*shapes]


@dataclass(frozen=True, slots=True)
class OperatorPair:
    """An operator of the bucket and of the smaller graph; inputs that are left out are None.

    The axes of outputs are boxes, as long as no rule has found theirs.
    """

    operator: Operator
    smaller: Operator
    inputs: tuple[Pair | None, ...]
    outputs: tuple[Pair | None, ...]

    def operand(self, index: int) -> Pair:
        """An input that the operator always has."""
        pair = self.inputs[index]
        assert pair is not None, self.operator.node
        return pair

    def given(self, index: int) -> Pair | None:
        """An input that may be left out."""
        return self.inputs[index] if index < len(self.inputs) else None

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

    def refusal(self, reason: str, *axes: Axis) -> CannotPad:
        """The error of an operator that padding along some axes keeps out of the bucket."""
        names = " and ".join(dict.fromkeys(axis.names for axis in axes if axis.open))
        return CannotPad(f"{self.label} {reason}" + (f" (dimension {names})" if names else ""))


@dataclass(slots=True)
class Pairing:
    """The tensors of a bucket that are known so far, with those of its example and a smaller graph.

    Raises CannotPad if the graphs are not the same but for sizes.
    """

    given: list[Pair] = field(default_factory=list[Pair])
    known: dict[Value, Pair] = field(default_factory=dict[Value, Pair])

    @classmethod
    def of(
        cls, bucket: Graph, example: Graph, smaller: Graph, names: Mapping[str, Sequence[str]]
    ) -> "Pairing":
        """The graphs' inputs; `names` are those of the dimensions of each."""
        found = cls()
        inputs = zip(bucket.inputs, example.inputs, smaller.inputs, strict=True)
        for large, middle, small in inputs:
            own = names.get(large.name, [f"{large.name}.{i}" for i in range(large.rank)])
            pair = _boxed(large, middle, small, own)
            assert pair is not None
            found.given.append(pair)
            found.known[large] = pair
        return found

    def pair(
        self, large: Operator, example: Operator | None, small: Operator | None
    ) -> OperatorPair:
        """An operator of each graph, the inputs of which are known; None if it keeps its input."""
        data = None if large.inputs[0] is None else self.known.get(large.inputs[0])
        if data is not None:
            example = example or _kept(large, data.example)
            small = small or _kept(large, data.small)
        try:
            if example is None or small is None:
                raise CannotPad("is computed before runs in the smaller graph")
            return self._paired(large, example, small)
        except CannotPad as reason:
            raise self._refusal(f"{large.op_type} {large.node!r} {reason}") from None

    def _paired(self, large: Operator, example: Operator, small: Operator) -> OperatorPair:
        decided = OPERATORS[large.op_type].decided if not large.bodies else frozenset[str]()
        same = large.op_type == small.op_type
        if not same or not _same(large.attributes, small.attributes, decided):
            raise CannotPad("is another operator in the smaller graph")
        if large.bodies:
            raise CannotPad("has bodies")
        if not len(large.inputs) == len(example.inputs) == len(small.inputs):
            raise CannotPad("has other operands in the smaller graph")
        operands = [*zip(large.inputs, example.inputs, small.inputs, strict=True)]
        computed = [self._computed(*operand) for operand in operands]
        axes = [axis for pair in computed if pair for axis in pair.axes]
        unequal = {*STRUCTURAL_INPUTS.get(large.op_type, ()), *_indices(large, computed[0])}
        inputs = tuple(
            found or _constant(*operand, axes, equal=index not in unequal)
            for index, (found, operand) in enumerate(zip(computed, operands, strict=True))
        )
        outputs = tuple(map(_boxed, large.outputs, example.outputs, small.outputs))
        return OperatorPair(large, small, inputs, outputs)

    def operators(self, bucket: Graph, other: Graph) -> list[Operator | None]:
        """The operator of another graph for each of the bucket's; None if it keeps its input there.

        The frontend leaves those out, for instance an Expand to a batch of 1.
        """
        rest = deque(other.operators)
        found: list[Operator | None] = []
        for large in bucket.operators:
            same = bool(rest) and (rest[0].op_type, rest[0].node) == (large.op_type, large.node)
            if same or (rest and large.op_type not in _LEFT_OUT):
                found.append(rest.popleft())
            elif large.op_type in _LEFT_OUT:
                found.append(None)
            else:
                raise self._refusal(f"{large.op_type} {large.node!r} is not in the smaller graph")
        if rest:
            raise self._refusal(f"{rest[0].op_type} {rest[0].node!r} is in the smaller graph only")
        return found

    def _refusal(self, reason: str) -> CannotPad:
        """The error of graphs that differ in more than sizes, with all padded dimensions."""
        axes = [axis for pair in self.given for axis in pair.axes]
        names = dict.fromkeys(axis.names for axis in axes if axis.open)
        return CannotPad(f"{reason} (dimension {' or '.join(names)})")

    def define(self, pair: OperatorPair, axes: Sequence[Axes]) -> None:
        """Let the outputs of an operator have some axes."""
        for output, found in zip(pair.outputs, axes, strict=False):
            if output is not None:
                known = replace(output, axes=found)
                if not known.fits:
                    raise pair.refusal("has a result of another size", *found)
                self.known[output.large] = known

    def output(self, large: Value, example: Value, small: Value) -> Pair:
        """An output of the graphs."""
        try:
            found = self._computed(large, example, small)
            found = found or _constant(large, example, small, (), equal=True)
        except CannotPad as reason:
            raise self._refusal(f"the output {small.name!r} {reason}") from None
        assert found is not None
        return found

    def _computed(
        self, large: Value | None, example: Value | None, small: Value | None
    ) -> Pair | None:
        """The tensors that an input or an operator makes; None for constants."""
        if large is None or small is None or example is None:
            return None
        if small.array is not None and large.array is not None:
            return None
        pair = self.known.get(large)
        if pair is None or pair.small is not small:
            raise CannotPad(
                f"reads {small.name!r}, which the smaller graph computes in another way"
            )
        return pair


def _kept(operator: Operator, value: Value) -> Operator:
    """An operator of the bucket, on another value that it keeps; a Slice is a whole one."""
    attributes = operator.attributes
    if operator.op_type == "Slice":
        start, step = [0] * value.rank, [1] * value.rank
        attributes = {"start": start, "step": step, "size": list(value.shape)}
    inputs = [value, *operator.inputs[1:]]
    return replace(operator, inputs=inputs, outputs=[value], attributes=attributes)


def _boxed(
    large: Value | None, example: Value | None, small: Value | None, names: Sequence[str] = ()
) -> Pair | None:
    """Values of the same type and rank, or some that are left out."""
    if large is None or small is None or example is None:
        if large is not small:
            raise CannotPad("has other operands in the smaller graph")
        return None
    if large.dtype != small.dtype or not large.rank == small.rank == example.rank:
        raise CannotPad(f"has {small.name!r} of another type in the smaller graph")
    if any(a < b for a, b in zip(large.shape, small.shape, strict=True)):
        raise CannotPad(f"has {small.name!r} larger in the smaller graph")
    return Pair(large, example, small, boxed_axes(large.shape, example.shape, small.shape, names))


def _indices(operator: Operator, data: Pair | None) -> tuple[int, ...]:
    """The operand with places in a padded axis, whose numbers may be other ones in the bucket."""
    if operator.op_type != "Gather" or data is None:
        return ()
    axis: int = operator["axis"]
    return (1,) if data.axes[axis].open else ()


def _constant(
    large: Value | None,
    example: Value | None,
    small: Value | None,
    others: Sequence[Axis],
    *,
    equal: bool,
) -> Pair | None:
    """Constants, mostly with equal elements; their axes are padded like those of others."""
    if large is None or small is None or example is None:
        return _boxed(large, example, small)
    if not equal and not large.rank == small.rank == example.rank:
        return None
    pair = _boxed(large, example, small)
    assert pair is not None
    by_sizes = {axis.sizes: axis for axis in others if axis.open}
    pair = replace(pair, axes=tuple(by_sizes.get(axis.sizes, axis) for axis in pair.axes))
    if equal and not _equal(large.content, pair):
        raise CannotPad(f"reads the constant {small.name!r}, which depends on the size")
    return pair


def _equal(large: np.ndarray, pair: Pair) -> bool:
    """Whether two arrays are equal; those of the same memory, such as weights, are."""
    small = pair.small.content
    first, second = large.__array_interface__, small.__array_interface__
    same = all(first[key] == second[key] for key in ("data", "shape", "strides", "typestr"))
    return same or np.array_equal(
        Crop.of(pair.axes)(large), small, equal_nan=small.dtype.kind == "f"
    )


def _same(
    large: Mapping[str, object], small: Mapping[str, object], decided: AbstractSet[str]
) -> bool:
    """Whether attributes are equal, besides those that sizes may decide."""
    if large.keys() != small.keys():
        return False
    return all(np.array_equal(large[key], small[key]) for key in large.keys() - decided)  # pyright: ignore
