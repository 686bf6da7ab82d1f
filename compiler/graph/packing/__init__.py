"""Packings: how a weight is laid out before a kernel reads it, as short text.

A packing is a sequence of steps separated by `|`, each applied to the result of the previous one:
`pad:0,0,13,0` appends zeros to each axis, `reshape:4,16,3,7,7` and `transpose:0,2,3,4,1` are
numpy's. `take:1,0,2,2` selects indices 0, 2 and 2 along axis 1. `diagonal:32,4` makes the weights
of 32 groups block-diagonal matrices of four groups each. `round:10` keeps ten bits of each
float32's mantissa (TF32), rounding to nearest, ties to even. `row-sums` puts the
int32 sums of the rows of a matrix of bytes after it. `sums` puts a row in front of the
rows of each [rows, columns, 4] int8: the int32 sums of each column. `nibbles` makes each byte two,
of its lower and its higher bits; `pack-nibbles` makes each two of the last axis one. `winograd:4`
transforms kernels of 3 x 3 taps, the last two axes, for 4 x 4 results (see `winograd`). `widen`
makes float32 of floats in 16 bits. The empty text leaves the weight unchanged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

import numpy

from compiler.graph.packing.winograd import POINTS, points_of, transformed_kernels
from compiler.net.four_bits import pack_nibbles, unpack_nibbles

PackingStep = tuple[str, tuple[int, ...]]

WIDEN = "widen"
"""The step after which elements are float32."""


def packing_steps(packing: str) -> Iterator[PackingStep]:
    """The steps of a packing; raises ValueError if it is malformed."""
    for text in filter(None, packing.split("|")):
        name, _, numbers = text.partition(":")
        if name not in (
            "pad",
            "reshape",
            "transpose",
            "take",
            "diagonal",
            "round",
            "row-sums",
            "sums",
            "nibbles",
            "pack-nibbles",
            "winograd",
            WIDEN,
        ):
            raise ValueError(f"unknown step '{text}' in the packing '{packing}'")
        yield name, tuple(int(n) for n in filter(None, numbers.split(",")))


def packed_shape(shape: Sequence[int], packing: str) -> tuple[int, ...]:
    """The shape of a weight after packing; raises ValueError if the packing does not fit."""
    result = tuple(shape)
    for name, numbers in packing_steps(packing):
        result = _step_shape(result, name, numbers, packing)
    return result


def packed_dtype(dtype: str, packing: str) -> str:
    """The dtype name of a weight after packing."""
    return "float32" if any(name == WIDEN for name, _ in packing_steps(packing)) else dtype


def _step_shape(
    shape: tuple[int, ...], name: str, numbers: tuple[int, ...], packing: str
) -> tuple[int, ...]:
    if name == "pad" and len(numbers) == len(shape) and min(numbers, default=0) >= 0:
        return tuple(n + p for n, p in zip(shape, numbers, strict=True))
    if name == "reshape" and prod(numbers) == prod(shape):
        return numbers
    if name == "diagonal" and _has_groups(shape, numbers):
        return (shape[0], shape[1] * numbers[1], *shape[2:])
    rounds = name == "round" and len(numbers) == 1 and 0 < numbers[0] < 23
    if rounds or (name == WIDEN and not numbers):
        return shape
    if name == "winograd" and len(numbers) == 1 and numbers[0] in POINTS and shape[-2:] == (3, 3):
        return (*shape[:-2], points_of(*numbers), points_of(*numbers))
    if (bytes := _bytes_shape(shape, name)) is not None:
        return bytes
    if name == "take" and numbers and numbers[0] < len(shape):
        axis, *indices = numbers
        if axis >= 0 and all(0 <= index < shape[axis] for index in indices):
            return (*shape[:axis], len(indices), *shape[axis + 1 :])
    if name == "transpose" and sorted(numbers) == list(range(len(shape))):
        return tuple(shape[axis] for axis in numbers)
    raise ValueError(f"the packing '{packing}' does not fit a tensor of shape {list(shape)}")


def _bytes_shape(shape: tuple[int, ...], name: str) -> tuple[int, ...] | None:
    """The shape of bytes after a step that adds sums or divides them; None if it does not fit."""
    if name == "sums" and len(shape) > 2 and shape[-1] == 4:
        return (*shape[:-3], shape[-3] + 1, *shape[-2:])
    if name == "row-sums" and len(shape) == 2:
        return (prod(shape) + 4 * shape[0],)
    if name == "pack-nibbles" and shape and shape[-1] % 2 == 0:
        return (*shape[:-1], shape[-1] // 2)
    return (*shape[:-1], 2 * shape[-1]) if name == "nibbles" and shape else None


def _has_groups(shape: tuple[int, ...], numbers: tuple[int, ...]) -> bool:
    """Whether the rows divide evenly into groups, and the groups into merged ones."""
    whole = len(numbers) == 2 and min(numbers) > 0 and numbers[0] % numbers[1] == 0
    return whole and len(shape) >= 2 and shape[0] % numbers[0] == 0


def apply_packing(array: numpy.ndarray, packing: str) -> numpy.ndarray:
    """Apply a packing to an array; C-contiguous. Raises ValueError like `packed_shape`."""
    return numpy.ascontiguousarray(packed_view(array, packing))


def packed_view(array: numpy.ndarray, packing: str) -> numpy.ndarray:
    """An array with a packing, a view of it if that only moves elements; raises ValueError."""
    packed_shape(array.shape, packing)
    for name, numbers in packing_steps(packing):
        if name == "pad":
            array = numpy.pad(array, [(0, n) for n in numbers])
        elif name == "diagonal":
            array = _on_diagonal(array, *numbers)
        elif name == WIDEN:
            array = array.astype(numpy.float32)
        elif name in _OF_BYTES:
            array = _OF_BYTES[name](array)
        elif name == "round":
            array = round_mantissa(array, numbers[0])
        elif name == "winograd":
            array = transformed_kernels(array, numbers[0])
        elif name == "take":
            array = array.take(numbers[1:], numbers[0])
        else:
            array = array.reshape(numbers) if name == "reshape" else array.transpose(numbers)
    return array


def _with_sums(array: numpy.ndarray) -> numpy.ndarray:
    """Rows of int8 after the bytes of the sums of each column."""
    if array.dtype != numpy.int8:
        raise ValueError(f"only int8 has sums of bytes, not {array.dtype}")
    sums = array.sum(axis=(-3, -1), dtype=numpy.int32)
    head = sums.astype("<i4")[..., numpy.newaxis].view(numpy.int8)
    return numpy.concatenate([head[..., numpy.newaxis, :, :], array], axis=-3)


def _before_row_sums(array: numpy.ndarray) -> numpy.ndarray:
    """The rows of a matrix of bytes, then the bytes of their sums."""
    if array.dtype.itemsize != 1:
        raise ValueError(f"only bytes have sums of rows, not {array.dtype}")
    sums = array.sum(axis=1, dtype=numpy.int32).astype("<i4").view(array.dtype)
    return numpy.concatenate([array.reshape(-1), sums])


_OF_BYTES: Mapping[str, Callable[[numpy.ndarray], numpy.ndarray]] = {
    "sums": _with_sums,
    "row-sums": _before_row_sums,
    "nibbles": unpack_nibbles,
    "pack-nibbles": pack_nibbles,
}


def _on_diagonal(array: numpy.ndarray, groups: int, merged: int) -> numpy.ndarray:
    """Each `merged` groups of rows as one block-diagonal matrix."""
    rows, columns, *rest = array.shape
    blocks = array.reshape(groups // merged, merged, rows // groups, columns, *rest)
    result = numpy.zeros((*blocks.shape[:3], merged, columns, *rest), array.dtype)
    for i in range(merged):
        result[:, i, :, i] = blocks[:, i]
    return result.reshape(rows, merged * columns, *rest)


def round_mantissa(array: numpy.ndarray, kept: int) -> numpy.ndarray:
    """Round float32 to `kept` bits of mantissa, to nearest, ties to even; NaN and infinity stay."""
    if array.dtype != numpy.float32:
        raise ValueError(f"only float32 can be rounded to {kept} bits, not {array.dtype}")
    bits = numpy.ascontiguousarray(array).view(numpy.uint32)
    dropped = 23 - kept
    half = numpy.uint32((1 << (dropped - 1)) - 1) + (bits >> numpy.uint32(dropped) & 1)
    rounded = bits + half & ~numpy.uint32((1 << dropped) - 1)
    return numpy.where(numpy.isfinite(array), rounded, bits).view(numpy.float32)
