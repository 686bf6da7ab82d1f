"""Lowering of Resize: each axis is a small table of source positions and weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy
from tvm import te, tirx
from tvm.ir import Expr

from compiler.kernels.ops.common import cast, is_float, wide, zeros
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import dtype_of
from compiler.kernels.ops.resizing.computed_taps import (
    COMPUTED,
    ComputedTaps,
    periodic_taps,
    scale_of,
)
from compiler.kernels.ops.tables import table_element
from compiler.kernels.sizes import at_hint, is_number, tensor_extents
from compiler.net.evaluation.resize import (
    LARGEST_TIE,
    TIE_OF_PIXELS,
    nearest_places,
    source_coordinates,
    source_taps,
)
from compiler.tensors.extents import NotForAllSizes

Array = numpy.ndarray

LONG_AXIS = 1 << 18
"""Elements of an axis from which on its taps are computed, if they can be: building a kernel takes
microseconds and hundreds of bytes for each entry of its tables."""

LARGEST_TABLE = 1 << 22
"""Entries of the largest table, of an axis whose taps cannot be computed."""

UNROLLED_RESIZE_TAPS = 4
"""Up to this many source elements per axis are summed inline; more become a separate stage."""


def axis_taps(
    context: Context, coordinates: Array, extent: int, scale: numpy.floating
) -> tuple[Array, Array]:
    """Source positions and weights, [output size, taps] each."""
    if context["mode"] != "nearest":
        return source_taps(context, coordinates, extent, float(scale))
    places = nearest_places(context, coordinates).astype(numpy.int64)
    return numpy.clip(places, 0, extent - 1)[:, None], numpy.ones((len(places), 1))


class AxisTaps(Protocol):
    """The source elements of each element along an axis of the result, and their weights."""

    @property
    def size(self) -> int:
        """The elements of the result."""
        ...

    @property
    def taps(self) -> int:
        """The source elements of each."""
        ...

    def place(self, position: Any, tap: int) -> Any:
        """The source position of a tap of a position."""
        ...

    def weight(self, position: Any, tap: int, dtype: str) -> Any:
        """The weight of a tap of a position."""
        ...


@dataclass(frozen=True)
class TableTaps:
    """Taps of an axis whose size is a number: tables of positions and weights, [size, taps]."""

    places: Array
    weights: Array

    @property
    def size(self) -> int:
        """The elements of the result."""
        return len(self.places)

    @property
    def taps(self) -> int:
        """The source elements of each."""
        return self.places.shape[1]

    def place(self, position: Any, tap: int) -> Any:
        """Arithmetic where it fits, else an element of a table."""
        places = self.places[:, tap]
        for up in range(1, 9):
            if (places == numpy.arange(self.size) // up).all():
                return position // up if up > 1 else position
        return table_element(places.astype(numpy.int32), position)

    def weight(self, position: Any, tap: int, dtype: str) -> Any:
        """An element of a table of float64 or float32."""
        kind = numpy.float64 if dtype == "float64" else numpy.float32
        return table_element(self.weights[:, tap].astype(kind), position, dtype)


def resize_axis(
    data: te.Tensor,
    axis: int,
    along: AxisTaps,
    outside: Array | None,
    fill: float,
    *,
    kept: bool = False,
) -> te.Tensor:
    """Resize one axis; where `outside` holds the result is `fill`.

    With `kept` every sum is computed once for all its readers.
    """
    shape = [*tensor_extents(data)]
    shape[axis] = along.size
    taps = along.taps
    dtype = str(data.dtype)

    def term(indices: tuple[Any, ...], tap: int) -> Any:
        at = along.place(indices[axis], tap)
        value = data(*indices[:axis], at, *indices[axis + 1 :])
        if taps == 1:
            return value
        return value * along.weight(indices[axis], tap, dtype)

    def inline(*indices: Any) -> Any:
        total = term(indices, 0)
        for tap in range(1, taps):
            total = total + term(indices, tap)
        if outside is None:
            return total
        inside = table_element(outside, indices[axis], "bool")
        return tirx.Select(inside, tirx.const(fill, dtype), total)

    if taps <= UNROLLED_RESIZE_TAPS or not isinstance(along, TableTaps):
        attributes = {"keep": 1} if kept else {}
        return te.compute(tuple(shape), inline, name="Resize", attrs=attributes)
    tap = te.reduce_axis((0, taps), "tap")
    kind = numpy.float64 if dtype == "float64" else numpy.float32

    def summed(*indices: Any) -> Any:
        position = indices[axis] * taps + tap
        at = table_element(along.places.astype(numpy.int32), position)
        weight = table_element(along.weights.astype(kind), position, dtype)
        return te.sum(data(*indices[:axis], at, *indices[axis + 1 :]) * weight, axis=tap)

    return te.compute(tuple(shape), summed, name="Resize")


@lowering("Resize")
def lower_resize(context: Context) -> te.Tensor:
    """Nearest, linear and cubic interpolation, separable by axis."""
    shape = context.shape(0)
    full = context.output.shape
    axes: list[int] = context["axes"]
    mode = context["coordinate_transformation_mode"]
    nearest = context["mode"] == "nearest"
    if context.operand(0).elements == 0:
        if context.output.elements:
            raise context.fail(f"it cannot enlarge {list(context.shape(0))}, without elements")
        return zeros(context)
    kind = numpy.float32 if nearest else numpy.float64  # onnxruntime rounds floats of 32 bits
    scales = [s if isinstance(s, Expr) else kind(s) for s in _scales(context, axes, kind)]
    roi = context["roi"]
    crop = mode == "tf_crop_and_resize"
    dtype = context.output.dtype
    compute = dtype if nearest else _computed_in(dtype)
    data = context.tensor(0)
    if compute != dtype:
        source = data
        data = te.compute(source.shape, lambda *i: cast(source(*i), compute), name="widened")
    changed = [
        (number, axis)
        for number, axis in _outwards(axes, shape, full)
        if crop or shape[axis] != full[axis] or is_scaled(scales[number])
    ]
    for number, axis in changed:
        kept = axis != changed[-1][1]
        fill = _fill(context, compute)
        scale = scales[number]
        sized = is_number(full[axis]) and is_number(shape[axis])
        if not sized or isinstance(scale, Expr) or _is_long(context, full[axis], scale):
            along = _sized_taps(context, full[axis], shape[axis], scale)
            data = resize_axis(data, axis, along, None, fill, kept=kept)
            continue
        limits = (roi[number], roi[number + len(axes)]) if crop else (0.0, 1.0)
        at = source_coordinates(mode, full[axis], shape[axis], scale, limits)
        tables = TableTaps(*axis_taps(context, at, shape[axis], scale))
        outside = (at < 0) | (at > shape[axis] - 1) if crop else None
        data = resize_axis(data, axis, tables, outside, fill, kept=kept)
    if compute != dtype:
        done = data
        return te.compute(full, lambda *i: _narrow(done(*i), dtype), name="narrowed")
    return data


def is_scaled(scale: Any) -> bool:
    """Whether a scale is not 1 for all sizes."""
    return isinstance(scale, Expr) or scale != 1.0


def _is_long(context: Context, size: int, scale: numpy.floating) -> bool:
    """Whether the taps of an axis of a known size are computed, as tables of them would be long.

    Raises the context's error for a longer one whose taps are only in tables.
    """
    radius = 2 if context["mode"] == "cubic" else 1
    shrinks = bool(context["antialias"]) and scale < 1
    if size <= LONG_AXIS and not shrinks:
        return False
    if context["coordinate_transformation_mode"] in COMPUTED and not shrinks:
        return True
    entries = size * 2 * ceil(radius / (scale if shrinks else 1))
    if entries > LARGEST_TABLE:
        raise context.fail(
            f"its positions and weights along an axis would be tables of {entries} numbers; use"
            f" coordinates that have formulas ({', '.join(COMPUTED)}), without antialias"
        )
    return False


def _sized_taps(context: Context, size: int, extent: int, scale: Any) -> AxisTaps:
    """The taps of an axis of which a run decides a size."""
    mode, coordinates = (context[name] for name in ("mode", "coordinate_transformation_mode"))
    number = None if isinstance(scale, Expr) else scale
    if context["antialias"] and (number is None or number < 1):
        raise NotForAllSizes("no symbolic kernel: filters of antialias depend on sizes")
    outside = bool(context["exclude_outside"])

    def taps_of(own: int, source: int) -> tuple[Array, Array]:
        assert number is not None
        at = source_coordinates(coordinates, own, source, number)
        return axis_taps(context, at, source, number)

    if number is not None and not outside:
        periodic = periodic_taps(size, extent, coordinates, taps_of)
        if periodic is not None and number == periodic.up:
            return periodic
    return ComputedTaps(
        size=size,
        extent=extent,
        scale=scale if number is None else float(number),
        kind="float32" if mode == "nearest" else "float64",
        coordinates=coordinates,
        mode=mode,
        rounding=context["nearest_mode"],
        cubic=context["cubic_coeff_a"],
        inside_only=outside and mode != "nearest",
    )


def _outwards(axes: list[int], shape: Sequence[int], full: Sequence[int]) -> list[tuple[int, int]]:
    """The number and the axis of each step: the innermost first where all become longer.

    Its elements, which are read one by one, are the fewest then; other axes are read in a row.
    """
    numbered = list(enumerate(axes))
    grows = all(at_hint(full[axis]) >= at_hint(shape[axis]) for axis in axes)
    return sorted(numbered, key=lambda step: -step[1]) if grows else numbered


def _computed_in(dtype: str) -> str:
    """The type of interpolation: for integers one in which ties differ from what is near them."""
    return wide(dtype) if is_float(dtype) else "float64"


def _fill(context: Context, dtype: str) -> float:
    """The value outside of a cropped region, which integers round and limit."""
    fill = context["extrapolation_value"]
    if is_float(dtype):
        return fill
    low, high = (int(limit(dtype).value) for limit in (tirx.min_value, tirx.max_value))
    return min(max(round(fill), low), high)


def _narrow(value: Any, dtype: str) -> Any:
    """A float as the result's type: integers are rounded, ties to even, and saturate.

    A third of a pixel has no float: what is within rounding errors of a tie counts as one.
    """
    if is_float(dtype):
        return cast(value, dtype)
    half = tirx.floor(value) + tirx.const(0.5, dtype_of(value))
    kind = dtype_of(value)
    bound = TIE_OF_PIXELS * (10_000 + tirx.abs(value))
    bound = tirx.min(bound, tirx.const(LARGEST_TIE, kind))
    value = tirx.Select(tirx.abs(value - half) <= bound, half, value)
    low = tirx.min_value(dtype)
    high = tirx.max_value(dtype)
    rounded = tirx.max(tirx.nearbyint(value), tirx.const(float(low.value), kind))
    most = tirx.const(float(high.value), kind)  # 2**63 for int64, which is one too many
    return tirx.Select(rounded >= most, high, cast(tirx.min(rounded, most), dtype))


def _scales(context: Context, axes: list[int], kind: type[numpy.floating]) -> list[Any]:
    """The scale of each resized axis; an expression of a type where sizes decide it."""
    shape = context.shape(0)
    full = context.output.shape
    if scales := context["scales"]:
        return scales
    ratios = [
        full[axis] / shape[axis]
        if is_number(full[axis]) and is_number(shape[axis])
        else scale_of(full[axis], shape[axis], kind.__name__)
        for axis in axes
    ]
    policy = context["keep_aspect_ratio_policy"]
    if policy == "stretch":
        return ratios
    asked = [s / shape[axis] for s, axis in zip(context["sizes"], axes, strict=True)]
    return [min(asked) if policy == "not_larger" else max(asked)] * len(axes)
