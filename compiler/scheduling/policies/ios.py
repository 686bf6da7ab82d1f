"""IOS: the best division of a graph into stages, by dynamic programming."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compiler.errors import PipelineError
from compiler.scheduling.policies.assignment import STREAM_ASSIGNMENTS, Assignment
from compiler.scheduling.policies.list_schedule import WAIT_NS
from compiler.support.dag import DAG, subgraph

MOST_NODES = 5_000
BLOCK_NODES = 100
GROUP_NODES, MOST_GROUPS = 3, 8
"""IOS's r and s: nodes in a group, and groups in a stage."""
MOST_ENDINGS = 8_000
"""A block whose search looks at more stages than this is split in two, and searched again."""

NodeSets = tuple[int, ...]
Stage = tuple[tuple[int, ...], ...]
"""The groups of a stage, the most expensive first; those of a group run one after another."""


class _TooLarge(Exception):
    """A block has more states than the search may look at."""


def narrowest_position(widths: Sequence[int], begin: int, end: int) -> int:
    """The position in the middle half where the fewest tensors are alive, nearest to the middle."""
    margin = (end - begin) // 4
    middle = (begin + end) // 2
    inner = range(begin + max(1, margin), end - margin)
    return min(inner, key=lambda p: (widths[p], abs(p - middle)))


def crossing_tensors(dag: DAG) -> list[int]:
    """For each position in node order, how many nodes before it are needed after it."""
    ends = [0] * (len(dag) + 2)
    for u, successors in enumerate(dag.successors):
        if successors:
            ends[u + 1] += 1
            ends[successors[-1] + 1] -= 1
    for position in range(1, len(ends)):
        ends[position] += ends[position - 1]
    return ends


@dataclass
class _Block:
    """One block's search; sets of nodes are bit masks, the groups of a stage a tuple of them."""

    dag: DAG
    groups: int
    budget: int = field(default_factory=lambda: MOST_ENDINGS)
    best: dict[int, tuple[float, NodeSets]] = field(
        default_factory=dict[int, tuple[float, NodeSets]]
    )

    def __post_init__(self) -> None:
        self.after = [sum(1 << w for w in targets) for targets in self.dag.successors]
        self.whole = (1 << len(self.dag)) - 1
        self.costs: dict[int, int] = {}
        self.work: dict[int, float] = {}

    def stages(self) -> list[Stage]:
        """The stages of the cheapest division, first to last."""
        state = self.whole
        backwards = list[Stage]()
        self.cost(state)
        while state:
            groups = sorted(self.best[state][1], key=lambda group: (-self.costs[group], group))
            backwards.append(tuple(self.nodes(group) for group in groups))
            state &= ~sum(groups)
        return backwards[::-1]

    def nodes(self, mask: int) -> tuple[int, ...]:
        """The nodes of a set, ascending."""
        return tuple(v for v in range(len(self.dag)) if mask >> v & 1)

    def cost(self, state: int) -> float:
        """The least time of what is left; fills `best` with it and the groups of its last stage."""
        if not state:
            return 0.0
        if state not in self.best:
            # Of equal costs the largest mask, whatever the order in which endings come.
            cost, _, groups = min(
                (self.cost(state & ~sum(groups)) + self.stage_cost(groups), -sum(groups), groups)
                for groups in self.endings(state)
            )
            self.best[state] = cost, groups
        return self.best[state][0]

    def endings(self, state: int) -> Iterator[NodeSets]:
        """Every possible last stage: sets that nothing else in the state depends on."""
        nodes = [v for v in reversed(range(len(self.dag))) if state >> v & 1]
        stack: list[tuple[int, int, NodeSets]] = [(0, 0, ())]
        while stack:
            index, chosen, groups = stack.pop()
            if chosen and len(groups) <= self.groups:
                yield groups
            remaining = state & ~chosen
            for position in range(index, len(nodes)):
                v = nodes[position]
                if not self.after[v] & remaining and (merged := self.merge(v, groups)):
                    self.budget -= 1
                    if self.budget < 0:
                        raise _TooLarge
                    stack.append((position + 1, chosen | 1 << v, merged))

    def merge(self, v: int, groups: NodeSets) -> NodeSets:
        """The groups with a node added to those it feeds; empty if that makes one too large."""
        merged = 1 << v
        separate = list[int]()
        for group in groups:
            if group & self.after[v]:
                merged |= group
            else:
                separate.append(group)
        return (*separate, merged) if merged.bit_count() <= GROUP_NODES else ()

    def stage_cost(self, groups: NodeSets) -> float:
        """Nanoseconds: the longest group, or all work where the device is full; then a barrier."""
        for group in groups:
            if group not in self.costs:
                self._measure(group)
        longest = max(self.costs[group] for group in groups)
        return max(longest, sum(self.work[group] for group in groups)) + WAIT_NS

    def _measure(self, group: int) -> None:
        nodes = self.nodes(group)
        costs = self.dag.costs
        shares = self.dag.shares
        self.costs[group] = sum(costs[v] for v in nodes)
        self.work[group] = sum(costs[v] * shares[v] for v in nodes) if shares else 0.0


def _block_stages(dag: DAG, nodes: range, widths: Sequence[int], groups: int) -> list[Stage]:
    """The stages of some consecutive nodes; blocks that are too large are split in two."""
    if len(nodes) <= BLOCK_NODES:
        try:
            local = _Block(subgraph(dag, nodes), groups).stages()
            return [tuple(tuple(nodes[v] for v in group) for group in stage) for stage in local]
        except _TooLarge:
            pass
    middle = narrowest_position(widths, nodes.start, nodes.start + min(len(nodes), 2 * BLOCK_NODES))
    halves = range(nodes.start, middle), range(middle, nodes.stop)
    return [stage for half in halves for stage in _block_stages(dag, half, widths, groups)]


@STREAM_ASSIGNMENTS.register("ios")
def assign_ios(dag: DAG, streams: int) -> Assignment:
    """IOS (MLSys 2021), Algorithm 1: stages of groups, one stream for each group.

    Blocks are intervals of the breadth-first order that end where few tensors are alive; in each,
    dynamic programming over the sets of nodes left finds the stages of least total time.
    Exponential in a block's width, so the search is bounded: O(n * MOST_ENDINGS). At most
    `MOST_NODES` nodes; raises PipelineError beyond.
    """
    if len(dag) > MOST_NODES:
        raise PipelineError(
            f"ios handles at most {MOST_NODES} nodes, and there are {len(dag)}: run partition"
            " before it, or use policy=wavefront, which has stages too"
        )
    depths = dag.depths()
    waves = sorted(range(len(dag)), key=lambda v: (depths[v], v))
    level = subgraph(dag, waves)
    stages = _block_stages(
        level, range(len(dag)), crossing_tensors(level), min(streams, MOST_GROUPS)
    )
    stream_of = [0] * len(dag)
    stage_of = [0] * len(dag)
    for number, stage in enumerate(stages):
        for stream, group in enumerate(stage):
            for v in group:
                stream_of[waves[v]] = stream
                stage_of[waves[v]] = number
    return Assignment(stream_of, stage_of, [waves[v] for s in stages for g in s for v in g])
