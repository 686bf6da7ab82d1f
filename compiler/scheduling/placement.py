"""Where and when the nodes of a graph run, as plain data: what the policies' passes decide."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from compiler.dag import DAG, Quotient, quotient, subgraph
from compiler.graph.cost import Work
from compiler.scheduling.assignment import check_assignment
from compiler.scheduling.policies.ordering import ORDERINGS, Demand
from compiler.scheduling.policies.partitioning import PARTITIONINGS
from compiler.scheduling.policies.streams import STREAM_ASSIGNMENTS
from compiler.scheduling.units import demand_of


@dataclass(frozen=True, slots=True)
class Policy:
    """Options of `partition-graph`, `assign-streams` and `order-launches`."""

    streams: str
    count: int
    partition: str = "none"
    max_nodes: int = 1
    order: str = "critical-path"

    @property
    def name(self) -> str:
        """`STREAMS-COUNT/PARTITION/ORDER`, short enough for a table."""
        parts = self.partition + (str(self.max_nodes) if self.partition != "none" else "")
        return f"{self.streams}-{self.count}/{parts}/{self.order}"

    def passes(self) -> str:
        """The three passes."""
        return (
            f"partition-graph{{policy={self.partition} max-nodes={self.max_nodes}}},"
            f"assign-streams{{policy={self.streams} streams={self.count}}},"
            f"order-launches{{policy={self.order}}}"
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """The nodes in launch order, and by node its stream, its unit and, if there are any, its stage.

    The nodes of a unit follow each other on one stream and are launched as one.
    """

    order: Sequence[int]
    streams: Sequence[int]
    units: Sequence[int]
    stages: Sequence[int] = ()

    def joined(self) -> list[bool]:
        """For each place of the order, whether its node is in the unit of the one before."""
        return [False, *(self.units[u] == self.units[v] for u, v in pairwise(self.order))]


@dataclass(frozen=True, slots=True)
class Groups:
    """What policies know of a graph's nodes: the DAG, and the FLOPs and bytes of each."""

    dag: DAG
    works: Sequence[Work]

    def demands(self, units: Sequence[Sequence[int]]) -> list[Demand]:
        """What each unit of nodes asks of the device."""
        return [demand_of([self.works[v] for v in unit]) for unit in units]


def place(groups: Groups, policy: Policy) -> Placement:
    """What the three passes decide with these options; PipelineError where a policy refuses."""
    return order_units(groups, assign(partition(groups.dag, policy), policy), policy)


@dataclass(frozen=True, slots=True)
class Partial:
    """A placement on the way, its nodes renumbered to be in block order, as passes find them.

    `nodes` are the original numbers, `cluster_of`, `streams` and `stages` go by place.
    """

    dag: DAG
    nodes: Sequence[int]
    cluster_of: Sequence[int]
    streams: Sequence[int] = ()
    stages: Sequence[int] = ()

    def reordered(self, places: Sequence[int]) -> "Partial":
        """The same in another block order."""
        return Partial(
            subgraph(self.dag, places),
            [self.nodes[p] for p in places],
            [self.cluster_of[p] for p in places],
            [self.streams[p] for p in places] if self.streams else (),
            [self.stages[p] for p in places] if self.stages else (),
        )

    def units(self) -> Quotient:
        """The clusters in a topological order."""
        return quotient(self.dag, self.cluster_of)


def partition(dag: DAG, policy: Policy) -> Partial:
    """What the pass `partition-graph` decides."""
    found = quotient(dag, PARTITIONINGS[policy.partition](dag, policy.max_nodes)).members
    number = {v: cluster for cluster, members in enumerate(found) for v in members}
    start = Partial(dag, range(len(dag)), [number[v] for v in range(len(dag))])
    return start.reordered([v for members in found for v in members])


def assign(parts: Partial, policy: Policy) -> Partial:
    """What the pass `assign-streams` decides; raises PipelineError."""
    units = parts.units()
    count = policy.count or max(1, len(units.dag))
    found = STREAM_ASSIGNMENTS[policy.streams](units.dag, count)
    check_assignment(units.dag, count, found)
    unit_of = {p: unit for unit, members in enumerate(units.members) for p in members}
    places = range(len(parts.dag))
    streams = [found.streams[unit_of[p]] for p in places]
    stages = [found.stages[unit_of[p]] for p in places] if found.stages else ()
    order = [p for unit in found.launch_order() for p in units.members[unit]]
    return replace(parts, streams=streams, stages=stages).reordered(order)


def order_units(groups: Groups, parts: Partial, policy: Policy) -> Placement:
    """What the pass `order-launches` decides."""
    units, ordering = parts.units(), ORDERINGS[policy.order]
    members_of = [[parts.nodes[p] for p in members] for members in units.members]
    order = ordering(units.dag, groups.demands(members_of))
    if parts.stages:
        order = sorted(order, key=lambda unit: parts.stages[units.members[unit][0]])
    places: list[int] = []
    for unit in order:
        members = units.members[unit]
        if len(members) > 1:
            alone = groups.demands([[v] for v in members_of[unit]])
            members = [members[i] for i in ordering(subgraph(parts.dag, members), alone)]
        places += members
    return _placement(parts, places)


def _placement(parts: Partial, places: Sequence[int]) -> Placement:
    place_of = {node: place for place, node in enumerate(parts.nodes)}
    by_node = [place_of[node] for node in range(len(parts.nodes))]
    return Placement(
        [parts.nodes[p] for p in places],
        [parts.streams[p] for p in by_node],
        [parts.cluster_of[p] for p in by_node],
        [parts.stages[p] for p in by_node] if parts.stages else (),
    )
