"""Operators and values as plain data, the form in which analyses read graphs and groups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray
from xdsl.ir import SSAValue

from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, NoneOp, OperatorOp, WeightOp
from compiler.ir.types import known_type
from compiler.ir.values import attribute_to_array, attributes_of
from compiler.net.node import Node
from compiler.net.spec import KnownTensor


class NetworkValue(Protocol):
    """The dtype name and the shape of a tensor."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


GROUP = GroupOp.name
"""The type of a node that is a group, such as an If or a Loop with all that its bodies capture."""


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
    the bodies of an If or a Loop read nothing but its operands. `outputs` are the values that the
    graph yields or a group reads, which nothing may be fused across.
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


def read_network(graph: GraphOp) -> GraphNetwork:
    """The plain form of a graph."""
    numbers: dict[SSAValue, int] = {}
    values: list[KnownTensor] = []
    constants: dict[int, NDArray[Any]] = {}
    operations: list[OperatorOp | GroupOp] = []
    weights: set[int] = set()
    outputs: list[int] = []
    for value in graph.body.block.args:
        _number(value, numbers, values)
    for op in graph.body.block.ops:
        if isinstance(op, OperatorOp | GroupOp):
            operations.append(op)
        if not isinstance(op, OperatorOp):
            outputs += [numbers[value] for value in op.operands]
        for value in op.results:
            _number(value, numbers, values)
        if isinstance(op, ConstantOp):
            constants[numbers[op.output]] = attribute_to_array(op.value)
        elif isinstance(op, WeightOp):
            weights.add(numbers[op.output])
    nodes = [_node(op, numbers) for op in operations]
    return GraphNetwork(
        operators=nodes,
        values=values,
        constants=constants,
        outputs=outputs,
        operations=operations,
        weights=frozenset(weights),
    )


def _number(value: SSAValue, numbers: dict[SSAValue, int], values: list[KnownTensor]) -> None:
    numbers[value] = len(values)
    values.append(known_type(value.type))


def _node(op: OperatorOp | GroupOp, numbers: Mapping[SSAValue, int]) -> Node[int]:
    inputs = tuple([None if type(v.owner) is NoneOp else numbers[v] for v in op.inputs])
    outputs = tuple([numbers[v] for v in op.outputs])
    if isinstance(op, GroupOp):
        return Node(GROUP, {}, inputs, outputs)
    return Node(op.type_name, attributes_of(op), inputs, outputs)


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
