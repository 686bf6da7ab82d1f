"""The registry of evaluations: the meaning in numpy of each operator of the table."""

from collections.abc import Callable

import numpy as np

from compiler.net.spec import Evaluation

Array = np.ndarray

EVALUATIONS: dict[str, Evaluation] = {}
"""The evaluation of each operator of the table."""


def evaluates(*names: str) -> Callable[[Evaluation], Evaluation]:
    """Register the evaluation of operators."""

    def register(function: Evaluation) -> Evaluation:
        EVALUATIONS.update(dict.fromkeys(names, function))
        return function

    return register


def positive_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; raises ValueError if it is outside."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
