"""Opara's stream allocation: Chen et al. 2023, "Opara: Exploiting Operator Parallelism for
Expediting DNN Inference on GPUs", Algorithm 1."""

from collections.abc import Sequence


def allocate_streams(operands: Sequence[Sequence[int]]) -> list[int]:
    """A stream for each operator of a graph in topological order (Algorithm 1).

    `operands[v]` are the operators whose results v reads. An operator takes the stream of its
    first operand whose stream no other operator has taken; one without gets a new stream.
    """
    streams: list[int] = []
    continued: set[int] = set()
    opened = 0
    for reads in operands:
        joined = next((read for read in reads if read not in continued), None)
        if joined is None:
            streams.append(opened)
            opened += 1
        else:
            continued.add(joined)
            streams.append(streams[joined])
    return streams


def crossings(operands: Sequence[Sequence[int]], streams: Sequence[int]) -> list[tuple[int, ...]]:
    """For each operator, the operands whose end it must wait for by an event."""
    return [
        tuple(dict.fromkeys(read for read in reads if streams[read] != streams[operator]))
        for operator, reads in enumerate(operands)
    ]
