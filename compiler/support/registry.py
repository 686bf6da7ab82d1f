"""Tables of functions by name, which a decorator enters where a function is defined."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

F = TypeVar("F")


@dataclass(frozen=True)
class Registrar(Generic[F]):
    """The decorator of a table: `@registry("Add", "Sub")` enters a function under both names."""

    table: dict[str, F]

    def __call__(self, *names: str) -> Callable[[F], F]:
        """Enter a function under some names."""

        def register(function: F) -> F:
            self.table.update(dict.fromkeys(names, function))
            return function

        return register
