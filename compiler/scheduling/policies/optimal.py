"""The exact best streams and launch order of small graphs, by branch and bound."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.errors import PipelineError
from compiler.scheduling.policies.assignment import STREAM_ASSIGNMENTS, Assignment
from compiler.scheduling.policies.list_schedule import WAIT_NS, assignment_bound, makespan
from compiler.support.dag import DAG

MOST_NODES = 200
MOST_STEPS = 20_000
"""Partial schedules that the search looks at before it gives the best so far."""

LOGGER = logging.getLogger(__name__)


@dataclass
class _Search:
    """A depth-first search over list schedules: the next node, and its stream."""

    dag: DAG
    streams: int
    best: int
    incumbent: Assignment
    steps: int = field(default_factory=lambda: MOST_STEPS)
    order: list[int] = field(default_factory=list[int])
    seen: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])

    def __post_init__(self) -> None:
        self.ranks = self.dag.upward_ranks()
        self.waiting = [len(predecessors) for predecessors in self.dag.predecessors]
        self.stream_of = [0] * len(self.dag)
        self.finish = [0] * len(self.dag)
        self.free: list[int] = []
        self.remaining = sum(self.dag.costs)
        self.bound = assignment_bound(self.dag, self.streams)

    def run(self, ready: Sequence[int]) -> None:
        """Try every next step; those that cannot beat the best are pruned."""
        if len(self.order) == len(self.dag):
            self.best = max(self.finish, default=0)
            self.incumbent = Assignment(list(self.stream_of), order=list(self.order))
            return
        for start, _, v, stream in sorted(self.moves(ready)):
            if self.best <= self.bound or self.steps <= 0:
                return
            if start + self.ranks[v] < self.best:
                self.steps -= 1
                self.go_on(v, stream, start, ready)

    def moves(self, ready: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Every ready node on every used stream and a fresh one: start, -rank, node, stream."""
        options = range(min(len(self.free) + 1, self.streams))
        return [(self.start(v, s), -self.ranks[v], v, s) for v in ready for s in options]

    def start(self, v: int, stream: int) -> int:
        """When a ready node can start on a stream."""
        free = self.free[stream] if stream < len(self.free) else 0
        ends = (
            self.finish[u] + WAIT_NS * (self.stream_of[u] != stream)
            for u in self.dag.predecessors[v]
        )
        return max(free, max(ends, default=0))

    def go_on(self, v: int, stream: int, start: int, ready: Sequence[int]) -> None:
        """Take one step, search from there, and take it back."""
        free = list(self.free)
        self.free[stream : stream + 1] = [start + self.dag.costs[v]]
        self.stream_of[v] = stream
        self.finish[v] = start + self.dag.costs[v]
        self.remaining -= self.dag.costs[v]
        self.order.append(v)
        for w in self.dag.successors[v]:
            self.waiting[w] -= 1
        fresh = [w for w in self.dag.successors[v] if not self.waiting[w]]
        if self.hopeful():
            self.run([*(w for w in ready if w != v), *fresh])
        for w in self.dag.successors[v]:
            self.waiting[w] += 1
        self.order.pop()
        self.remaining += self.dag.costs[v]
        self.finish[v] = 0
        self.free = free

    def hopeful(self) -> bool:
        """Whether the state is new, and the work left fits below the best."""
        idle = self.streams - len(self.free)
        ends = sum(min(self.best, end) for end in self.free)
        # Times are whole: on every stream a better schedule ends by best - 1.
        if ends + self.remaining > (self.best - 1) * (len(self.free) + idle):
            return False
        state = self.state()
        if state in self.seen:
            return False
        self.seen.add(state)
        return True

    def state(self) -> tuple[object, ...]:
        """All that the remaining schedule depends on, the same for permuted streams."""
        live: list[list[tuple[int, int]]] = [[] for _ in self.free]
        for v in self.order:
            if any(self.waiting[w] for w in self.dag.successors[v]):
                live[self.stream_of[v]].append((v, self.finish[v]))
        streams = sorted((end, tuple(values)) for end, values in zip(self.free, live, strict=True))
        return frozenset(self.order), max(self.finish, default=0), tuple(streams)


def branch_and_bound(dag: DAG, streams: int) -> tuple[Assignment, bool]:
    """The best assignment, no worse than any other policy's, and whether it is proven optimal."""
    policies = [policy for name, policy in STREAM_ASSIGNMENTS.items() if name != "optimal"]
    assignments = [policy(dag, streams) for policy in policies]
    unstaged = [
        Assignment(assignment.streams, order=assignment.launch_order())
        for assignment in assignments
    ]
    first = min(unstaged, key=lambda assignment: makespan(dag, assignment))
    work = _Search(dag, streams, makespan(dag, first), first)
    work.run([v for v, predecessors in enumerate(dag.predecessors) if not predecessors])
    return work.incumbent, work.steps > 0 or work.best <= work.bound


@STREAM_ASSIGNMENTS.register("optimal")
def assign_optimal(dag: DAG, streams: int) -> Assignment:
    """Branch and bound over all list schedules (Kohler and Steiglitz, J. ACM 21(1), 1974).

    It begins with the best of all other policies. Exponential: after `MOST_STEPS` steps it gives
    the best so far, and logs how far from the bound that may be. At most `MOST_NODES` nodes.
    """
    if len(dag) > MOST_NODES:
        raise PipelineError(
            f"optimal handles at most {MOST_NODES} nodes, and there are {len(dag)}: run partition"
            " before it, or use policy=critical-path"
        )
    assignment, proven = branch_and_bound(dag, streams)
    best = makespan(dag, assignment)
    bound = assignment_bound(dag, streams)
    level = logging.INFO if proven else logging.WARNING
    state = "proven best" if proven else f"not proven best in {MOST_STEPS} steps"
    LOGGER.log(level, "optimal: %.3f us, %s; bound %.3f us", best / 1e3, state, bound / 1e3)
    return assignment
