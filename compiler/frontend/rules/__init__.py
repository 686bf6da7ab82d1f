"""The rewriting rules, by operator; importing the modules below registers them."""

from compiler.frontend.rules import (
    forms,
    fourier,
    lower,
    quantised,
    recurrent,
    scans,
    sequences,
    types,
)
from compiler.frontend.rules.call import RULES, Call

__all__ = [
    "RULES",
    "Call",
    "forms",
    "fourier",
    "lower",
    "quantised",
    "recurrent",
    "scans",
    "sequences",
    "types",
]
