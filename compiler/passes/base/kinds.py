"""The two kinds of passes: those that decide what the kernels are, and those that schedule them."""

from abc import ABC

from xdsl.context import Context
from xdsl.passes import ModulePass

from compiler.ir.context import load_dialects
from compiler.rewrite.search.cost_model import CostModel


class CostContext(Context):
    """A context whose passes can ask for times of kernels on the target."""

    def __init__(self, cost_model: CostModel):
        super().__init__()
        load_dialects(self)
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
