"""Compares outputs with a reference: the bounds, and the cause of an error beyond them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.backends.memory import Array
from compiler.target.target import parse_target
from compiler.tools.reference import run_onnxruntime
from compiler.tools.rounding import rounded, rounded_weights
from compiler.tools.tolerance import LARGEST_ELEMENT_FACTOR, TOLERANCES

EXPLAINED = 8.0
"""A precision explains errors up to this many times the effect of rounding inputs and weights.

Every operator rounds its operands again, and the square root of the number of layers in a row is
rarely more.
"""


@dataclass(frozen=True)
class Difference:
    """How far one output is from the reference, and how far it may be.

    `relative` is the error in the Euclidean norm, as a part of the reference's norm; `largest` that
    of one element, as a part of the reference's largest. `problem` is what no figure expresses.
    """

    name: str
    relative: float = 0.0
    largest: float = 0.0
    bound: float = 0.0
    problem: str = ""
    cause: str = ""

    @property
    def passed(self) -> bool:
        """Whether the output is within its bounds."""
        within = self.relative <= self.bound and self.largest <= LARGEST_ELEMENT_FACTOR * self.bound
        return within and not self.problem

    def __str__(self) -> str:
        figures = (
            f"relative error {self.relative:.2g} (bound {self.bound:.2g}), "
            f"largest {self.largest:.2g} of the largest value"
            f" (bound {LARGEST_ELEMENT_FACTOR * self.bound:.2g})"
        )
        if not self.bound:
            figures = "equal"
        text = f"{'ok  ' if self.passed else 'FAIL'} {self.name}: {self.problem or figures}"
        return f"{text}; {self.cause}" if self.cause else text


@dataclass(frozen=True)
class Comparison:
    """All outputs against the reference."""

    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is within its bounds."""
        return all(difference.passed for difference in self.differences)

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences))


def compare(
    outputs: Mapping[str, Array], expected: Mapping[str, Array], precision: str = "fp32"
) -> Comparison:
    """Compare floats by the bounds of a precision (`compiler.tools.tolerance`), others exactly.

    NaN and infinities must be where the reference has them.
    """
    bound = TOLERANCES[precision]
    return Comparison(
        tuple(_difference(name, outputs.get(name), e, bound) for name, e in expected.items())
    )


def _difference(name: str, actual: Array | None, expected: Array, bound: float) -> Difference:
    if actual is None:
        return Difference(name, problem="the output is missing")
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        types = [f"{array.dtype}{list(array.shape)}" for array in (actual, expected)]
        return Difference(name, problem=f"is {types[0]}, the reference is {types[1]}")
    if expected.dtype.kind in "iubSUO":
        wrong = int(np.count_nonzero(actual != expected))
        return Difference(name, problem=f"{wrong} of {expected.size} differ" if wrong else "")
    return _floats(name, actual.astype(np.float64), expected.astype(np.float64), bound)


def _floats(name: str, actual: Array, expected: Array, bound: float) -> Difference:
    finite = np.isfinite(expected)
    # isclose takes equal infinities for close, and NaNs where it is asked to
    odd = (~finite | ~np.isfinite(actual)) & ~np.isclose(actual, expected, equal_nan=True)
    if wrong := int(np.count_nonzero(odd)):
        problem = f"{wrong} of {expected.size} are NaN or infinite in one of the two"
        return Difference(name, bound=bound, problem=problem)
    a, b = actual[finite], expected[finite]
    relative = _ratio(float(np.linalg.norm(a - b)), float(np.linalg.norm(b)))
    largest = _ratio(*(float(np.max(np.abs(array), initial=0.0)) for array in (a - b, b)))
    return Difference(name, relative, largest, bound)


def _ratio(error: float, size: float) -> float:
    """A relative error; absolute where the reference is zero."""
    return error / size if size else error


def check_with_onnxruntime(
    model: Any, target: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Comparison:
    """Compare with onnxruntime on the same model: a path, bytes or a ModelProto.

    An output beyond its bound gets the cause, where rounding alone explains it. Raises Refusal if
    onnxruntime cannot load or run the model.
    """
    precision = parse_target(target).precision
    expected = run_onnxruntime(model, inputs)
    comparison = compare(outputs, expected, precision)
    if comparison.passed:
        return comparison
    weights = rounded_weights(model, precision)
    effects = compare(
        run_onnxruntime(
            weights, {name: rounded(array, precision) for name, array in inputs.items()}
        ),
        expected,
        precision,
    )
    explained = zip(comparison.differences, effects.differences, strict=True)
    return Comparison(tuple(_with_cause(*pair, precision) for pair in explained))


def _with_cause(difference: Difference, effect: Difference, precision: str) -> Difference:
    """The difference, with its cause as far as the model's sensitivity to rounding explains it."""
    if difference.passed or difference.problem or effect.problem:
        return difference
    rounding = f"rounding inputs and weights to {precision} alone gives {effect.relative:.2g}"
    if difference.relative <= EXPLAINED * effect.relative:
        cause = f"the model is sensitive: {rounding}, so this is the precision's error"
    else:
        cause = f"{rounding}, so the precision does not explain this: the result is wrong"
    return replace(difference, cause=cause)
