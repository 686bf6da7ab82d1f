"""Maps: which elements of its operands each element of an operator's result is.

A map is a function from the index of a result's element to that of an operand's element. It is
written once and read in three ways, by what it is called with: `AffineIndex` indices show an axis's
start and step, arrays of indices compute the result, expressions of a kernel's language become its
code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from compiler.tensors.exact import divides
from compiler.tensors.extents import Expression
from compiler.tensors.row_major import reshaped_index, unit_free
from compiler.tensors.strides import StridedWindow

Index = Any
"""An index: a number, an array of them, an expression, or `AffineIndex`."""

Shape = tuple[int, ...]
Array = NDArray[Any]


class NotAffine(Exception):
    """An index is not a sum of multiples of the result's indices and a constant."""


class Algebra:
    """What maps do with indices besides +, -, *, // and %, in one way to read them.

    What a subclass leaves out raises NotAffine.
    """

    def index_at(self, operand: int, at: Sequence[Index], extent: int) -> Index:
        """The index of an axis that an operand's element holds: from its end if negative, and the
        nearest inside if outside."""
        raise NotAffine

    def length_at(self, operand: int, at: Sequence[Index], most: int) -> Index:
        """The number of elements that an operand's element holds, from 0 to `most`."""
        raise NotAffine

    def select(self, condition: Any, then: Index, otherwise: Index) -> Index:
        """One of two indices by a comparison of indices."""
        raise NotAffine

    def smaller(self, left: Index, right: Index) -> Index:
        """The smaller of two indices."""
        raise NotAffine

    def larger(self, left: Index, right: Index) -> Index:
        """The larger of two indices."""
        raise NotAffine

    def entry(self, table: Array, position: Index) -> Index:
        """An index from a table of constants."""
        raise NotAffine


@dataclass(frozen=True, slots=True)
class AxisRead:
    """The index `start + step * i` of an operand's axis; i is that of a result's `axis`, or 0."""

    axis: int | None
    start: int
    step: int


@dataclass(frozen=True, slots=True)
class Map:
    """The elements of one operand that a result has, by `at(algebra, index in the result)`.

    A result has the element of its first map whose index is inside the operand, else the element
    of the operand `fill`, or 0. Only `partial` maps have indices outside; `where` says, by the
    index in the result, where elements are not 0. `in_order` maps keep the row-major order.
    """

    operand: int
    at: Callable[[Algebra, Sequence[Index]], Sequence[Index]]
    partial: bool = False
    fill: int | None = None
    where: Callable[[Sequence[Index]], Any] | None = None
    in_order: bool = False


Maps = Sequence[Sequence[Map]]
"""The maps of each result of an operator."""


