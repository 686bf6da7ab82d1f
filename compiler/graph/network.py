"""Operators and values as plain data, the form in which analyses read graphs and groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.nodes import numbered_nodes
from compiler.ir.types import known_type
from compiler.ir.values import attribute_to_array
from compiler.net.building.simplify import QUANTISED
from compiler.net.node import Node
from compiler.net.spec import KnownTensor


class NetworkValue(Protocol):
    """The dtype name and the shape of a tensor."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Network(Protocol):
    """Operators in order, their values, the values that are constant, and the results."""

    @property
    def operators(self) -> Sequence[Node[int]]: ...
    @property
    def values(self) -> Sequence[NetworkValue]: ...
    @property
    def constants(self) -> Mapping[int, NDArray[Any]]: ...
    @property
    def outputs(self) -> Sequence[int]: ...


@dataclass(frozen=True)
class GraphNetwork:
    """The operators and groups of a graph, with the operation of each.

    A group is a node like an operator, so that what depends on what is the same question of both:
    the bodies of an If or a Loop read nothing but its operands.
    """

    operators: Sequence[Node[int]]
    values: Sequence[KnownTensor]
    constants: Mapping[int, NDArray[Any]]
    outputs: Sequence[int]
    operations: Sequence[OperatorOp | GroupOp]
    weights: frozenset[int]

    def operators_at(self, numbers: Iterable[int]) -> list[OperatorOp]:
        """The operations of nodes that are operators."""
        operations = [self.operations[number] for number in numbers]
        operators = [op for op in operations if isinstance(op, OperatorOp)]
        assert len(operators) == len(operations), "a group is not an operator"
        return operators


def operator_types(graph: GraphOp) -> set[str]:
    """The types of a graph's operators outside groups: whether it is worth reading it."""
    return {op.type_name for op in graph.body.block.ops if isinstance(op, OperatorOp)}


def is_unlowered(graph: GraphOp) -> bool:
    """Whether it, or a body in it, has quantised operators that `lower-quantised` has not left."""
    operators = (op for op in graph.walk() if isinstance(op, OperatorOp))
    return graph.contraction is None and any(op.type_name in QUANTISED for op in operators)


def read_network(graph: GraphOp) -> GraphNetwork:
    """The plain form of a graph."""
    block = numbered_nodes(graph.body.block)
    weights = (number for v, number in block.numbers.items() if isinstance(v.owner, WeightOp))
    return GraphNetwork(
        operators=block.nodes,
        values=[known_type(value.type) for value in block.values],
        constants={number: attribute_to_array(value) for number, value in block.constants.items()},
        outputs=[block.numbers[value] for value in graph.results_yielded],
        operations=block.operations,
        weights=frozenset(weights),
    )


def users_of(network: Network) -> list[list[int]]:
    """The nodes that use each value, without repetitions, ascending."""
    users: list[list[int]] = [[] for _ in network.values]
    for i, node in enumerate(network.operators):
        for value in {v for v in node.inputs if v is not None}:
            users[value].append(i)
    return users


def producers_of(network: Network) -> dict[int, int]:
    """The node that computes each value; values that none computes have no entry."""
    return {value: i for i, node in enumerate(network.operators) for value in node.outputs}
