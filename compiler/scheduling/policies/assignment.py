"""The decision of a stream policy, and the registry of stream policies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.errors import PipelineError
from compiler.scheduling.policies.registry import PolicyRegistry
from compiler.support.dag import DAG, is_order


@dataclass(frozen=True, slots=True)
class Assignment:
    """A stream for each node; where `stages` is not empty, a stage for each node too.

    A stage starts when all earlier ones are over, on every stream. `order` is the launch order that
    the policy had in mind, empty where any will do.
    """

    streams: Sequence[int]
    stages: Sequence[int] = ()
    order: Sequence[int] = ()

    def launch_order(self) -> list[int]:
        """The nodes in the policy's order, else as they are numbered; stage after stage."""
        order = list(self.order or range(len(self.streams)))
        return sorted(order, key=self.stages.__getitem__) if self.stages else order


StreamAssignment = Callable[[DAG, int], Assignment]
"""Gives each node a stream from 0 to less than the second argument, the number of streams."""

STREAM_ASSIGNMENTS: PolicyRegistry[StreamAssignment] = PolicyRegistry("stream")
"""Every known policy by its name."""


def check_assignment(dag: DAG, streams: int, assignment: Assignment) -> None:
    """Raise PipelineError that says what is wrong with the decision of a stream policy."""
    if len(assignment.streams) != len(dag):
        raise PipelineError(f"it gives {len(assignment.streams)} streams for {len(dag)} nodes")
    if wrong := [s for s in assignment.streams if not 0 <= s < streams]:
        raise PipelineError(f"it gives stream {wrong[0]}, which is not below {streams}")
    if assignment.stages and len(assignment.stages) != len(dag):
        raise PipelineError(f"it gives {len(assignment.stages)} stages for {len(dag)} nodes")
    if assignment.stages and any(assignment.stages[u] > assignment.stages[v] for u, v in dag.edges):
        raise PipelineError("it puts a node into an earlier stage than one that it depends on")
    if assignment.order and not is_order(dag, assignment.order):
        raise PipelineError("its launch order is not topological")
