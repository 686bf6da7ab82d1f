"""How the bucket's graph computes a smaller one, with the masks that it needs."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.frontend.graph import Graph, Value
from compiler.frontend.padding.axes import Axis, Crop, Factor
from compiler.frontend.padding.effects import Mask, Need
from compiler.frontend.padding.pairs import CannotPad, OperatorPair, Pairing
from compiler.frontend.padding.rules import effect_of

_KEEP_ZEROS = ("Transpose", "Relu", "Neg", "Identity")


@dataclass(frozen=True, slots=True)
class PlacedNeed:
    """A need of an operator, by its number in the graph, for a factor of the need's axis.

    The factor has `size` indices, each of `stride` elements of the axis.
    """

    operator: int
    need: Need
    stride: int
    size: int


@dataclass(frozen=True, slots=True)
class Padding:
    """How a smaller graph is computed by the bucket's.

    `needs` have the number of the extent that they compare with. `extents` are the smaller sizes,
    `sizes` those of the bucket, and `outputs` slice the smaller outputs of the bucket's.
    """

    needs: Mapping[PlacedNeed, int]
    sizes: tuple[int, ...]
    extents: tuple[int, ...]
    outputs: tuple[Crop, ...]

    @property
    def digest(self) -> str:
        """The identity of what a bucket's graph has in addition."""
        return hashlib.sha256(repr([*self.needs.items()]).encode()).hexdigest()[:16]

    def extents_of(self, other: "Padding") -> tuple[int, ...]:
        """The extents of another size for these needs; raises CannotPad if it has others."""
        found: dict[int, int] = {}
        for place, number in other.needs.items():
            mine, extent = self.needs.get(place), other.extents[number]
            if mine is None or found.setdefault(mine, extent) != extent:
                raise CannotPad("other tensors are padded at this size than in the bucket")
        return tuple(found.get(number, size) for number, size in enumerate(self.sizes))


_Extent = tuple[str, int, int, int]
"""The dimension of an extent, as far as it is known, and its three sizes."""


@dataclass(slots=True)
class _Extents:
    """The extents that needs compare with, numbered."""

    numbers: dict[_Extent, int] = field(default_factory=dict[_Extent, int])

    def number(self, factor: Factor) -> int:
        key = factor.name, factor.size, factor.example, factor.extent
        return self.numbers.setdefault(key, len(self.numbers))


def padding_of(
    bucket: Graph,
    example: Graph,
    smaller: Graph,
    names: Mapping[str, Sequence[str]] | None = None,
) -> Padding:
    """How a smaller graph is computed by the bucket's; raises CannotPad if it cannot be.

    The example is the graph of sizes that are all smaller than the bucket's: what differs there is
    padded in some runs. `names` are those of the dimensions of inputs.
    """
    pairing, extents = Pairing.of(bucket, example, smaller, names or {}), _Extents()
    needs: dict[PlacedNeed, int] = {}
    zeros: dict[Value, frozenset[int]] = {}
    others = pairing.operators(bucket, example), pairing.operators(bucket, smaller)
    operators = zip(bucket.operators, *others, strict=True)
    for number, (large, middle, small) in enumerate(operators):
        pair = pairing.pair(large, middle, small)
        effect = effect_of(pair)
        pairing.define(pair, effect.axes)
        for need in effect.needs:
            if not _is_zero(pair, need, zeros):
                for stride, factor in _needed(pair, need).strided:
                    if factor.open:
                        place = PlacedNeed(number, need, stride, factor.size)
                        needs[place] = extents.number(factor)
        if pair.outputs[0] is not None:
            zeros[pair.output.large] = _zero_axes(pair, zeros)
    return Padding(
        needs,
        sizes=tuple(size for _, size, _, _ in extents.numbers),
        extents=tuple(extent for *_, extent in extents.numbers),
        outputs=_outputs(pairing, bucket, example, smaller),
    )


def _needed(pair: OperatorPair, need: Need) -> Axis:
    """The axis with the padding that a need is about."""
    return pair.operand(need.index if isinstance(need, Mask) else 0).axes[need.axis]


def _outputs(pairing: Pairing, bucket: Graph, example: Graph, smaller: Graph) -> tuple[Crop, ...]:
    if [name for name, _ in bucket.outputs] != [name for name, _ in smaller.outputs]:
        raise CannotPad("its graph has other outputs, as some are inputs or constants at one size")
    triples = zip(bucket.outputs, example.outputs, smaller.outputs, strict=True)
    found = [pairing.output(a, b, c) for (_, a), (_, b), (_, c) in triples]
    return tuple(Crop.of(pair.axes) for pair in found)


def _is_zero(pair: OperatorPair, need: Need, zeros: Mapping[Value, frozenset[int]]) -> bool:
    """Whether the padding that a mask fills with zeros has them already."""
    if not isinstance(need, Mask) or need.fill != 0:
        return False
    return need.axis in zeros.get(pair.operand(need.index).large, ())


def _zero_axes(pair: OperatorPair, zeros: Mapping[Value, frozenset[int]]) -> frozenset[int]:
    """The axes of a result along which the padding is zero."""
    operator = pair.operator
    if operator.op_type == "Softmax":
        axis = operator["axis"] % pair.output.large.rank
        return frozenset({axis} & {*pair.operand(0).open})
    data = operator.inputs[0] if operator.inputs else None
    known = zeros.get(data, frozenset()) if data is not None else frozenset[int]()
    if operator.op_type == "Transpose":
        order = operator.attributes["perm"]
        return frozenset(new for new, old in enumerate(order) if old in known)
    return known if operator.op_type in _KEEP_ZEROS else frozenset()
