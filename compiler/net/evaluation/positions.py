"""Numbers that count up, and the positions of what is not zero."""

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.node import TypedNode


@evaluates("Positions")
def evaluate_positions(node: TypedNode) -> Array:
    """The input plus each of the numbers."""
    start = node.array(0)
    numbers = node["first"] + node["step"] * np.arange(node["count"], dtype=np.int64)
    return (start + numbers).astype(start.dtype)


@evaluates("NonZeroPositions")
def evaluate_nonzero_positions(node: TypedNode) -> list[Array]:
    """The row-major positions of the elements that are not zero, and their number."""
    positions = np.flatnonzero(node.array(0)).astype(np.int64)
    return [positions, np.array([positions.size], np.int64)]
