"""Which matrix products with the same matrix can become one: their rows come under each other."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from compiler.analysis.network import Network, Node, producers_of


@dataclass(frozen=True, slots=True)
class Stack:
    """Products, as numbers of operators in order, whose operands and results join along `axis`."""

    products: tuple[int, ...]
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
    order = _Order(network)
    found: list[Stack] = []
    for products in alike.values():
        while len(products) > 1:
            taken = order.join(products)
            if len(taken) > 1:
                rank = len(_shape(network, network.operators[taken[0]].inputs[0]))
                found.append(Stack(tuple(taken), rank - 2))
            products = [i for i in products if i not in taken]
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
    """What must come before what, with stacked products taken as one.

    `before[u]` has a bit for each operator that unit `u` needs, directly or not.
    """

    def __init__(self, network: Network):
        producers = producers_of(network)
        self.before: list[int] = []
        for node in network.operators:
            direct = {producers[v] for v in node.inputs if v is not None and v in producers}
            self.before.append(_union(self.before[u] | 1 << u for u in direct))

    def join(self, products: Sequence[int]) -> list[int]:
        """Take as one the first product and all that neither need it nor each other."""
        taken = [products[0]]
        for i in products[1:]:
            if not any(self.before[i] >> u & 1 or self.before[u] >> i & 1 for u in taken):
                taken.append(i)
        if len(taken) > 1:
            self._merge(taken)
        return taken

    def _merge(self, members: Sequence[int]) -> None:
        """Whoever needs a member needs all of them, and all that they need."""
        mask = _union(1 << u for u in members)
        needed = _union(self.before[u] for u in members)
        for v, before in enumerate(self.before):
            if before & mask:
                self.before[v] = before | mask | needed
        for u in members:
            self.before[u] = needed


def _union(sets: Iterable[int]) -> int:
    total = 0
    for each in sets:
        total |= each
    return total
