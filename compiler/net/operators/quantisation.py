"""Quantisation and its inverse: numbers as integers, by scales and zero points."""

from math import prod

from compiler.net.attributes import Attribute, Mismatch, Shape, axis_attribute, flag, integer
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.elementwise import dtype_of_element
from compiler.net.operators.shapes import axis_in, has_shape, listed, without
from compiler.net.spec import Kind, OpSpec, operator
from compiler.tensors.dtypes import FLOAT8, HALF_BYTES

_CODES = frozenset({"int8", "uint8", "int16", "uint16"}) | FLOAT8
"""The dtypes that numbers are quantised to, of those that kernels have."""

_SCALES = frozenset({"float16", "bfloat16", "float32"})

_PRECISION = Attribute("int", 0, allowed=(0, 1, 10, 16))
"""An element type to compute in, or of the result; that of the scale if it is 0."""

_PARTS = {"axis": axis_attribute(1), "block_size": integer(0, least=0)}


def _check_scale(node: TypedNode, what: str, index: int) -> None:
    """Check a scale or zero point: a scalar, a vector along an axis, or one of blocks."""
    scale = node.shape(index)
    x = node.shape()
    block = node["block_size"]
    if block and len(scale) != len(x):
        raise Mismatch(
            f"its block_size is {block}, {what} has the shape {listed(scale)}: no blocks"
        )
    if scale in ((), (1,)) and not block:
        return
    axis = axis_in(node["axis"], len(x))
    if len(scale) < 2 and not block:
        has_shape(what, scale, (x[axis],), f"axis {axis} of the input of shape {listed(x)}")
        return
    if len(scale) != len(x) or without(scale, axis) != without(x, axis):
        raise ShapeMismatch(
            f"{what} has the shape {listed(scale)}, which differs from the input's {listed(x)} in"
            f" more than axis {axis}"
        )
    size = block or -(-x[axis] // max(scale[axis], 1))
    if not 0 <= size * scale[axis] - x[axis] < max(size, 1):  # the last block may be incomplete
        raise ShapeMismatch(
            f"{what} has the shape {listed(scale)}, the input {listed(x)}: blocks of {size} do"
            f" not fill axis {axis}"
        )


def linear(node: TypedNode) -> list[Shape]:
    """The shape of a quantised or dequantised tensor; raises Mismatch for scales that do not fit.

    There is one scale and one zero point for all of it, for an index of an axis, or for a block.
    """
    _check_scale(node, "its scale", 1)
    zero = node.input(2)
    if zero is not None:
        _check_scale(node, "its zero point", 2)
        scale = node.shape(1)
        if prod(zero.shape) != prod(scale):
            raise ShapeMismatch(
                f"its zero point has the shape {listed(zero.shape)}, its scale {listed(scale)}"
            )
    return [node.shape()]


def _dequantised(node: TypedNode) -> str:
    scale = node.input(1)
    assert scale is not None
    return dtype_of_element(node["output_dtype"]) if node["output_dtype"] else scale.dtype


def _quantised(node: TypedNode) -> str:
    zero = node.input(2)
    given = dtype_of_element(node["output_dtype"]) if node["output_dtype"] else ""
    if zero is not None and given not in ("", zero.dtype):
        raise Mismatch(f"its zero point is {zero.dtype}, its output_dtype {given}")
    return given or ("uint8" if zero is None else zero.dtype)


QUANTISATION: dict[str, OpSpec] = {
    "DequantizeLinear": operator(
        Kind.ELEMENTWISE,
        "T S T? -> U",
        linear,
        {**_PARTS, "output_dtype": _PRECISION},
        result=_dequantised,
        facts=Facts(flops=2),
        T=_CODES | HALF_BYTES | {"int32"},
        S=_SCALES,
    ),
    "QuantizeLinear": operator(
        Kind.ELEMENTWISE,
        "T S Z? -> U",
        linear,
        {
            **_PARTS,
            "output_dtype": integer(0),
            "precision": _PRECISION,
            "saturate": flag(1),
            "of_range": flag(0),  # whether the scale is that of the tensor's own range
        },
        result=_quantised,
        facts=Facts(flops=8, steps=True),
        T=_SCALES | {"int32"},
        S=_SCALES | {"int32"},
        Z=_CODES,
    ),
}
"""The entries of this family, by operator."""
