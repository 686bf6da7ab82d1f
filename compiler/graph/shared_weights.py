"""Which GEMMs that share a weight can be batched into one GEMM of all their rows."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from compiler.graph.network import Network, Node, producers_of
from compiler.net.operators.contractions import GEMMS
from compiler.tensors.extents import at_hints


@dataclass(frozen=True, slots=True)
class Stack:
    """GEMMs, as numbers of operators in order; operands and results concatenate along `axis`."""

    gemms: tuple[int, ...]
    axis: int


def find_stacks(network: Network, most_rows: int) -> list[Stack]:
    """Sets of GEMMs of up to `most_rows` rows that can be computed at once.

    Such GEMMs are bound by reading their weight, which is then read once. The GEMMs of a set are
    independent, and merging each set into one operator leaves the graph acyclic.
    """
    alike: dict[Hashable, list[int]] = {}
    for i, node in enumerate(network.operators):
        if (key := _stack_key(network, node, most_rows)) is not None:
            alike.setdefault(key, []).append(i)
    repeated = [gemms for gemms in alike.values() if len(gemms) > 1]
    candidates = sorted(i for gemms in repeated for i in gemms)
    order = _Order(network, candidates)
    bit_of = {i: bit for bit, i in enumerate(candidates)}
    stacks: list[Stack] = []
    for gemms in repeated:
        rank = len(_shape(network, network.operators[gemms[0]].inputs[0]))
        for chosen in order.merge_all([bit_of[i] for i in gemms]):
            stacks.append(Stack(tuple(candidates[bit] for bit in chosen), rank - 2))
    return stacks


def _shape(network: Network, value: int | None) -> tuple[int, ...]:
    return () if value is None else network.values[value].shape


def _stack_key(network: Network, node: Node[int], most_rows: int) -> Hashable | None:
    """A key that GEMMs share which can be stacked if independent; None for other operators."""
    if node.type not in GEMMS or node.attributes.get("transA"):
        return None
    left, right = (_shape(network, value) for value in node.inputs[:2])
    if (
        len(left) < 2
        or len(right) != 2
        or prod(left[:-2]) != 1
        or not 0 < at_hints(left[-2]) <= most_rows
    ):
        return None
    addend = _shape(network, node.inputs[2] if len(node.inputs) > 2 else None)
    if len(addend) == 2 and addend[0] != 1:
        return None
    attributes = tuple(sorted((name, repr(value)) for name, value in node.attributes.items()))
    return node.type, node.inputs[1:], attributes, left[:-2], left[-1]


class _Order:
    """The transitive dependencies between GEMMs, each stack of which counts as one operator.

    `before[u]` has a bit for each GEMM that GEMM `u` depends on, `after[u]` one for each that
    depends on it; GEMMs are numbered from 0 in the order of the operators.
    """

    def __init__(self, network: Network, gemms: Sequence[int]):
        producers = producers_of(network)
        direct = [
            {producers[v] for v in node.inputs if v is not None and v in producers}
            for node in network.operators
        ]
        mask = [0] * len(direct)
        for bit, i in enumerate(gemms):
            mask[i] = 1 << bit
        before: list[int] = []
        for needed in direct:
            before.append(_union(before[u] | mask[u] for u in needed))
        after = [0] * len(direct)
        for i in reversed(range(len(direct))):
            for u in direct[i]:
                after[u] |= after[i] | mask[i]
        self.before = [before[i] for i in gemms]
        self.after = [after[i] for i in gemms]

    def merge_all(self, gemms: Sequence[int]) -> Iterator[list[int]]:
        """Merge independent ones of some GEMMs that share a key; yields each set of two or more."""
        left = _union(1 << u for u in gemms)
        while left.bit_count() > 1:
            chosen = self._independent(left)
            left &= ~_union(1 << u for u in chosen)
            if len(chosen) > 1:
                self._merge(chosen)
                yield chosen

    def _independent(self, gemms: int) -> list[int]:
        """The first of the GEMMs, and greedily those that are independent of all chosen before."""
        chosen: list[int] = []
        while gemms:
            u = (gemms & -gemms).bit_length() - 1
            chosen.append(u)
            gemms &= ~(self.before[u] | self.after[u] | 1 << u)
        return chosen

    def _merge(self, members: Sequence[int]) -> None:
        """Make every GEMM that depends on a member depend on all of them."""
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
    """The positions of the bits that are set, ascending."""
    return [position for position, digit in enumerate(reversed(bin(mask))) if digit == "1"]


def _union(sets: Iterable[int]) -> int:
    total = 0
    for mask in sets:
        total |= mask
    return total
