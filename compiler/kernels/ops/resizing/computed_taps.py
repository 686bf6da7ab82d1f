"""Resize along an axis whose size a run decides: positions and weights are computed, not tables."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Any

import numpy
from tvm import tirx

from compiler.kernels.ops.common import cast
from compiler.kernels.ops.tables import table_element
from compiler.kernels.sizes import expression, extent_constant, is_number
from compiler.tensors.extents import NotForAllSizes

PlacesAndWeights = tuple[numpy.ndarray, numpy.ndarray]
"""Source positions and weights, [output size, taps] each."""

TapsOfSize = Callable[[int, int], PlacesAndWeights]
"""The taps of an axis by the sizes of the result and the source, as numbers."""

SAMPLE = 16
"""The source elements of an axis whose taps in the middle are those of any axis."""

PERIODIC = ("asymmetric", "half_pixel", "pytorch_half_pixel")
"""The coordinates that do not depend on how long an axis is."""


COMPUTED = (*PERIODIC, "align_corners")
"""The coordinates that have formulas."""


@dataclass(frozen=True)
class PeriodicTaps:
    """Taps of an axis that becomes `up` times as long, which repeat from there on.

    `offsets` are source positions less the place of the period, [up, taps], as `weights`.
    """

    size: int
    extent: int
    up: int
    offsets: numpy.ndarray
    weights: numpy.ndarray

    @property
    def taps(self) -> int:
        """The source elements of each element of the result."""
        return self.offsets.shape[1]

    def place(self, position: Any, tap: int) -> Any:
        """The source position of a tap of a position, at most that of the last element."""
        offsets = self.offsets[:, tap]
        if not offsets.any():
            return tirx.floordiv(position, self.up)
        offset = table_element(offsets.astype(numpy.int32), tirx.floormod(position, self.up))
        return inside_axis(tirx.floordiv(position, self.up) + offset, self.extent)

    def weight(self, position: Any, tap: int, dtype: str) -> Any:
        """The weight of a tap of a position."""
        kind = numpy.float64 if dtype == "float64" else numpy.float32
        own = self.weights[:, tap].astype(kind)
        return table_element(own, tirx.floormod(position, self.up), dtype)


@dataclass(frozen=True)
class ComputedTaps:
    """Taps of an axis by the formulas of `source_coordinates`, in the type `kind`.

    `scale` is a number or an expression of that type. Of nearest neighbours `tie` is what is added
    to the lower one of two that are as near, or the name of another way to round.
    """

    size: int
    extent: int
    scale: Any
    kind: str
    coordinates: str
    mode: str
    rounding: str
    cubic: float
    inside_only: bool

    @property
    def taps(self) -> int:
        """The source elements of each element of the result."""
        return {"nearest": 1, "linear": 2, "cubic": 4}[self.mode]

    def place(self, position: Any, tap: int) -> Any:
        """The source position of a tap of a position, at most that of the last element."""
        at = self._coordinate(position)
        low = self._rounded(at) if self.mode == "nearest" else tirx.floor(at)
        return inside_axis(low.astype("int32") + self._first + tap, self.extent)

    def weight(self, position: Any, tap: int, dtype: str) -> Any:
        """The weight of a tap of a position."""
        own = self._weight(position, tap)
        if self.inside_only:
            total = self._weight(position, 0)
            for other in range(1, self.taps):
                total = total + self._weight(position, other)
            own = own / total
        return cast(own, dtype)

    @property
    def _first(self) -> int:
        return 1 - self.taps // 2 if self.taps > 1 else 0

    def _weight(self, position: Any, tap: int) -> Any:
        at = self._coordinate(position)
        place = tirx.floor(at) + self._number(self._first + tap)
        d = tirx.abs(place - at)
        one = self._number(1)
        if self.mode == "linear":
            weight = tirx.max(self._number(0), one - d)
        else:
            a, n = self.cubic, self._number
            near = ((n(a + 2) * d - n(a + 3)) * d) * d + one
            far = ((n(a) * d - n(5 * a)) * d + n(8 * a)) * d - n(4 * a)
            weight = tirx.Select(d <= one, near, tirx.Select(d < n(2), far, n(0)))
        if not self.inside_only:
            return weight
        inside = tirx.all(place >= self._number(0), place < self._length(self.extent))
        return tirx.Select(inside, weight, self._number(0))

    def _number(self, value: float) -> Any:
        return tirx.const(value, self.kind)

    def _length(self, extent: Any) -> Any:
        return extent_constant(extent, self.kind)

    @cached_property
    def _scale(self) -> Any:
        return self._number(self.scale) if isinstance(self.scale, float) else self.scale

    def _coordinate(self, position: Any) -> Any:
        """The source coordinate of an output position."""
        n = self._number
        x = position.astype(self.kind)
        half, one = n(0.5), n(1)
        size, extent = self._length(self.size), self._length(self.extent)
        by_halves = (x + half) / self._scale - half
        match self.coordinates:
            case "asymmetric":
                return x / self._scale
            case "align_corners":
                # whole elements for the nearest, as in `source_coordinates`
                length = size if self.kind == "float32" else self._scale * extent
                return tirx.Select(length > one, x * (extent - one) / (length - one), n(0))
            case "pytorch_half_pixel":
                return tirx.Select(size > one, by_halves, n(0))
            case "half_pixel":
                return by_halves
            case _:
                raise NotForAllSizes(f"no symbolic kernel: coordinates by {self.coordinates}")

    def _rounded(self, at: Any) -> Any:
        if self.rounding in ("floor", "ceil"):
            return tirx.floor(at) if self.rounding == "floor" else tirx.ceil(at)
        low = tirx.floor(at)
        one = self._number(1)
        zero = self._number(0)
        over = at - low - self._number(0.5)
        tie = one if self.rounding == "round_prefer_ceil" else zero
        above = tirx.Select(over > zero, one, zero)
        return low + tirx.Select(tirx.abs(over) <= self._number(1e-6), tie, above)


def inside_axis(place: Any, extent: Any) -> Any:
    """A position that is inside an axis."""
    return tirx.max(tirx.const(0, "int32"), tirx.min(place, expression(extent - 1)))


def periodic_taps(
    size: Any, extent: Any, coordinates: str, taps_of: TapsOfSize
) -> PeriodicTaps | None:
    """The taps of an axis that becomes a power of two times as long, if they repeat."""
    up = size // extent
    if not is_number(up) or size != extent * up or up < 2 or log2(up) % 1:
        return None
    if coordinates not in PERIODIC:
        return None
    places, weights = taps_of(up * SAMPLE, SAMPLE)
    middle = SAMPLE // 2
    period = slice(middle * up, (middle + 1) * up)
    return PeriodicTaps(size, extent, up, places[period] - middle, weights[period])


def scale_of(size: Any, extent: Any, kind: str) -> Any:
    """The scale of an axis: a number, or an expression of a type, divided in float64."""
    up = size // extent
    if is_number(up) and size == extent * up:
        return float(up)
    ratio = extent_constant(size, "float64") / extent_constant(extent, "float64")
    return ratio.astype(kind)
