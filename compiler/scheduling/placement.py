"""Where and when the nodes of a graph run, as plain data, and the three decisions about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.errors import PipelineError
from compiler.scheduling.policies.assignment import Assignment, check_assignment
from compiler.scheduling.policies.ordering import ORDERINGS, Demand
from compiler.scheduling.policies.partitioning import PARTITIONINGS
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.support.dag import DAG, QuotientGraph, is_order, quotient, subgraph

Numbers = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Placement:
    """The nodes in launch order, and by node its partition, its stream and its stage.

    None stands for a decision that is open, or for no partition, stream or stage. The nodes of a
    partition follow each other on one stream and are launched as one; nodes in no partition are
    launched alone.
    """

    order: Sequence[int]
    partitions: Numbers
    streams: Numbers
    stages: Numbers


@dataclass(frozen=True, slots=True)
class Groups:
    """The facts that policies use: the DAG of a graph's nodes, and the FLOPs and bytes of each.

    The device computes `balance` FLOPs while it moves a byte, and caches `cache_bytes`.
    """

    dag: DAG
    flops: Sequence[int]
    nbytes: Sequence[int]
    balance: float
    cache_bytes: int

    def demand(self, nodes: Sequence[int]) -> Demand:
        """The demand of nodes that run one after another."""
        flops = sum(self.flops[v] for v in nodes)
        nbytes = sum(self.nbytes[v] for v in nodes)
        largest = max(self.nbytes[v] for v in nodes)
        return Demand(flops < nbytes * self.balance, largest / self.cache_bytes)


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """Options of `partition-graph`, `assign-streams` and `order-launches`."""

    streams: str
    count: int
    partition: str = "none"
    max_nodes: int = 1
    order: str = "critical-path"

    @property
    def name(self) -> str:
        """`STREAMS-COUNT/PARTITION/ORDER`, short enough for a table."""
        partition = self.partition + (str(self.max_nodes) if self.partition != "none" else "")
        return f"{self.streams}-{self.count}/{partition}/{self.order}"

    def passes(self) -> str:
        """The three passes."""
        return (
            f"partition-graph{{policy={self.partition} max-nodes={self.max_nodes}}},"
            f"assign-streams{{policy={self.streams} streams={self.count}}},"
            f"order-launches{{policy={self.order}}}"
        )


def place(groups: Groups, policy: PlacementPolicy) -> Placement:
    """All three decisions; raises PipelineError where a policy refuses."""
    placement = partition_graph(groups.dag, policy.partition, policy.max_nodes)
    placement = assign_streams(groups.dag, placement, policy.streams, policy.count)
    return order_launches(groups, placement, policy.order)


def partition_graph(dag: DAG, policy: str, max_nodes: int) -> Placement:
    """Partition the graph by a policy of `PARTITIONINGS`; streams and stages are open.

    Raises PipelineError for a policy whose partitions depend on each other in a cycle.
    """
    partition_of = PARTITIONINGS[policy](dag, max_nodes)
    try:
        if len(partition_of) != len(dag):
            raise ValueError(f"it gives {len(partition_of)} partitions for {len(dag)} nodes")
        groups = quotient(dag, partition_of).members
    except ValueError as error:
        raise PipelineError(f"partition policy {policy!r} is wrong: {error}") from error
    number = {v: partition for partition, members in enumerate(groups) for v in members}
    none = [None] * len(dag)
    return Placement(
        order=[v for members in groups for v in members],
        partitions=[number[v] for v in range(len(dag))],
        streams=none,
        stages=none,
    )


def assign_streams(dag: DAG, placement: Placement, policy: str, count: int) -> Placement:
    """Give each partition a stream by a policy of `STREAM_ASSIGNMENTS`, and a stage if it has any.

    `count` is the largest number of streams, 0 for one for each partition. Nodes are taken in the
    placement's order and get the policy's. Raises PipelineError for a policy that is wrong.
    """
    partitions = _partitions(_in_order(dag, placement), placement)
    assignment = _assignment(partitions.dag, policy, count or max(1, len(partitions.dag)))
    streams: list[int | None] = [None] * len(dag)
    stages: list[int | None] = [None] * len(dag)
    for partition, members in enumerate(partitions.members):
        for position in members:
            streams[placement.order[position]] = assignment.streams[partition]
            if assignment.stages:
                stages[placement.order[position]] = assignment.stages[partition]
    order = [
        placement.order[p]
        for partition in assignment.launch_order()
        for p in partitions.members[partition]
    ]
    return replace(placement, order=order, streams=streams, stages=stages)


def _assignment(dag: DAG, policy: str, streams: int) -> Assignment:
    assignment = STREAM_ASSIGNMENTS[policy](dag, streams)
    try:
        check_assignment(dag, streams, assignment)
    except PipelineError as error:
        raise PipelineError(f"stream policy {policy!r} is wrong: {error}") from error
    return assignment


def order_launches(groups: Groups, placement: Placement, policy: str) -> Placement:
    """Order partitions, and nodes in each, by a policy of `ORDERINGS`; stages stay in order.

    Nodes are taken in the placement's order. Raises PipelineError for a policy that is wrong.
    """
    dag = _in_order(groups.dag, placement)
    nodes = placement.order
    partitions = _partitions(dag, placement)
    demands = [groups.demand([nodes[p] for p in members]) for members in partitions.members]
    launched = _ordered(partitions.dag, demands, policy)
    stages = [placement.stages[nodes[members[0]]] for members in partitions.members]
    launched.sort(key=lambda partition: -1 if (stage := stages[partition]) is None else stage)
    order: list[int] = []
    for partition in launched:
        members = partitions.members[partition]
        if len(members) > 1:
            node_demands = [groups.demand([nodes[p]]) for p in members]
            members = [members[i] for i in _ordered(subgraph(dag, members), node_demands, policy)]
        order += [nodes[p] for p in members]
    return replace(placement, order=order)


def _ordered(dag: DAG, demands: Sequence[Demand], policy: str) -> list[int]:
    order = list(ORDERINGS[policy](dag, demands))
    if not is_order(dag, order):
        raise PipelineError(f"order policy {policy!r} is wrong: not a topological order")
    return order


def _in_order(dag: DAG, placement: Placement) -> DAG:
    """The graph with its nodes numbered in launch order."""
    order = placement.order
    return dag if list(order) == list(range(len(dag))) else subgraph(dag, order)


def _partitions(ordered: DAG, placement: Placement) -> QuotientGraph:
    """The partitions of a graph numbered in launch order; a node in none is one by itself.

    Raises PipelineError where partitions depend on each other in a cycle.
    """
    partitions = placement.partitions
    labels = [(None, v) if partitions[v] is None else partitions[v] for v in placement.order]
    try:
        return quotient(ordered, labels)
    except ValueError as error:
        raise PipelineError(f"{error}: run partition-graph again") from error


def check_placement(dag: DAG, placement: Placement) -> None:
    """Raise PipelineError for a placement that no policy could give the graph."""
    if not is_order(dag, placement.order):
        raise PipelineError("the launch order is not topological")
    _partitions(_in_order(dag, placement), placement)
