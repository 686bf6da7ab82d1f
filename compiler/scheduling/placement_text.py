"""A placement as a short text that a pipeline can hold, exact and bound to its graph."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import cast
from zlib import compress, decompress
from zlib import error as ZlibError

from compiler.errors import PipelineError
from compiler.scheduling.placement import Placement, check_placement
from compiler.support.dag import DAG

COLUMNS = 4
"""By launch position: the node's number less the position, its partition, its stream, its stage."""


def placement_to_text(dag: DAG, placement: Placement) -> str:
    """`NODES-DIGEST-CONTENT`: the graph's size and edges, then the placement, compressed."""
    order = placement.order
    columns = [
        # Nodes stay near their number: small differences compress well.
        [v - position for position, v in enumerate(order)],
        *(
            [column[v] for v in order]
            for column in (placement.partitions, placement.streams, placement.stages)
        ),
    ]
    content = compress(json.dumps(columns, separators=(",", ":")).encode(), 9)
    return f"{_digest(dag)}-{urlsafe_b64encode(content).decode()}"


def _digest(dag: DAG) -> str:
    edges = json.dumps(list(dag.edges)).encode()
    return f"{len(dag)}-{sha256(edges).hexdigest()[:12]}"


def placement_from_text(dag: DAG, text: str) -> Placement:
    """The placement of a text; raises PipelineError for a damaged one, or one of another graph."""
    nodes, _, tail = text.partition("-")
    digest, _, content = tail.partition("-")
    if f"{nodes}-{digest}" != _digest(dag):
        raise PipelineError(
            f"the placement is of another graph of {nodes} groups; this one has {len(dag)}: search"
            " again, by compiling without a pipeline"
        )
    offsets, *columns = _columns(content, len(dag))
    order = [position + (offset or 0) for position, offset in enumerate(offsets)]
    if sorted(order) != list(range(len(dag))):
        raise PipelineError(_DAMAGED)
    position_of = {v: position for position, v in enumerate(order)}
    partitions, streams, stages = (
        [column[position_of[v]] for v in range(len(dag))] for column in columns
    )
    placement = Placement(order, partitions, streams, stages)
    check_placement(dag, placement)
    return placement


_DAMAGED = "the text of the placement is damaged: copy it whole, or search again"


def _columns(content: str, count: int) -> list[list[int | None]]:
    try:
        columns = json.loads(decompress(urlsafe_b64decode(content)))
    except (ValueError, ZlibError) as error:
        raise PipelineError(_DAMAGED) from error
    if not isinstance(columns, list) or len(cast(list[object], columns)) != COLUMNS:
        raise PipelineError(_DAMAGED)
    for column in cast(list[object], columns):
        if not isinstance(column, list) or len(cast(list[object], column)) != count:
            raise PipelineError(_DAMAGED)
        if not all(value is None or type(value) is int for value in cast(list[object], column)):
            raise PipelineError(_DAMAGED)
    return cast(list[list[int | None]], columns)
