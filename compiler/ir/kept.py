"""Results of pure functions that are kept on the attribute they were asked for."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from xdsl.ir import Attribute

ResultT = TypeVar("ResultT")


def kept(function: Callable[[Attribute], ResultT]) -> Callable[[Attribute], ResultT]:
    """Compute an immutable fact of an attribute once, and keep it on the attribute.

    Attributes never change. A dictionary would hash them, which takes longer than most questions.
    """
    name = f"_{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def stored(attribute: Attribute) -> ResultT:
        facts = vars(attribute)
        if name not in facts:
            facts[name] = function(attribute)
        return facts[name]

    return stored
