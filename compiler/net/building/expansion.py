"""Bounds on what importing makes of a model: unrolled or inlined operators, folded constants."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from compiler.errors import ModelError

LIMIT_VARIABLE = "FLOWLOOM_MAX_OPERATORS"
MOST_OPERATORS = 200_000
"""The default bound on nodes, iterations and operators; `VARIABLE` of the environment sets it."""

SMALL_BYTES, COPY_BYTES, SPARE_BYTES = 1 << 20, 1 << 24, 1 << 28
"""Folded constants up to the first size are not counted, as shapes are computed with them; those up
to the second may be larger than what they are made from; all others have the third in common."""

SPARE_WORK, WORK_A_BYTE = 1 << 32, 64
"""The operations that all folding may take, seconds of a core: these, and so many for each byte of
the model's tensors."""

OPERAND_GROWTH, MODEL_GROWTH = 8, 32
"""The bytes of a large folded constant to those of its operands (4-bit integers become float32),
and of all that are folded, of which most are intermediates, to those of the model's tensors."""

DEEPEST = 64
"""The deepest nesting of functions and bodies: a level takes several levels of Python's stack."""


def most_operators() -> int:
    """The bound of this process; raises ModelError if the environment's is not a number."""
    given = os.environ.get(LIMIT_VARIABLE, str(MOST_OPERATORS))
    if not given.isdecimal():
        raise ModelError(
            f"{LIMIT_VARIABLE} is {given!r}: set it to a number of operators, or unset it"
        )
    return int(given)


def _to_come(more: int) -> str:
    """The words of an error for nodes that are counted before they are expanded."""
    return f", {more:,} to come" if more else ""


@dataclass
class Expansion:
    """The nodes, iterations, operators and constants so far, and the functions and loops around."""

    most: int = field(default_factory=most_operators)
    visited: int = 0
    stored_bytes: int = 0
    """Of the model's own tensors."""
    folded_bytes: int = 0
    """Of constants that operators on constants became."""
    folded_work: int = 0
    """Of operations that folding took, where they grow faster than operands and results."""
    within: list[str] = field(default_factory=list[str])

    def count(self, what: str) -> None:
        """Count a node, an iteration or an operator; raises ModelError above the bound."""
        self.visited += 1
        self.expect(0, what)

    def expect(self, more: int, what: str) -> None:
        """Raise ModelError if `more` to come exceed the bound."""
        if self.visited + more > self.most:
            cause = f"{self.within[0]} expands" if self.within else "the model comes"
            raise ModelError(
                f"{cause} to more than {self.most:,} nodes, iterations and operators"
                f" ({self.visited:,} so far{_to_come(more)}, at {what}): shorten its loops,"
                f" sequences or calls before exporting, or set {LIMIT_VARIABLE} to a larger number"
                " (100,000 operators take many minutes to compile)"
            )

    def spares(self, work: int) -> bool:
        """Whether folding may take so many operations, which are counted then."""
        if self.folded_work + work > SPARE_WORK + WORK_A_BYTE * self.stored_bytes:
            return False
        self.folded_work += work
        return True

    def folds(self, result_bytes: int, operand_bytes: int) -> bool:
        """Whether an operator on constants becomes a constant, which is counted then.

        A model of a few bytes may ask for any number of them: one `Expand`, or one `Add` of a row
        to a column. What is larger stays an operator, which may be fused with what reads it.
        """
        if result_bytes <= SMALL_BYTES:
            return True
        total = self.folded_bytes + result_bytes
        if (
            result_bytes > max(COPY_BYTES, OPERAND_GROWTH * operand_bytes)
            or total > SPARE_BYTES + MODEL_GROWTH * self.stored_bytes
        ):
            return False
        self.folded_bytes = total
        return True

    @contextmanager
    def inside(self, label: str) -> Generator[None]:
        """Count as part of a function or of a node with a body; raises ModelError if too deep."""
        if len(self.within) >= DEEPEST:
            raise ModelError(
                f"{self.within[0]} nests functions or bodies more than {DEEPEST} deep, at {label}:"
                " inline them before exporting"
            )
        self.within.append(label)
        try:
            yield
        finally:
            self.within.pop()
