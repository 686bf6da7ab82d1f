"""The shapes of scales and zero points of quantised nodes."""

from math import prod

from compiler.frontend.node import ModelNode, checks
from compiler.net.attributes import Mismatch, Shape
from compiler.net.node import OperatorInput, ShapeMismatch
from compiler.net.operators import OPERATORS, infer
from compiler.net.operators.quantisation import linear
from compiler.net.operators.shapes import listed, one_number
from compiler.net.spec import KnownTensor


def _is_scalar(shape: Shape) -> bool:
    return shape in ((), (1,))


@checks("DequantizeLinear", "QuantizeLinear")
def _linear(node: ModelNode) -> None:
    """Scales fit the tensor, also where the table does not have its types."""
    linear(OPERATORS[node.op_type].node(node.op_type, node.inputs, node.attributes))
    x, zero = node.input(0), node.input(2)
    if node.op_type == "DequantizeLinear" and x is not None and zero is not None:
        if zero.dtype != x.dtype:
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
