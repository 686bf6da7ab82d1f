"""Quantised operators."""

from typing import Any

import numpy as np

from tests.fuzz.catalogue.moves import ranked
from tests.fuzz.catalogue.registry import generates
from tests.fuzz.catalogue.windows import windows
from tests.fuzz.draw import Shape
from tests.fuzz.grower import Grower

_BYTES = ("uint8", "int8")


def _scale(g: Grower, shape: tuple[int, ...] = ()) -> str:
    return g.new(g.draw.numpy.choice([0.01, 0.05, 0.1, 0.25], shape).astype(np.float32))


def _zero(g: Grower, dtype: str, shape: tuple[int, ...] = ()) -> str:
    low, high = (0, 255) if dtype == "uint8" else (-20, 20)
    return g.new(np.asarray(g.draw.numpy.integers(low, high, shape)).astype(dtype))


def _bytes(g: Grower, shape: tuple[int, ...], dtype: str) -> str:
    limits = np.iinfo(dtype)
    return g.new(g.draw.numpy.integers(limits.min, limits.max + 1, shape).astype(dtype))


@generates("QuantizeLinear DequantizeLinear")
def linear(g: Grower, op: str) -> None:
    """A scale for the whole tensor, or one for each element of an axis."""
    quantize = op == "QuantizeLinear"
    wide = ("int32",) if g.draw.chance(0.1) else _BYTES
    x = ranked(g, 1, 4, ("float32",) if quantize else wide)
    shape = g.values[x].shape
    dtype = g.draw.choice(_BYTES) if quantize else g.values[x].dtype.name
    axis = g.draw.randrange(len(shape)) if g.opset >= 13 and g.draw.chance(0.4) else None
    size = () if axis is None else (shape[axis],)
    zero = [_zero(g, dtype, size)] if g.draw.chance(0.7) and dtype != "int32" else []
    g.emit(op, [x, _scale(g, size), *zero], axis=axis)


@generates("DynamicQuantizeLinear")
def dynamic(g: Grower, op: str) -> None:
    """Scale and zero point from the data."""
    g.emit(op, [ranked(g, 1, 3, ("float32",))], 3)


@generates("MatMulInteger QLinearMatMul")
def products(g: Grower, op: str) -> None:
    """Products of bytes."""
    m, k, n = (g.draw.randint(1, 9) for _ in range(3))
    types = [g.draw.choice(_BYTES) for _ in range(2)]
    left, right = (k,) if g.draw.chance(0.1) else (m, k), (k,) if g.draw.chance(0.1) else (k, n)
    a, b = _bytes(g, left, types[0]), _bytes(g, right, types[1])
    zeros = [_zero(g, dtype) for dtype in types]
    if op == "MatMulInteger":
        g.emit(op, [a, b, *zeros[: g.draw.randint(0, 2)]])
        return
    sizes: list[Shape] = [(1,) if g.draw.chance(0.2) else () for _ in range(3)]
    a_scale, b_scale, y_scale = (_scale(g, size) for size in sizes)
    out = [y_scale, _zero(g, types[0])]
    g.emit(op, [a, a_scale, zeros[0], b, b_scale, zeros[1], *out])


@generates("ConvInteger QLinearConv")
def convolutions(g: Grower, op: str) -> None:
    """Convolutions of bytes, a weight's scale for each filter too."""
    sizes, kernel = (g.draw.randint(3, 7), g.draw.randint(3, 7)), [g.draw.choice([1, 3])] * 2
    groups, filters = g.draw.choice([1, 1, 2]), g.draw.choice([2, 4])
    dtype = "uint8" if op == "ConvInteger" else g.draw.choice(_BYTES)
    weights = dtype if op == "ConvInteger" or (dtype == "uint8" and g.draw.chance(0.5)) else "int8"
    x = _bytes(g, (1, 2, *sizes), dtype)
    w = _bytes(g, (filters, 2 // groups, *kernel), weights)
    attributes: dict[str, Any] = windows(g.draw, sizes, kernel, False)
    attributes["group"] = groups
    if op == "ConvInteger":
        zeros = [_zero(g, dtype), _zero(g, weights)][: g.draw.randint(0, 2)]
        g.emit(op, [x, w, *zeros], **attributes)
        return
    each = (filters,) if g.draw.chance(0.4) else ()
    zero = g.new(np.zeros(each, weights))
    bias = [g.new(g.draw.numpy.integers(-500, 500, filters).astype(np.int32))]
    inputs = [x, _scale(g), _zero(g, dtype), w, _scale(g, each), zero, _scale(g), _zero(g, dtype)]
    g.emit(op, [*inputs, *(bias if g.draw.chance(0.5) else [])], **attributes)


@generates("MatMulNBits")
def packed_matmuls(g: Grower, op: str) -> None:
    """Matmuls of few rows, or many, by weights of four bits with a scale for each block."""
    rows, depth, columns = g.draw.choice([1, 2, 5, 17]), g.draw.randint(1, 70), g.draw.randint(1, 9)
    size = g.draw.choice([16, 32])
    blocks = -(-depth // size)
    x = g.tensor(["float32"], lambda s: s == (rows, depth), lambda: (rows, depth))
    packed = g.draw.numpy.integers(0, 256, (columns, blocks, size // 2)).astype(np.uint8)
    scales = g.draw.numpy.choice([0.01, 0.05, 0.1], (columns, blocks)).astype(np.float32)
    inputs = [x, g.constant(packed), g.constant(scales)]
    if g.draw.chance(0.5):
        zeros = g.draw.numpy.integers(0, 256, (columns, -(-blocks // 2))).astype(np.uint8)
        inputs.append(g.constant(zeros))
    sizes = {"K": depth, "N": columns, "bits": 4, "block_size": size}
    g.emit(op, inputs, domain="com.microsoft", **sizes)
