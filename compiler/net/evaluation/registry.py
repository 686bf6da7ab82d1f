"""The registry of evaluations: the meaning in numpy of each operator of the table."""

import numpy as np

from compiler.net.node import Evaluation
from compiler.support.registry import Registrar

Array = np.ndarray

EVALUATIONS: dict[str, Evaluation] = {}
"""The evaluation of each operator of the table."""

evaluates = Registrar(EVALUATIONS)
"""Registers the evaluation of operators."""
