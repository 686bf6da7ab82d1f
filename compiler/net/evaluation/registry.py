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
