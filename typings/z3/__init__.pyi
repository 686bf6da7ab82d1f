"""The part of z3 that the proofs use: terms are Any, as their operators take numbers, too."""

from typing import Any

def __getattr__(name: str) -> Any: ...
