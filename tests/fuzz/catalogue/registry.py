"""Which function generates the nodes of an operator."""

from collections.abc import Callable

from tests.fuzz.grower import Grower

Generator = Callable[[Grower, str], None]
FAMILIES: dict[str, Generator] = {}
"""The generator of every operator: it picks inputs, draws attributes, and emits nodes."""


def generates(names: str) -> Callable[[Generator], Generator]:
    """Register a generator for operators."""

    def register(function: Generator) -> Generator:
        FAMILIES.update(dict.fromkeys(names.split(), function))
        return function

    return register
