"""The rewriting rules, by operator; importing the modules below registers them."""

from compiler.frontend.rules import (
    columns,
    counted,
    deformable,
    einsum,
    forms,
    fourier,
    lower,
    measured,
    pools,
    quantised,
    recurrent,
    regions,
    sampling,
    scans,
    scatters,
    sequences,
    types,
)
from compiler.frontend.rules.call import RULES, Call

__all__ = [
    "RULES",
    "Call",
    "columns",
    "counted",
    "deformable",
    "einsum",
    "forms",
    "fourier",
    "lower",
    "measured",
    "pools",
    "quantised",
    "recurrent",
    "regions",
    "sampling",
    "scans",
    "scatters",
    "sequences",
    "types",
]
