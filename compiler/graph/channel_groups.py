"""Groups of few channels of a convolution: how blocks of channels and tensor cores take them."""

from compiler.graph.attributes import integer
from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import shape_of

MERGED_ROWS = (16, 128)
"""Fewest and most rows of groups that are merged: those of the smallest and the largest tile."""


def filling_merges(groups: int, rows: int, channels: int, block: int) -> list[int]:
    """How many groups can be one, the fewest first, so that each fills a tile and whole blocks.

    A group has `rows` outputs and `channels` inputs.
    """
    fewest, most = MERGED_ROWS
    able = [n for n in range(1, groups + 1) if groups % n == 0 and fewest <= n * rows <= most]
    return [n for n in able if n * channels % block == 0]


def holds_groups(op: OperatorOp, block: int) -> bool:
    """Whether blocks of an image's channels hold whole groups, with as many outputs as inputs."""
    channels = shape_of(op.inputs[0].type)[1]
    members = channels // integer(op, "group", 1)
    whole = channels % block == 0 and block % members == 0
    return whole and shape_of(op.outputs[0].type)[1] == channels


def merges_in_blocks(op: OperatorOp, block: int) -> bool:
    """Whether several groups fill a tile of tensor cores and lie in blocks that hold whole ones."""
    groups, channels = integer(op, "group", 1), shape_of(op.inputs[0].type)[1]
    members = channels // groups
    return holds_groups(op, block) and bool(filling_merges(groups, members, members, block))
