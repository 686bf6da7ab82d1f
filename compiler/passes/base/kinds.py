"""The two kinds of passes: those that decide what the kernels are, and those that schedule them."""

from abc import ABC
from typing import Any

from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.passes import ModulePass

from compiler.ir.context import load_dialects
from compiler.rewrite.search.cost_model import CostModel


class PassContext(Context):
    """A context whose passes see and change the weight store of a module, if it has one."""

    def __init__(self, weights: dict[str, NDArray[Any]] | None = None):
        super().__init__()
        load_dialects(self)
        self.weights = weights


class CostContext(PassContext):
    """A context whose passes can ask for times of kernels on the target."""

    def __init__(self, cost_model: CostModel):
        super().__init__()
        self.cost_model = cost_model
        self.decided: dict[str, str | None] = {}
        """By a pass's spec, the spec that repeats its decision; None if it changed nothing."""


class GraphPass(ModulePass, ABC):
    """A pass that may change operators, groups and layouts: kernels are built after the last one.

    It must come before `lower-to-taskflow`.
    """


class SchedulePass(ModulePass, ABC):
    """A pass that decides where, when and in which memory kernels run.

    What groups compute stays as it is: kernels are built after the last graph pass.
    """
