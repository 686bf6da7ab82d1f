"""Grouped convolutions with few channels a group: how they fit channel blocks and MMA tiles."""

from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import shape_of

MERGED_ROWS = (16, 128)
"""Fewest and most rows of merged groups: those of the smallest and the largest MMA tile."""


def filling_merges(groups: int, rows: int, channels: int, block: int) -> list[int]:
    """How many groups can be merged so that they fill a tile and whole blocks, fewest first.

    A group has `rows` output and `channels` input channels.
    """
    fewest, most = MERGED_ROWS
    filling = [n for n in range(1, groups + 1) if groups % n == 0 and fewest <= n * rows <= most]
    return [n for n in filling if n * channels % block == 0]


def holds_groups(op: OperatorOp, block: int) -> bool:
    """Whether each channel block holds whole groups, which have as many outputs as inputs."""
    channels = shape_of(op.inputs[0].type)[1]
    members = channels // op["group"]
    whole = channels % block == 0 and block % members == 0
    return whole and shape_of(op.outputs[0].type)[1] == channels


def merges_in_blocks(op: OperatorOp, block: int) -> bool:
    """Whether channel blocks hold whole groups, several of which fill an MMA tile."""
    groups = op["group"]
    channels = shape_of(op.inputs[0].type)[1]
    members = channels // groups
    return holds_groups(op, block) and bool(filling_merges(groups, members, members, block))
