"""Which MatMuls or convolutions of one tensor can be fused horizontally."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

from compiler.graph.attention import find_attentions
from compiler.graph.network import GraphNetwork, Node, users_of
from compiler.ir.nodes import GROUP
from compiler.net.operators import KINDS, Kind
from compiler.net.operators.contractions import FLOAT_CONTRACTIONS, GEMMS


@dataclass(frozen=True, slots=True)
class Family:
    """Branches that can be fused: each is an anchor and the elementwise operators that follow.

    The fused result is the branches' results concatenated along `axis`. All branches have the same
    operators except for their weights.
    """

    branches: tuple[tuple[int, ...], ...]
    axis: int


def find_families(network: GraphNetwork, fewest: int | None, convolutions: bool) -> list[Family]:
    """Families of MatMuls, of at least `fewest` results together, that kernels read which take
    strided operands, and of convolutions of one image whose results can be contiguous slices."""
    finder = _Finder(network)
    alike: dict[Hashable, list[int]] = {}
    for i, node in enumerate(network.operators):
        wanted = fewest is not None if node.type in GEMMS else convolutions
        if wanted and (key := finder.key(node)) is not None:
            alike.setdefault(key, []).append(i)
    families = (finder.family(anchors) for anchors in alike.values())
    complete = [family for family in families if family is not None]
    return [
        f
        for f in complete
        if finder.network.operators[f.branches[0][0]].type not in GEMMS
        or finder.results(f) >= (fewest or 0)
    ]


def head_size(before: Sequence[int], after: Sequence[int]) -> int | None:
    """The columns of a head where a Reshape splits the last axis into heads; None for another."""
    if len(after) < 2 or prod(after[-2:]) != before[-1] or prod(after) != prod(before):
        return None
    return after[-1]


def weight_axis(node: Node[int], operand: int) -> int:
    """The output axis of a weight of an anchor, or of an elementwise operator that follows."""
    columns = node.type in GEMMS and not node.attributes.get("transB")
    return 1 if operand == 1 and columns else 0


class _Finder:
    def __init__(self, network: GraphNetwork):
        self.network, self.users = network, users_of(network)
        self.kept = frozenset(network.outputs)
        self.inside: dict[int, set[int]] = {}
        for attention in find_attentions(network):
            for operand in (attention.query, attention.key, attention.value):
                self.inside.setdefault(operand.source, set()).update(attention.operators)

    def key(self, node: Node[int]) -> Hashable | None:
        """A key that the anchors of a family share; None for other operators."""
        if node.type not in FLOAT_CONTRACTIONS or node.type == "ConvTranspose":
            return None
        if node["group"] not in (None, 1):
            return None
        weights = node.inputs[1:]
        shapes = [self.shape(v) for v in weights]
        if None in weights or not self.network.weights.issuperset(weights):
            return None
        if (node.type in GEMMS and len(shapes[0]) != 2) or any(len(s) != 1 for s in shapes[1:]):
            return None
        if self.shape(node.outputs[0])[self.axis(node)] < 2 or node.inputs[0] in weights:
            return None
        rest = list(shapes[0])
        del rest[weight_axis(node, 1)]
        attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
        return node.type, node.inputs[0], attributes, tuple(rest), len(weights)

    def shape(self, value: int | None) -> tuple[int, ...]:
        """The shape of a value; empty for an omitted operand."""
        return () if value is None else self.network.values[value].shape

    def axis(self, node: Node[int]) -> int:
        """The channel or column axis of an anchor's result."""
        return len(self.shape(node.outputs[0])) - 1 if node.type in GEMMS else 1

    def family(self, anchors: Sequence[int]) -> Family | None:
        """The largest family of some anchors, or None if it has fewer than two branches."""
        axis = self.axis(self.network.operators[anchors[0]])
        alike: dict[Hashable, list[tuple[int, ...]]] = {}
        for anchor in anchors:
            chain = (anchor, *self.followers(anchor, axis))
            if self.can_be_sliced(chain[-1], axis):
                alike.setdefault(tuple(map(self.follower_key, chain[1:])), []).append(chain)
        most = max(alike.values(), key=len, default=list[tuple[int, ...]]())
        return Family(tuple(most), axis) if len(most) > 1 and self.has_whole_heads(most) else None

    def results(self, family: Family) -> int:
        """The elements of the fused result."""
        return sum(prod(self.shape(self.result(branch))) for branch in family.branches)

    def result(self, branch: Sequence[int]) -> int:
        """The value that a branch computes."""
        return self.network.operators[branch[-1]].outputs[0]

    def has_whole_heads(self, branches: Sequence[Sequence[int]]) -> bool:
        """Whether each branch begins at whole heads of its size, into which all columns divide."""
        widths = [self.shape(self.result(branch))[-1] for branch in branches]
        firsts = (0, *accumulate(widths))
        return all(
            first % size == 0 and firsts[-1] % size == 0
            for first, branch in zip(firsts, branches, strict=False)
            for size in self.head_sizes(self.result(branch))
        )

    def head_sizes(self, value: int) -> Iterator[int]:
        """The columns of a head in each Reshape that splits a value's columns."""
        for user in self.users[value]:
            node = self.network.operators[user]
            if node.type != "Reshape":
                continue
            size = head_size(self.shape(value), self.shape(node.outputs[0]))
            if size is not None:
                yield size

    def followers(self, anchor: int, axis: int) -> Iterator[int]:
        """The elementwise operators after an anchor whose other operands are weights or scalars."""
        value = self.network.operators[anchor].outputs[0]
        while len(self.users[value]) == 1 and value not in self.kept:
            user = self.users[value][0]
            node = self.network.operators[user]
            others = [v for v in node.inputs if v != value]
            fits = len(others) + 1 == len(node.inputs) and all(
                v is not None and self.is_per_result(v, value, axis) for v in others
            )
            if KINDS.get(node.type) is not Kind.ELEMENTWISE or len(node.outputs) != 1 or not fits:
                return
            yield user
            value = node.outputs[0]

    def is_per_result(self, operand: int, value: int, axis: int) -> bool:
        """Whether an operand is a scalar, or a weight with an element for each column."""
        shape = self.shape(operand)
        if operand in self.network.constants:
            return prod(shape) == 1
        last = axis == len(self.shape(value)) - 1
        return operand in self.network.weights and last and shape == self.shape(value)[axis:]

    def follower_key(self, number: int) -> Hashable:
        """A key that operators share which stand at the same position in a family's branches."""
        node = self.network.operators[number]
        operands = tuple(
            ("constant", self.network.constants[v].tobytes()) if v in self.network.constants
            else v in self.network.weights
            for v in node.inputs if v is not None
        )  # fmt: skip
        attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
        return node.type, attributes, operands, self.network.values[node.outputs[0]].dtype

    def can_be_sliced(self, last: int, axis: int) -> bool:
        """Whether a slice of the fused result can replace a branch's result without a copy."""
        value = self.network.operators[last].outputs[0]
        if value in self.kept:
            return False
        if prod(self.shape(value)[:axis]) == 1:
            types = [self.network.operators[user].type for user in self.users[value]]
            return not {"Concat", "Reshape", GROUP}.intersection(types)
        inside = self.inside.get(value, set())
        return all(user in inside or self.rearranges(user, value) for user in self.users[value])

    def rearranges(self, user: int, value: int) -> bool:
        """Whether an operator is a kernel's first that moves elements, perhaps after a Reshape."""
        node = self.network.operators[user]
        if node.type != "Reshape":
            return KINDS.get(node.type) is Kind.INJECTIVE
        heads = node.outputs[0]
        split = head_size(self.shape(value), self.shape(heads)) is not None
        kinds = {KINDS.get(self.network.operators[u].type) for u in self.users[heads]}
        return split and heads not in self.kept and kinds == {Kind.INJECTIVE}
