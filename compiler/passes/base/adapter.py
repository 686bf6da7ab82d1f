"""The one way between a `dataflow.graph` and the plain data that scheduling decides on.

Nodes are the graph's groups, numbered in block order.
"""

from xdsl.dialects.builtin import I64, IntegerAttr
from xdsl.ir import SSAValue

from compiler.errors import PipelineError
from compiler.graph.cost import CPU, costs_of, nbytes, works_of
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.edit import reorder_groups
from compiler.ir.types import int64
from compiler.net.operators import KINDS, Kind
from compiler.net.operators.injective import PARTS
from compiler.scheduling.placement import Groups, Placement
from compiler.support.dag import DAG


def read_dag(graph: GraphOp) -> DAG:
    """The dependencies between groups, also through the views between them, and their costs.

    Raises PipelineError for an operator outside groups that cannot be a view.
    """
    groups: list[GroupOp] = []
    producers: dict[SSAValue, tuple[int, ...]] = {}
    edges: list[tuple[int, int]] = []
    for op in graph.body.block.ops:
        sources = {u for value in op.operands for u in producers.get(value, ())}
        if isinstance(op, GroupOp):
            edges += [(u, len(groups)) for u in sources]
            sources = (len(groups),)
            groups.append(op)
        elif isinstance(op, OperatorOp):
            _check_view(op)
        if sources:
            producers.update(dict.fromkeys(op.results, tuple(sources)))
    # The part of the device that each group occupies; empty unless all are known.
    shares = [group.share.value.data / 1000 for group in groups if group.share is not None]
    return DAG.from_edges(costs_of(groups), edges, shares if len(shares) == len(groups) else [])


def _check_view(op: OperatorOp) -> None:
    if KINDS.get(op.type_name) is not Kind.VIEW and op.type_name not in PARTS:
        raise PipelineError(
            f"{op.type_name} '{op.node_name}' is in no group: run fuse-operators before this pass"
        )


def read_groups(graph: GraphOp) -> Groups:
    """All that policies know of a graph's groups."""
    works = works_of(list(graph.groups))
    return Groups(
        dag=read_dag(graph),
        flops=[work.flops for work in works],
        nbytes=[work.nbytes for work in works],
        balance=CPU.flops_per_ns / CPU.bytes_per_ns,
        cache_bytes=CPU.cache_bytes,
    )


def weights_read(graph: GraphOp) -> list[dict[str, int]]:
    """The weights that each group multiplies by, by key, and their bytes."""
    return [_weights_of(group) for group in graph.groups]


def _weights_of(group: GroupOp) -> dict[str, int]:
    pairs = zip(group.body.block.args, group.inputs, strict=True)
    outer: dict[SSAValue, SSAValue] = dict(pairs)
    contractions = (op for op in group.operators if KINDS.get(op.type_name) is Kind.CONTRACTION)
    read = (outer.get(value) for op in contractions for value in op.inputs)
    owners = ((value, value.owner) for value in read if value is not None)
    return {op.key.data: nbytes(value) for value, op in owners if isinstance(op, WeightOp)}


def read_placement(graph: GraphOp) -> Placement:
    """The placement of a graph's groups so far; block order is launch order."""
    groups = list(graph.groups)
    return Placement(
        order=range(len(groups)),
        partitions=[_number(group.partition) for group in groups],
        streams=[_number(group.stream) for group in groups],
        stages=[_number(group.stage) for group in groups],
    )


def _number(attribute: IntegerAttr[I64] | None) -> int | None:
    return None if attribute is None else attribute.value.data


def write_placement(graph: GraphOp, placement: Placement) -> None:
    """Give the groups their partitions, streams, stages and order, in place of older ones."""
    groups = list(graph.groups)
    for v, group in enumerate(groups):
        group.partition = _attribute(placement.partitions[v])
        group.stream = _attribute(placement.streams[v])
        group.stage = _attribute(placement.stages[v])
    reorder_groups(graph, [groups[v] for v in placement.order])


def _attribute(number: int | None) -> IntegerAttr[I64] | None:
    return None if number is None else int64(number)
