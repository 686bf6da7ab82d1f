"""Matching operators on a tensor and on its range: its least and its greatest element."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from compiler.graph.attention import may_attend
from compiler.graph.network import Network, Node, users_of
from compiler.net.operators import KINDS, Kind

LEAST_ELEMENTS = 1 << 10
"""Fewest elements of a tensor whose range its producer finds: fewer are reduced in no time."""

SMALL_PART, PART_ELEMENTS = 32, 1 << 11
"""Elements of a part of a small tensor and of a large one: as many as a block stores, or fewer; a
quarter of these where blocks have elements alone."""

MANY_PARTS, MOST_PARTS = 1 << 8, 1 << 11
"""Parts of a tensor that a block of threads reads in no time, and the most."""


ROW_NORMS = ("LayerNormalization", "RMSNormalization")
"""Normalisations whose kernels store each element once."""


@dataclass(frozen=True)
class TensorRange:
    """Elementwise operators on a tensor and its extremes; numbers are those of the network.

    `lowest` and `highest` are the operators that reduce the tensor, or the extremes of its parts;
    `operators` are all, in order: also those that add the rows of integers which are computed.
    """

    tensor: int
    lowest: int
    highest: int
    operators: tuple[int, ...]


def find_ranges(network: Network) -> list[TensorRange]:
    """The ranges of a network by which the elements of their tensors are computed, too."""
    users = users_of(network)
    ranges: list[TensorRange] = []
    for lowest in _extremes(network, "ReduceMin"):
        tensor = network.operators[lowest].inputs[0]
        assert tensor is not None
        same = set(users[tensor])
        for highest in [i for i in _extremes(network, "ReduceMax") if i in same][:1]:
            ranges += _followed(network, tensor, lowest, highest)
    return ranges


def find_parted_ranges(network: Network) -> list[TensorRange]:
    """As `find_ranges`, of extremes of two other tensors: those of the parts of the tensor.

    Every tensor that the operators may be on is found with them.
    """
    ranges: list[TensorRange] = []
    pairs = product(_extremes(network, "ReduceMin"), _extremes(network, "ReduceMax"))
    for lowest, highest in pairs:
        parts = [network.operators[i].inputs[0] for i in (lowest, highest)]
        for tensor, value in enumerate(network.values):
            known = tensor in (*parts, *network.constants) or parts[0] == parts[1]
            if not known and value.dtype == "float32":
                ranges += _followed(network, tensor, lowest, highest)
    return ranges


def _extremes(network: Network, type: str) -> list[int]:
    """The operators of a type that give one element of a whole tensor."""
    nodes = enumerate(network.operators)
    return [i for i, node in nodes if node.type == type and _is_whole(network, node)]


def range_parts(elements: int, types: Sequence[str]) -> int:
    """How many parts of a tensor have their range written by a group of operators: a power of two,
    one for each of its kernel's blocks or more.

    0 where a range is found as fast afterwards.
    """
    if elements < LEAST_ELEMENTS or not _folds_results(types):
        return 0
    few, most = MANY_PARTS, PART_ELEMENTS
    if {KINDS[type] for type in types} <= {Kind.ELEMENTWISE, Kind.VIEW}:
        few, most = 4 * few, most // 4
    few = min(few, elements // SMALL_PART)
    return 1 << (min(MOST_PARTS, max(few, elements // most)) - 1).bit_length()


def _folds_results(types: Sequence[str]) -> bool:
    """Whether the kernel of a group of operators can find the range of what it stores.

    It has one contraction or normalisation and elementwise operators, these alone, or an attention.
    """
    kinds = Counter(KINDS[type] for type in types if type not in ROW_NORMS)
    if may_attend(types) and kinds[Kind.CONTRACTION] == 2:
        return True
    anchors = len([type for type in types if type in ROW_NORMS]) + kinds[Kind.CONTRACTION]
    return anchors < 2 and kinds.keys() <= {Kind.CONTRACTION, Kind.ELEMENTWISE, Kind.VIEW}


def _is_whole(network: Network, node: Node[int]) -> bool:
    """Whether one element is the reduction of a tensor of float32."""
    value, result = (network.values[v or 0] for v in (node.inputs[0], node.outputs[0]))
    return value.dtype == "float32" and prod(result.shape) == 1 and prod(value.shape) > 0


def is_row_sum(network: Network, node: Node[int]) -> bool:
    """Whether an operator adds the integers of each row, those of the last axis, exactly."""
    if node.type != "ReduceSum":
        return False
    value, result = (network.values[v or 0] for v in (node.inputs[0], node.outputs[0]))
    rows = len(value.shape) > 1 and (*value.shape[:-1], 1) == result.shape
    return value.dtype == "int32" and rows and prod(result.shape) > 1


def _followed(network: Network, tensor: int, lowest: int, highest: int) -> list[TensorRange]:
    """The range with the operators that need nothing but it, the tensor and constants."""
    shape = network.values[tensor].shape
    members = {lowest, highest}
    wide = False
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
        elif is_row_sum(network, node) and network.values[node.inputs[0] or 0].shape == shape:
            members.add(i)
    return [TensorRange(tensor, lowest, highest, tuple(sorted(members)))] if wide else []
