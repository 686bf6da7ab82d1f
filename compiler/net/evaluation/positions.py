"""Numbers that count up."""

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.node import TypedNode


@evaluates("Positions")
def evaluate_positions(node: TypedNode) -> Array:
    """The input plus each of the numbers."""
    start = node.array(0)
    numbers = node["first"] + node["step"] * np.arange(node["count"], dtype=np.int64)
    return (start + numbers).astype(start.dtype)
