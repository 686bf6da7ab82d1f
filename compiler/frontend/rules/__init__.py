"""The rewriting rules, by operator; importing the modules below registers them."""

from compiler.frontend.rules import forms, lower, quantised, recurrent, sequences
from compiler.frontend.rules.call import RULES, Call

__all__ = ["RULES", "Call", "forms", "lower", "quantised", "recurrent", "sequences"]