@dataclass(frozen=True, slots=True)
class AffineIndex:
    """`offset` plus the sum of each factor times a result's index, from `low` to `high`.

    A term is an axis of the result, its factor and its extent.
    """

    offset: int
    terms: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of_axis(cls, axis: int, extent: int) -> "AffineIndex":
        """The index of an axis; of an axis of one element it is 0."""
        return cls(0, ((axis, 1, extent),) if extent != 1 else ())

    @property
    def low(self) -> int:
        """The least value; the result must have elements."""
        return self.offset + sum(min(factor, 0) * (n - 1) for _, factor, n in self.terms)

    @property
    def high(self) -> int:
        """The greatest value; the result must have elements."""
        return self.offset + sum(max(factor, 0) * (n - 1) for _, factor, n in self.terms)

    def __add__(self, other: "AffineIndex | int") -> "AffineIndex":
        other = _affine(other)
        factors = {axis: (factor, n) for axis, factor, n in self.terms}
        for axis, factor, n in other.terms:
            factors[axis] = factors.get(axis, (0, n))[0] + factor, n
        terms = tuple((axis, factor, n) for axis, (factor, n) in factors.items() if factor)
        return AffineIndex(self.offset + other.offset, terms)

    def __mul__(self, index: Index) -> "AffineIndex":
        if not isinstance(index, int | Expression):
            raise NotAffine
        factor = cast(int, index)
        terms = tuple((axis, own * factor, n) for axis, own, n in self.terms if factor)
        return AffineIndex(self.offset * factor, terms)

    def __sub__(self, other: "AffineIndex | int") -> "AffineIndex":
        return self + _affine(other) * -1

    def __rsub__(self, other: int) -> "AffineIndex":
        return _affine(other) - self

    def __floordiv__(self, divisor: int) -> "AffineIndex":
        return self._divided(divisor)[0]

    def __mod__(self, divisor: int) -> "AffineIndex":
        return self._divided(divisor)[1]

    __radd__, __rmul__ = __add__, __mul__

    def _divided(self, divisor: int) -> "tuple[AffineIndex, AffineIndex]":
        """Quotient and remainder, if what the divisor does not divide is less than it."""
        multiples = tuple(term for term in self.terms if divides(divisor, term[1]))
        others = tuple(term for term in self.terms if not divides(divisor, term[1]))
        whole = self.offset // divisor
        rest = self.offset % divisor
        remainder = AffineIndex(rest, others)
        if not 0 <= remainder.low <= remainder.high < divisor:
            raise NotAffine
        terms = tuple((axis, factor // divisor, n) for axis, factor, n in multiples)
        return AffineIndex(whole, terms), remainder


def _affine(value: Index) -> AffineIndex:
    if isinstance(value, AffineIndex):
        return value
    if not isinstance(value, int | Expression):
        raise NotAffine
    return AffineIndex(cast(int, value))


class _Symbolic(Algebra):
    """Indices as `AffineIndex`; those that data hold are numbers if a constant has just one."""

    def __init__(self, constants: Sequence[Array | None]) -> None:
        self._constants = constants

    def index_at(self, operand: int, at: Sequence[Index], extent: int) -> AffineIndex:
        constant = self._constants[operand] if operand < len(self._constants) else None
        if constant is None or constant.size != 1:
            raise NotAffine
        return AffineIndex(int(constant.reshape(-1)[0]) % extent)


def affine_indices(
    map: Map, shape: Shape, constants: Sequence[Array | None] = ()
) -> list[AffineIndex] | None:
    """The index in the operand by the index in a result of a shape; None if it is not affine.

    `constants` are the values of operands that are known.
    """
    axes = [AffineIndex.of_axis(axis, extent) for axis, extent in enumerate(shape)]
    try:
        return [_affine(index) for index in map.at(_Symbolic(constants), axes)]
    except NotAffine:
        return None


def axis_reads(
    map: Map, shape: Shape, constants: Sequence[Array | None] = ()
) -> list[AxisRead] | None:
    """How each axis of the operand is read; None unless each is by one axis of the result.

    No axis of the result reads two. See `affine_indices`.
    """
    if 0 in shape or (indices := affine_indices(map, shape, constants)) is None:
        return None
    axes = [axis for index in indices for axis, *_ in index.terms]
    if len(set(axes)) < len(axes) or any(len(index.terms) > 1 for index in indices):
        return None
    single = [index.terms[0] if index.terms else (None, 1, 1) for index in indices]
    return [
        AxisRead(axis, index.offset, step)
        for index, (axis, step, _) in zip(indices, single, strict=True)
    ]


def covered(reads: Sequence[AxisRead], operand: Shape, shape: Shape) -> list[range]:
    """The indices on each axis of a result that a map reads, by its reads of step 1."""
    inside = [range(extent) for extent in shape]
    for read, extent in zip(reads, operand, strict=True):
        if read.axis is None:
            if not 0 <= read.start < extent:
                return [range(0)] * len(shape)
            continue
        first = max(-read.start, 0)
        last = min(extent - read.start, shape[read.axis])
        inside[read.axis] = range(first, max(first, last))
    return inside


def strided(
    map: Map, window: StridedWindow, shape: Shape, constants: Sequence[Array | None] = ()
) -> StridedWindow | None:
    """A result of a shape as a window of the buffer of which the map's operand is `window`.

    None where it is none, as where a step is negative or a part is from elsewhere.
    """
    if map.in_order:
        return window.reshaped(shape)
    reads = None if map.where is not None else axis_reads(map, shape, constants)
    if reads is None:
        return None
    axes = [axis for axis, read in enumerate(reads) if read.axis is not None]
    for axis, read in enumerate(reads):
        extent = 1 if read.axis is None else shape[read.axis]
        last = read.start + (extent - 1) * read.step
        if read.step < 1 or not 0 <= read.start <= last < window.shape[axis]:
            return None
        part = window.sliced(axis, read.start, extent, read.step)
        if part is None:
            return None
        window = part
    by_axis = {reads[axis].axis: window.axes[axis] for axis in axes}
    full = StridedWindow(tuple(by_axis.get(axis, ()) for axis in range(len(shape))), window.offset)
    return full.broadcast(shape)


def view_map(old: Shape, new: Shape) -> Map:
    """The map of a view: the elements of operand 0 in their order, in another shape."""
    return Map(0, lambda _, i: reshaped_index(unit_free(i, new), new, old), in_order=True)


class _Arrays(Algebra):
    """Indices as arrays that broadcast to the result, from the values of all operands."""

    def __init__(self, operands: Sequence[Array | None]) -> None:
        self._operands = operands

    def _element(self, operand: int, at: Sequence[Index]) -> Array:
        array = self._operands[operand]
        assert array is not None
        return np.asarray(array[tuple(at)], np.int64)

    def index_at(self, operand: int, at: Sequence[Index], extent: int) -> Array:
        index = self._element(operand, at)
        return np.minimum(np.maximum(np.where(index < 0, index + extent, index), 0), extent - 1)

    def length_at(self, operand: int, at: Sequence[Index], most: int) -> Array:
        return np.minimum(np.maximum(self._element(operand, at), 0), most)

    def entry(self, table: Array, position: Index) -> Array:
        return table[position]

    def select(self, condition: Any, then: Index, otherwise: Index) -> Array:
        return np.where(condition, np.asarray(then), np.asarray(otherwise))

    def smaller(self, left: Index, right: Index) -> Array:
        return np.minimum(left, right)

    def larger(self, left: Index, right: Index) -> Array:
        return np.maximum(left, right)


def moved_elements(maps: Sequence[Map], shape: Shape, operands: Sequence[Array | None]) -> Array:
    """A result of a shape by its maps, as a view of an operand where it can be.

    An operand without elements is read as 0, which of texts is the empty one.
    """
    first = operands[maps[0].operand if maps else 0]
    assert first is not None
    if 0 in shape or not (first.size or maps[0].partial):
        return _zeros(shape, first.dtype)
    if len(maps) == 1 and not maps[0].partial:
        return _all_read(maps[0], first, shape, operands)
    number = maps[0].fill
    fill = None if number is None else operands[number]
    result = _zeros(shape, first.dtype)
    if fill is not None:
        result[...] = fill.reshape(())
    for own in reversed(maps):
        operand = operands[own.operand]
        reads = axis_reads(own, shape)
        assert operand is not None
        assert reads is not None, "a partial map is affine, with steps of 1"
        box = covered(reads, operand.shape, shape)
        if all(box):
            from_box = [
                read
                if read.axis is None
                else replace(read, start=read.start + box[read.axis].start)
                for read in reads
            ]
            inside = tuple(slice(part.start, part.stop) for part in box)
            result[inside] = _selected(operand, from_box, tuple(map(len, box)))
    return result


def _zeros(shape: Shape, dtype: np.dtype[Any]) -> Array:
    return np.full(shape, "", dtype) if dtype.kind in "OSU" else np.zeros(shape, dtype)


def _all_read(map: Map, operand: Array, shape: Shape, operands: Sequence[Array | None]) -> Array:
    if map.in_order:
        return operand.reshape(shape)
    reads = axis_reads(map, shape)
    if reads is None:
        at = map.at(_Arrays(operands), np.indices(shape, sparse=True))
        result = np.broadcast_to(operand[(*at, ...)], shape)
    else:
        result = _selected(operand, reads, shape)
    if map.where is None:
        return result
    kept = map.where(np.indices(shape, sparse=True))
    return np.where(kept, result, _zeros((), operand.dtype))


def _selected(operand: Array, reads: Sequence[AxisRead], shape: Shape) -> Array:
    """The elements of a result of a shape, as a view of the operand.

    An ellipsis in an index keeps a single text an array, of which numpy would make the text.
    """
    key: list[int | slice] = []
    for read in reads:
        if read.axis is None:
            key.append(read.start)
        else:
            stop = read.start + read.step * shape[read.axis]
            key.append(slice(read.start, None if stop < 0 else stop, read.step))
    axes = [read.axis for read in reads if read.axis is not None]
    part = operand[(*key, ...)].transpose(np.argsort(axes))
    part = part[(*(slice(None) if axis in axes else None for axis in range(len(shape))), ...)]
    return part if part.shape == shape else np.broadcast_to(part, shape)
