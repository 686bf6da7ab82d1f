"""Objects as keys of caches, by their identity."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Same(Generic[Value]):
    """A key of caches that equals only a key of the same object, which it keeps alive."""

    value: Value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and hash(other) == hash(self)

    def __hash__(self) -> int:
        return id(self.value)
