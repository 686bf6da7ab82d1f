"""Compares results with what judges say: exactly, or as far as rounding may carry them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.fuzz.case import Case, Failure
from tests.fuzz.differences import Incomparable, may_differ_inside
from tests.fuzz.oracle import (
    Noise,
    Oracle,
    Refused,
    Value,
    free_names,
    is_exact,
    is_float,
    limits_of,
)
from tests.fuzz.precise import Precise

Array = NDArray[Any]
QUICK, THOROUGH = 2, 24
"""How many runs with rounding errors measure the condition, before and after a difference."""
_UNITS = 8.0


class Judge(Protocol):
    """What outputs should be: `dtypes` are the model's, `inexact` those that rounding reaches."""

    name: str
    values: dict[str, Value]
    dtypes: dict[str, np.dtype[Any]]
    inexact: set[str]
    doubtful: bool
    """Whether another judge's word outweighs this one's."""

    def perturbed(self, noise: Noise) -> Mapping[str, Value]:
        """The values where operators err by a few units; may raise Refused or Incomparable."""
        ...


class Runtime:
    """onnxruntime, a node at a time, as a judge."""

    name = "onnxruntime"

    def __init__(self, case: Case) -> None:
        """Raises Refused or Incomparable where onnxruntime is no judge."""
        self._model, self._feeds = case.proto, dict(case.feeds)
        self._oracle = Oracle(self._model, case.semantics)
        with np.errstate(all="ignore"):
            self.values = self._oracle.run(self._model, self._feeds)
        arrays = {n: v for n, v in self.values.items() if not isinstance(v, list)}
        self.dtypes = {name: array.dtype for name, array in arrays.items()}
        self.inexact = inexact(self._model, self.values)
        self.doubtful = may_differ_inside(self._model)

    def perturbed(self, noise: Noise) -> Mapping[str, Value]:
        """Every tensor of the model whose inexact nodes err."""
        try:
            return self._oracle.perturbed(self._model, self._feeds, noise)
        except (Refused, Incomparable):  # an error moved a value out of some domain
            return self._oracle.perturbed(self._model, self._feeds, noise, self.values)


def judges(case: Case) -> "list[Expected]":
    """What can judge a case: onnxruntime, then float64; raises Refused where nothing can."""
    found: list[Expected] = []
    reasons: list[str] = []
    for kind in (Runtime, Precise):
        try:
            found.append(Expected(kind(case)))
        except (Refused, Incomparable, ValueError) as error:  # numpy refuses axes given twice
            reasons.append(str(error))
    if not found:
        raise Refused(reasons[0])
    return found


class Expected:
    """The outputs that a judge gives, and the spread of each under rounding errors."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.values = judge, judge.values
        self._runs: list[Mapping[str, Value]] = []

    def wrong(self, name: str, result: Array) -> str | None:
        """What is wrong with an output's result, or None."""
        expected = self.values[name]
        dtype = self.judge.dtypes[name]
        if result.dtype != dtype or result.shape != expected.shape:
            return f"{result.dtype}{list(result.shape)}, not {dtype}{list(expected.shape)}"
        for runs in (0, QUICK, THOROUGH):
            far = self._far(name, result, runs)
            if not far.any():
                return None
            if name not in self.judge.inexact:
                break
        return _described(far, result, expected)

    def _far(self, name: str, result: Array, runs: int) -> Array:
        expected = self.values[name]
        if is_float(result.dtype):
            result, expected = _wide(result), _wide(expected)
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
                self._runs.append(self.judge.perturbed(noise))
            except (Refused, Incomparable):  # no run with this error is defined
                self._runs.append(self.values)
        expected = self.values[name]
        others = [run[name] for run in self._runs[:runs]]
        others = [other for other in others if other.shape == expected.shape]
        if not is_float(expected.dtype):
            differ = [np.asarray(other != expected) for other in others]
            undecided: Array = np.logical_or.reduce(differ)
            nothing = np.zeros_like(undecided, np.float64)
            return nothing, undecided
        center = _wide(expected)
        limits = limits_of(self.judge.dtypes[name])
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
        floats = any(_is_float(values[name]) for name in (*node.input, *node.output) if name)
        rounds = not is_exact(node) and (floats or node.op_type in ("Resize", "Upsample"))
        if rounds or found.intersection(free_names(node)):
            found.update(node.output)
    return found


def _is_float(value: Value) -> bool:
    return isinstance(value, list) or is_float(value.dtype)


def _described(far: Array, result: Array, expected: Array) -> str:
    places = np.argwhere(far)
    first = tuple(int(i) for i in places[0])
    return (
        f"{len(places)} of {expected.size} elements differ, the first at {list(first)}:"
        f" {result[first]!r}, not {expected[first]!r}"
    )


def compared(expected: Sequence[Expected], results: Mapping[str, Array]) -> Failure | None:
    """The first output of a run that some judge calls wrong, and what the others say of it."""
    for name, result in results.items():
        found = {each.judge.name: each.wrong(name, result) for each in expected}
        wrong = {judge: message for judge, message in found.items() if message}
        doubtful = {each.judge.name for each in expected if each.judge.doubtful}
        if not wrong or (wrong.keys() <= doubtful and len(wrong) < len(found)):
            continue
        said = "; ".join(f"by {judge}: {message or 'right'}" for judge, message in found.items())
        first = next(iter(found))
        key = "wrong" if first in wrong else f"wrong by {' and '.join(wrong)} only"
        return Failure(key, f"output {name!r}: {said}")
    return None
