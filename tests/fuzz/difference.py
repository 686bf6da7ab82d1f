"""A known difference from onnxruntime."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.call import Array, Call


@dataclass(frozen=True)
class Difference:
    """A known difference: where it is, what onnxruntime does, what Flowloom does, and why."""

    operators: str
    when: str
    applies: Callable[[Call], bool]
    onnxruntime: str
    flowloom: str
    reason: str
    correct: Callable[[Call], list[Array]] | None = None
