"""Which matrix products with the same matrix can become one: their rows come under each other."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from compiler.graph.network import Network, Node, producers_of


@dataclass(frozen=True, slots=True)
class Stack:
    """Products, as numbers of operators in order, whose operands and results join along `axis`."""

    gemms: tuple[int, ...]
    axis: int


def find_stacks(network: Network, most_rows: int) -> list[Stack]:
    """Sets of products of up to `most_rows` rows that can be computed at once.

    Such products are bound by reading their matrix, which is then read once. None of a set needs
    another's result, and the sets, each taken as one operator, do not wait for each other in a
    circle.
    """
    alike: dict[Hashable, list[int]] = {}
    for i, node in enumerate(network.operators):
        if (key := _matrix(network, node, most_rows)) is not None:
            alike.setdefault(key, []).append(i)
    repeated = [products for products in alike.values() if len(products) > 1]
    candidates = sorted(i for products in repeated for i in products)
    order = _Order(network, candidates)
    place_of = {i: place for place, i in enumerate(candidates)}
    found: list[Stack] = []
    for products in repeated:
        rank = len(_shape(network, network.operators[products[0]].inputs[0]))
        for taken in order.join_all([place_of[i] for i in products]):
            found.append(Stack(tuple(candidates[place] for place in taken), rank - 2))
    return found


def _shape(network: Network, value: int | None) -> tuple[int, ...]:
    return () if value is None else network.values[value].shape


def _matrix(network: Network, node: Node, most_rows: int) -> Hashable | None:
    """What products that can be stacked have in common; None for any other operator."""
    if node.type not in ("MatMul", "Gemm") or node.attributes.get("transA", 0):
        return None
    left, right = (_shape(network, value) for value in node.inputs[:2])
    if len(left) < 2 or len(right) != 2 or prod(left[:-2]) != 1 or not 0 < left[-2] <= most_rows:
        return None
    addend = _shape(network, node.inputs[2] if len(node.inputs) > 2 else None)
    if len(addend) == 2 and addend[0] != 1:
        return None
    attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
    return node.type, node.inputs[1:], attributes, left[:-2], left[-1]


class _Order:
    """What must come before what among some products, with stacked ones taken as one.

    `before[u]` has a bit for each product that product `u` needs, directly or not, `after[u]` one
    for each that needs it; products are numbered from 0 in the order of the operators.
    """

    def __init__(self, network: Network, products: Sequence[int]):
        producers = producers_of(network)
        direct = [
            {producers[v] for v in node.inputs if v is not None and v in producers}
            for node in network.operators
        ]
        bit = [0] * len(direct)
        for place, i in enumerate(products):
            bit[i] = 1 << place
        before: list[int] = []
        for needed in direct:
            before.append(_union(before[u] | bit[u] for u in needed))
        after = [0] * len(direct)
        for i in reversed(range(len(direct))):
            for u in direct[i]:
                after[u] |= after[i] | bit[i]
        self.before = [before[i] for i in products]
        self.after = [after[i] for i in products]

    def join_all(self, products: Sequence[int]) -> Iterator[list[int]]:
        """Sets of two products or more that are taken as one, of some that are alike."""
        left = _union(1 << u for u in products)
        while left.bit_count() > 1:
            taken = self._independent(left)
            left &= ~_union(1 << u for u in taken)
            if len(taken) > 1:
                self._merge(taken)
                yield taken

    def _independent(self, products: int) -> list[int]:
        """The first of the products and all that neither need it nor each other."""
        taken: list[int] = []
        while products:
            u = (products & -products).bit_length() - 1
            taken.append(u)
            products &= ~(self.before[u] | self.after[u] | 1 << u)
        return taken

    def _merge(self, members: Sequence[int]) -> None:
        """Whoever needs a member needs all of them, and all that they need."""
        mask = _union(1 << u for u in members)
        needed = _union(self.before[u] for u in members)
        needing = _union(self.after[u] for u in members)
        for v in _bits(needing):
            self.before[v] |= mask | needed
        for v in _bits(needed):
            self.after[v] |= mask | needing
        for u in members:
            self.before[u], self.after[u] = needed, needing


def _bits(mask: int) -> list[int]:
    """The places of the bits that are set, ascending."""
    return [place for place, digit in enumerate(reversed(bin(mask))) if digit == "1"]


def _union(sets: Iterable[int]) -> int:
    total = 0
    for each in sets:
        total |= each
    return total
