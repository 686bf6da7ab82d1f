"""Which convolutions or products that read one tensor with weights of their own can be one."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from compiler.graph.attention import find_attentions
from compiler.graph.network import GraphNetwork, GraphNode, users_of
from compiler.ir.operators import KINDS, Kind


@dataclass(frozen=True, slots=True)
class Family:
    """Branches that can be one: each is an anchor and the elementwise operators behind it.

    The results lie beside each other along `axis`; all branches have as many operators, and
    operators of one place differ in their weights only.
    """

    branches: tuple[tuple[int, ...], ...]
    axis: int


def find_families(network: GraphNetwork, products: bool, convolutions: bool) -> list[Family]:
    """Families of products whose results only attention looks at, where they may lie apart, and
    of convolutions of one image, whose results are then views."""
    finder = _Finder(network)
    alike: dict[Hashable, list[int]] = {}
    for i, node in enumerate(network.operators):
        wanted = convolutions if node.type == "Conv" else products
        if wanted and (key := finder.key(node)) is not None:
            alike.setdefault(key, []).append(i)
    found = (finder.family(anchors) for anchors in alike.values())
    return [family for family in found if family is not None]


def weight_axis(node: GraphNode, operand: int) -> int:
    """The axis of a weight that counts results, of an anchor or of an operator behind it."""
    columns = node.type == "MatMul" or (node.type == "Gemm" and not node.attributes.get("transB"))
    return 1 if operand == 1 and columns else 0


class _Finder:
    def __init__(self, network: GraphNetwork):
        self.network, self.users = network, users_of(network)
        self.kept = frozenset(network.outputs)
        self.inside: dict[int, set[int]] = {}
        for attention in find_attentions(network):
            for operand in (attention.query, attention.key, attention.value):
                self.inside.setdefault(operand.source, set()).update(attention.operators)

    def key(self, node: GraphNode) -> Hashable | None:
        """What the anchors of a family have in common; None for any other operator."""
        if node.type not in ("Conv", "MatMul", "Gemm") or node.attributes.get("group", 1) != 1:
            return None
        weights = node.inputs[1:]
        shapes = [self.shape(v) for v in weights]
        if None in weights or not self.network.weights.issuperset(weights):
            return None
        if (node.type != "Conv" and len(shapes[0]) != 2) or any(len(s) != 1 for s in shapes[1:]):
            return None
        if self.shape(node.outputs[0])[self.axis(node)] < 2 or node.inputs[0] in weights:
            return None
        rest = list(shapes[0])
        del rest[weight_axis(node, 1)]
        attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
        return node.type, node.inputs[0], attributes, tuple(rest), len(weights)

    def shape(self, value: int | None) -> tuple[int, ...]:
        """The shape of a value; of none for one left out."""
        return () if value is None else self.network.values[value].shape

    def axis(self, node: GraphNode) -> int:
        """The axis of an anchor's result that counts its channels or columns."""
        return 1 if node.type == "Conv" else len(self.shape(node.outputs[0])) - 1

    def family(self, anchors: Sequence[int]) -> Family | None:
        """The largest family of some anchors with what follows each, if it has two branches."""
        axis = self.axis(self.network.operators[anchors[0]])
        alike: dict[Hashable, list[tuple[int, ...]]] = {}
        for anchor in anchors:
            chain = (anchor, *self.followers(anchor, axis))
            if self.is_free(chain[-1], axis):
                alike.setdefault(tuple(map(self.follower_key, chain[1:])), []).append(chain)
        most = max(alike.values(), key=len, default=list[tuple[int, ...]]())
        return Family(tuple(most), axis) if len(most) > 1 else None

    def followers(self, anchor: int, axis: int) -> Iterator[int]:
        """The elementwise operators behind an anchor that need nothing but weights and scalars."""
        value = self.network.operators[anchor].outputs[0]
        while len(self.users[value]) == 1 and value not in self.kept:
            user = self.users[value][0]
            node = self.network.operators[user]
            others = [v for v in node.inputs if v != value]
            fits = len(others) + 1 == len(node.inputs) and all(
                v is not None and self.is_own(v, value, axis) for v in others
            )
            if KINDS.get(node.type) is not Kind.ELEMENTWISE or len(node.outputs) != 1 or not fits:
                return
            yield user
            value = node.outputs[0]

    def is_own(self, operand: int, value: int, axis: int) -> bool:
        """Whether an operand is a scalar, or a weight with an element for each result of a line."""
        shape = self.shape(operand)
        if operand in self.network.constants:
            return prod(shape) == 1
        last = axis == len(self.shape(value)) - 1
        return operand in self.network.weights and last and shape == self.shape(value)[axis:]

    def follower_key(self, number: int) -> Hashable:
        """What operators of one place in a family have in common."""
        node = self.network.operators[number]
        operands = tuple(
            ("constant", self.network.constants[v].tobytes()) if v in self.network.constants
            else v in self.network.weights
            for v in node.inputs if v is not None
        )  # fmt: skip
        attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
        return node.type, attributes, operands, self.network.values[node.outputs[0]].dtype

    def is_free(self, last: int, axis: int) -> bool:
        """Whether a part of a larger tensor can stand for a branch's result at no cost."""
        value = self.network.operators[last].outputs[0]
        if value in self.kept:
            return False
        if prod(self.shape(value)[:axis]) == 1:
            types = [self.network.operators[user].type for user in self.users[value]]
            return not {"Concat", "Reshape"}.intersection(types)
        return set(self.users[value]) <= self.inside.get(value, set())
