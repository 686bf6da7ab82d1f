"""A bound on the size of a model after loops, recurrences and functions are unrolled or inlined."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from compiler.errors import ModelError

LIMIT_VARIABLE = "FLOWLOOM_MAX_OPERATORS"
MOST_OPERATORS = 200_000
"""The default bound on nodes, iterations and operators; `VARIABLE` of the environment sets it."""

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


@dataclass
class Expansion:
    """The number of nodes, iterations and operators so far, and the functions and loops around."""

    most: int = field(default_factory=most_operators)
    visited: int = 0
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
                f" ({self.visited:,} so far, at {what}): shorten its loops, sequences or calls"
                f" before exporting, or set {LIMIT_VARIABLE} to a larger number"
            )

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
