"""Matching operators on a tensor and on its range: its least and its greatest element."""

from dataclasses import dataclass
from math import prod

from compiler.graph.network import Network, NetworkNode, users_of
from compiler.ir.operators import KINDS, Kind


@dataclass(frozen=True)
class TensorRange:
    """Elementwise operators on a tensor and its extremes; numbers are those of the network.

    `lowest` and `highest` are the operators that reduce the tensor; `operators` are all, in order.
    """

    tensor: int
    lowest: int
    highest: int
    operators: tuple[int, ...]


def find_ranges(network: Network) -> list[TensorRange]:
    """The ranges of a network by which the elements of their tensors are computed, too."""
    users = users_of(network)
    found: list[TensorRange] = []
    for lowest, node in enumerate(network.operators):
        if node.type == "ReduceMin" and _is_whole(network, node):
            tensor = node.inputs[0]
            assert tensor is not None
            others = (network.operators[i] for i in users[tensor])
            same = [o.type == "ReduceMax" and _is_whole(network, o) for o in others]
            if any(same):
                highest = users[tensor][same.index(True)]
                found += _followed(network, tensor, lowest, highest)
    return found


def _is_whole(network: Network, node: NetworkNode) -> bool:
    """Whether one element is the reduction of a tensor of float32."""
    value, result = (network.values[v or 0] for v in (node.inputs[0], node.outputs[0]))
    return value.dtype == "float32" and prod(result.shape) == 1 and prod(value.shape) > 0


def _followed(network: Network, tensor: int, lowest: int, highest: int) -> list[TensorRange]:
    """The range with the operators that need nothing but it, the tensor and constants."""
    shape = network.values[tensor].shape
    members, wide = {lowest, highest}, False
    inside = {network.operators[i].outputs[0] for i in members}
    for i in range(min(members) + 1, len(network.operators)):
        node = network.operators[i]
        used = {v for v in node.inputs if v is not None and v not in network.constants}
        if i in members or not used & inside or not used <= inside | {tensor}:
            continue
        result = network.values[node.outputs[0]]
        whole = result.shape == shape
        if KINDS.get(node.type) is Kind.ELEMENTWISE and (whole or prod(result.shape) == 1):
            members.add(i)
            inside.update(node.outputs)
            wide = wide or whole
    return [TensorRange(tensor, lowest, highest, tuple(sorted(members)))] if wide else []
