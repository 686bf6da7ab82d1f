"""The two kinds of passes: those that decide what the kernels are, and those that schedule them."""

from abc import ABC

from xdsl.passes import ModulePass


class GraphPass(ModulePass, ABC):
    """A pass that may change operators, groups and layouts: kernels are built after the last one.

    It must come before `lower-to-taskflow`.
    """


class SchedulePass(ModulePass, ABC):
    """A pass that decides where, when and in which memory kernels run.

    What groups compute stays as it is: kernels are built after the last graph pass.
    """
