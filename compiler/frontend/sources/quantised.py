"""The shapes of scales and zero points of quantised nodes."""

from math import prod

from compiler.frontend.node import ModelNode, checks
from compiler.net.attributes import Mismatch, Shape
from compiler.net.node import OperatorInput, ShapeMismatch
from compiler.net.operators import infer
from compiler.net.operators.shapes import has_shape, listed, one_number, without
from compiler.net.spec import KnownTensor


def _is_scalar(shape: Shape) -> bool:
    return shape in ((), (1,))


def _check_blocks(what: str, scale: Shape, x: Shape, axis: int, block: int) -> None:
    """Check a scale for each block of an axis, of which the last may be incomplete."""
    if len(scale) != len(x) or without(scale, axis) != without(x, axis):
        raise ShapeMismatch(
            f"{what} has the shape {listed(scale)}, which differs from the input's {listed(x)} in"
            f" more than axis {axis}"
        )
    size = block or (-(-x[axis] // scale[axis]) if scale[axis] else 0)
    if not 0 <= size * scale[axis] - x[axis] < max(size, 1):
        raise ShapeMismatch(
            f"{what} has the shape {listed(scale)}, the input {listed(x)}: blocks of {size} do"
            f" not fill axis {axis}"
        )


def _check_scale(node: ModelNode, what: str, index: int) -> None:
    """Check a scale or zero point: a scalar, a vector along an axis, or one of blocks."""
    scale = node.shape(index)
    x = node.shape()
    block = node["block_size"]
    if block and len(scale) != len(x):
        raise Mismatch(
            f"its block_size is {block}, {what} has the shape {listed(scale)}: no blocks"
        )
    if _is_scalar(scale) and not block:
        return
    axis = node.axis()
    if len(scale) > 1 or block:
        _check_blocks(what, scale, x, axis, block)
        return
    has_shape(what, scale, (x[axis],), f"axis {axis} of the input of shape {listed(x)}")


@checks("DequantizeLinear", "QuantizeLinear")
def _linear(node: ModelNode) -> None:
    """Quantisation and its inverse: one scale and zero point for all, an axis, or blocks."""
    _check_scale(node, "its scale", 1)
    zero = node.input(2)
    if zero is None:
        return
    _check_scale(node, "its zero point", 2)
    scale = node.shape(1)
    if prod(zero.shape) != prod(scale):
        raise ShapeMismatch(
            f"its zero point has the shape {listed(zero.shape)}, its scale {listed(scale)}"
        )
    x = node.inputs[0]
    if node.op_type == "DequantizeLinear" and x is not None and zero.dtype != x.dtype:
        raise Mismatch(f"its zero point is {zero.dtype}, its input {x.dtype}")


def _along(node: ModelNode, what: str, index: int, size: int, axis: str) -> None:
    """Check a scale or zero point of a matrix or weight: a scalar, or a vector for an axis."""
    shape = node.shape(index)
    if not _is_scalar(shape) and prod(shape) != size:
        raise ShapeMismatch(
            f"its {what} has the shape {listed(shape)}, a scalar or {size} numbers are needed:"
            f" one for each {axis}"
        )


def _per_tensor(node: ModelNode, what: str, index: int) -> None:
    one_number(f"its {what}", node.shape(index))


def _as_float(value: OperatorInput | None) -> KnownTensor | None:
    """An operand as float32, for the rules of floating-point operators."""
    return None if value is None else KnownTensor("float32", value.shape)


def _check_matrices(node: ModelNode, b: int) -> None:
    infer("MatMul", [_as_float(node.input(0)), _as_float(node.input(b))], {})


def _rows(shape: Shape) -> int:
    return shape[-2] if len(shape) > 1 else 1


def _columns(shape: Shape) -> int:
    return shape[-1] if len(shape) > 1 else 1


@checks("MatMulInteger")
def _matmul_integer(node: ModelNode) -> None:
    _check_matrices(node, b=1)
    _along(node, "zero point of A", 2, _rows(node.shape(0)), "row")
    _along(node, "zero point of B", 3, _columns(node.shape(1)), "column")


@checks("QLinearMatMul")
def _qlinear_matmul(node: ModelNode) -> None:
    _check_matrices(node, b=3)
    rows = _rows(node.shape(0))
    columns = _columns(node.shape(3))
    for index, what in ((1, "scale of A"), (2, "zero point of A")):
        _along(node, what, index, rows, "row")
    for index, what in ((4, "scale of B"), (5, "zero point of B")):
        _along(node, what, index, columns, "column")
    for index, what in ((6, "scale of the result"), (7, "zero point of the result")):
        _per_tensor(node, what, index)


def _check_convolution(node: ModelNode, w: int, bias: int) -> None:
    kept = {name: value for name, value in node.attributes.items() if value != ""}
    inputs = [_as_float(node.input(i)) for i in (0, w, bias)]
    infer("Conv", inputs, kept)


@checks("ConvInteger")
def _conv_integer(node: ModelNode) -> None:
    _check_convolution(node, w=1, bias=len(node.inputs))
    _per_tensor(node, "zero point of the input", 2)
    _along(node, "zero point of the weight", 3, node.shape(1)[0], "output channel")


@checks("QLinearConv")
def _qlinear_conv(node: ModelNode) -> None:
    _check_convolution(node, w=3, bias=8)
    for index, what in ((1, "scale"), (2, "zero point")):
        _per_tensor(node, f"{what} of the input", index)
    for index, what in ((4, "scale"), (5, "zero point")):
        _along(node, f"{what} of the weight", index, node.shape(3)[0], "output channel")
    for index, what in ((6, "scale"), (7, "zero point")):
        _per_tensor(node, f"{what} of the result", index)
