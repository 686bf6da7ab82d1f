"""Compares results with the oracle's: exactly, or as far as rounding may carry them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.fuzz.case import Failure
from tests.fuzz.differences import Incomparable
from tests.fuzz.oracle import Noise, Oracle, Refused, Value, free_names, is_exact

Array = NDArray[Any]
QUICK, THOROUGH = 2, 24
"""How many runs with rounding errors measure the condition, before and after a difference."""
_UNITS = 8.0


class Expected:
    """The tensors of a model, and the spread of each under rounding errors."""

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> None:
        """Raises Refused or Incomparable where onnxruntime is no judge."""
        self.model, self.feeds, self.oracle = model, dict(feeds), Oracle(model)
        with np.errstate(all="ignore"):
            self.values = self.oracle.run(model, feeds)
        self._runs: list[dict[str, Value]] = []
        self._inexact = inexact(model, self.values)

    def wrong(self, name: str, result: Array) -> str | None:
        """What is wrong with an output's result, or None."""
        expected = self.values[name]
        if result.dtype != expected.dtype or result.shape != expected.shape:
            return f"{result.dtype}{list(result.shape)}, not {expected.dtype}{list(expected.shape)}"
        for runs in (0, QUICK, THOROUGH):
            far = self._far(name, result, runs)
            if not far.any():
                return None
            if name not in self._inexact:
                break
        return _described(far, result, expected)

    def _far(self, name: str, result: Array, runs: int) -> Array:
        expected = self.values[name]
        with np.errstate(all="ignore"):
            equal = (result == expected) | (result != result) & (expected != expected)
            if not runs or equal.all():
                return np.asarray(~equal)
            spread, undecided = self._spread(name, runs)
            near = np.abs(_wide(result) - _wide(expected)) <= spread
            return np.asarray(~(equal | near | undecided))

    def _spread(self, name: str, runs: int) -> tuple[Array, Array]:
        """How far results may be off, and where they are not decided at all."""
        while len(self._runs) < runs:
            noise = Noise(len(self._runs), 4.0 if len(self._runs) < QUICK else 8.0)
            try:
                self._runs.append(self.oracle.perturbed(self.model, self.feeds, noise))
            except (Refused, Incomparable):  # an error moved a value out of some domain
                self._runs.append(self.values)
        expected = self.values[name]
        others = [run[name] for run in self._runs[:runs]]
        others = [other for other in others if other.shape == expected.shape]
        if expected.dtype.kind != "f":
            differ = [np.asarray(other != expected) for other in others]
            undecided: Array = np.logical_or.reduce(differ)
            nothing = np.zeros_like(undecided, np.float64)
            return nothing, undecided
        center = _wide(expected)
        limits = np.finfo(expected.dtype)
        floor = np.abs(center) * float(limits.eps) * _UNITS + float(limits.smallest_normal)
        away: Array = np.maximum.reduce([np.abs(_wide(other) - center) for other in others])
        known: Array = np.where(np.isfinite(away), away, 0)
        spread: Array = 4 * known + floor
        return spread, ~np.isfinite(away) & ~_same_everywhere(others, expected)


def _same_everywhere(others: list[Array], expected: Array) -> Array:
    """Where infinities and NaN stay what they are under rounding errors."""
    same = [(o == expected) | (o != o) & (expected != expected) for o in others]
    return np.logical_and.reduce(same)


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


def inexact(model: onnx.ModelProto, values: Mapping[str, Value]) -> set[str]:
    """The tensors that rounding errors of some node reach."""
    found: set[str] = set()
    for node in model.graph.node:
        rounds = not is_exact(node) and any(
            _is_float(values[name]) for name in (*node.input, *node.output) if name
        )
        if rounds or found.intersection(free_names(node)):
            found.update(node.output)
    return found


def _is_float(value: Value) -> bool:
    return isinstance(value, list) or value.dtype.kind == "f"


def _described(far: Array, result: Array, expected: Array) -> str:
    places = np.argwhere(far)
    first = tuple(int(i) for i in places[0])
    return (
        f"{len(places)} of {expected.size} elements differ, the first at {list(first)}:"
        f" {result[first]!r}, not {expected[first]!r}"
    )


def compared(expected: Expected, results: Mapping[str, Array]) -> Failure | None:
    """The first wrong output of a run."""
    for name, result in results.items():
        message = expected.wrong(name, result)
        if message:
            return Failure("wrong", f"output {name!r}: {message}")
    return None
