"""The machine that stream policies plan for: streams that run alike, and waits that cost time."""

from compiler.scheduling.policies.assignment import Assignment
from compiler.support.dag import DAG

WAIT_NS = 150
"""Nanoseconds from a node's end to the start of one on another stream: a CUDA graph's branch."""


def assignment_finish_times(dag: DAG, assignment: Assignment) -> list[int]:
    """When each node ends, in ns, if every stream runs its nodes in launch order, in O(n + e).

    A stage starts `WAIT_NS` after the end of the last node of earlier ones. Contention for the
    device is left out.
    """
    finish = [0] * len(dag)
    free: dict[int, int] = {}
    stage = -1
    opened = latest = 0
    for v in assignment.launch_order():
        if assignment.stages and assignment.stages[v] > stage:
            opened = latest + WAIT_NS if stage >= 0 else 0
            stage = assignment.stages[v]
        start = max(opened, free.get(assignment.streams[v], 0))
        for u in dag.predecessors[v]:
            start = max(
                start, finish[u] + WAIT_NS * (assignment.streams[u] != assignment.streams[v])
            )
        finish[v] = free[assignment.streams[v]] = start + dag.costs[v]
        latest = max(latest, finish[v])
    return finish


def makespan(dag: DAG, assignment: Assignment) -> int:
    """When the last node ends, in ns, by `assignment_finish_times`."""
    return max(assignment_finish_times(dag, assignment), default=0)


def assignment_bound(dag: DAG, streams: int) -> int:
    """A lower bound in ns: the longest path, or the work divided by the number of streams."""
    return max(dag.longest_path(), -(-sum(dag.costs) // streams))
