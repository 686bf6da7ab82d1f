"""Every rewriting rule, by operator: importing the modules below registers their rules."""

from compiler.frontend import lower, quantised, recurrent, sequences
from compiler.frontend.rules import RULES

__all__ = ["RULES", "lower", "quantised", "recurrent", "sequences"]
