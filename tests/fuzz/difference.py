"""A known difference from onnxruntime."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.call import Array, Call

DATA = "data"
"""Met by what elements are, as NaN, infinities and overflows."""
ROUNDING = "rounding"
"""A difference of the last digits."""
OPEN = "open"
"""The text leaves it open, or onnxruntime's result means nothing."""


@dataclass(frozen=True)
class Difference:
    """A difference that nobody can choose: where it is, what either does, and why.

    Those that are chosen are the rules of `compiler.frontend.semantics`.
    """

    operators: str
    when: str
    applies: Callable[[Call], bool]
    onnxruntime: str
    flowloom: str
    reason: str
    correct: Callable[[Call], list[Array]] | None = None
    repair: Callable[[Call, list[Array]], list[Array]] | None = None
    """The right results by onnxruntime's, where most of these are right."""
    kind: str = DATA
