"""The scheduling units of a `dataflow.graph`: its groups, and the clusters they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from compiler.dag import DAG, Quotient, quotient
from compiler.errors import PipelineError
from compiler.graph.cost import CPU, Roofline, Work, costs_of, is_memory_bound
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.ir.operators import KINDS, Kind
from compiler.scheduling.policies.ordering import Demand

_MAY_BE_VIEWS = ("Concat", "Slice", "Split")


@dataclass(frozen=True)
class GroupGraph:
    """The groups of a graph in block order, and the data dependencies between them."""

    groups: Sequence[GroupOp]
    dag: DAG


def group_graph(graph: GraphOp, roofline: Roofline = CPU) -> GroupGraph:
    """The groups of a graph with their costs; dependencies go through the views between them.

    Raises PipelineError for an operator outside groups that cannot be a view.
    """
    groups: list[GroupOp] = []
    producers: dict[SSAValue, tuple[int, ...]] = {}
    edges: list[tuple[int, int]] = []
    for op in graph.body.block.ops:
        before = {u for value in op.operands for u in producers.get(value, ())}
        if isinstance(op, GroupOp):
            edges += [(u, len(groups)) for u in before]
            before = (len(groups),)
            groups.append(op)
        elif isinstance(op, OperatorOp):
            _check_view(op)
        if before:
            producers.update(dict.fromkeys(op.results, tuple(before)))
    dag = DAG.from_edges(costs_of(groups, roofline), edges, _shares(groups))
    return GroupGraph(groups, dag)


def _shares(groups: Sequence[GroupOp]) -> list[float]:
    """The part of the device that each group occupies; empty unless all are known."""
    known = [group.share.value.data / 1000 for group in groups if group.share is not None]
    return known if len(known) == len(groups) else []


def _check_view(op: OperatorOp) -> None:
    if KINDS.get(op.type_name) is not Kind.VIEW and op.type_name not in _MAY_BE_VIEWS:
        raise PipelineError(
            f"{op.type_name} '{op.node_name}' is in no group: run fuse-operators before this pass"
        )


def stage_of(group: GroupOp) -> int:
    """The stage of a group; -1 where it has none."""
    return group.stage.value.data if group.stage is not None else -1


def units(groups: GroupGraph) -> Quotient:
    """The graph's clusters, or the groups themselves where they are in none.

    Raises PipelineError when the clusters wait for each other in a circle.
    """
    names = [(-1, i) if g.partition is None else (g.partition.value.data, -1)
             for i, g in enumerate(groups.groups)]  # fmt: skip
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    try:
        return quotient(groups.dag, [number[name] for name in names])
    except ValueError as error:
        raise PipelineError(f"{error}: run partition again") from error


def demand_of(works: Sequence[Work], roofline: Roofline = CPU) -> Demand:
    """What groups of such work that run one after another ask of the device."""
    total = sum(works[1:], works[0])
    largest = max(work.nbytes for work in works)
    return Demand(is_memory_bound(total, roofline), largest / roofline.cache_bytes)
