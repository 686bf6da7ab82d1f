"""Winograd's transforms of one line, on vectors; `graph/packing/winograd.py` has the points."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from tvm import tirx
from tvm.ir import PrimType, Var
from tvm.tirx import Stmt

from compiler.graph.packing.winograd import POINTS


@dataclass(frozen=True)
class LineTransforms:
    """The transforms of F(`results`, 3) on vectors of `lanes`."""

    results: int
    lanes: int

    def image(self, elements: Sequence[Any]) -> tuple[list[Stmt], list[Any]]:
        """The values of a line of the image at all points: 0, a, -a, ..., infinity."""
        code = _Code(self.lanes)
        elements = [code.bind(element) for element in elements]
        even, odd = elements[0::2], elements[1::2]
        values = [code.sum(self._without(None), even)]
        for point in POINTS[self.results]:
            others = self._without(point)
            total = code.bind(code.sum(others, even[1:]))
            rest = code.bind(code.sum(others, odd[:-1]))
            values += [code.sum((1.0, sign * point), (total, rest)) for sign in (1, -1)]
        return code.statements, [*values, code.sum(self._without(None), odd)]

    def result(self, values: Sequence[Any]) -> tuple[list[Stmt], list[Any]]:
        """The results of a line from the sums at all points."""
        code = _Code(self.lanes)
        values = [code.bind(value) for value in values]
        pairs = list(zip(values[1:-1:2], values[2:-1:2], strict=True))
        even, odd = (
            [code.bind(code.sum((1.0, sign), pair)) for pair in pairs] for sign in (1.0, -1.0)
        )
        results: list[Any] = []
        for power in range(self.results):
            factors = [point**power for point in POINTS[self.results]]
            first, last = power == 0, power == self.results - 1
            ends = [*values[:first], *values[len(values) - last :]]
            terms = odd if power % 2 else even
            results.append(code.sum((*[1.0] * len(ends), *factors), (*ends, *terms)))
        return code.statements, results

    def _without(self, point: float | None) -> Sequence[float]:
        """The coefficients of x^2 - b^2, multiplied over all points b but one, lowest first."""
        squares = [other * other for other in POINTS[self.results] if other != point]
        return [float(factor) for factor in numpy.poly(squares)[::-1]] if squares else [1.0]


class _Code:
    """Statements that bind vectors."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.statements: list[Stmt] = []

    def bind(self, value: Any) -> Any:
        """A variable of a value."""
        kind = f"float32x{self.lanes}" if self.lanes > 1 else "float32"
        bound = tirx.Bind(Var("line", PrimType(kind)), value)
        self.statements.append(bound)
        return bound.var

    def sum(self, factors: Iterable[float], values: Iterable[Any]) -> Any:
        """The sum of values times factors, those of factor one first."""
        terms = sorted(zip(factors, values, strict=True), key=lambda term: abs(term[0]) != 1)
        total = None
        for factor, value in terms:
            if total is None:
                total = value if factor == 1 else self._constant(factor) * value
            elif abs(factor) == 1:
                total = total + value if factor == 1 else total - value
            else:
                total = total + self._constant(factor) * value
        return total

    def _constant(self, factor: float) -> Any:
        constant = tirx.const(factor, "float32")
        return tirx.Broadcast(constant, self.lanes) if self.lanes > 1 else constant
