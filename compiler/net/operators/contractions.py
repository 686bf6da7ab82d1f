"""Contractions: convolutions and GEMMs."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from compiler.net.attributes import Attribute, Mismatch, Shape, flag, integer, number, one_of
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.einsum import einsum_products, einsum_shape
from compiler.net.operators.shapes import (
    broadcast,
    fits_into,
    has_rank,
    has_shape,
    listed,
    one_number,
)
from compiler.net.operators.windows import (
    KERNEL_ATTRIBUTES,
    OUTPUT_PADDING,
    Window,
    per_axis,
    window_counts,
    window_of,
)
from compiler.net.spec import Kind, OpSpec, check_size, operator
from compiler.tensors.dtypes import BYTES, FLOAT8, FLOATS, NUMBERS, UINT8, WIDE

FLOAT8_DOMAIN = "flowloom"
"""The domain of contractions of float8s, which dumped models define as functions."""

CONVOLUTIONS = ("Conv", "ConvFloat8", "ConvInteger", "ConvTranspose")
"""The operators that multiply windows of images by weights."""

MATMULS = ("Gemm", "MatMul", "MatMulFloat8", "MatMulInteger", "MatMulNBits")
"""The operators that multiply matrices."""

GEMMS = ("Gemm", "MatMul")
"""The contractions of matrices of floats."""

FLOAT_CONTRACTIONS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""The convolutions and matmuls of two tensors of one type of floats."""


def _kernel(node: TypedNode) -> Shape:
    """The spatial extents of a weight, checked against the image and the attribute."""
    x = node.shape()
    w = node.shape(1)
    given = node["kernel_shape"]
    has_rank("its input", x, 3)
    has_rank("its weight", w, len(x), len(x))
    if tuple(given) != w[2:]:
        raise ShapeMismatch(
            f"its kernel_shape is {listed(given)}, its weight has the shape {listed(w)}"
        )
    if 0 in w[2:]:
        raise ShapeMismatch(f"its weight has the shape {listed(w)}, a kernel without elements")
    return w[2:]


def _check_bias(node: TypedNode, channels: int) -> None:
    bias = node.input(2)
    if bias is not None:
        weight = f"the weight has the shape {listed(node.shape(1))}"
        has_shape("its bias", bias.shape, (channels,), weight)


def _check_padded(node: TypedNode, window: Window) -> None:
    """Check the size of the padded image, which kernels store."""
    x = node.shape()
    sizes = zip(x[2:], window.before, window.after, strict=True)
    value = node.inputs[0]
    assert value is not None
    check_size(value.dtype, (*x[:2], *(size + b + a for size, b, a in sizes)))


def _conv(node: TypedNode) -> list[Shape]:
    result = _convolved(node)
    _check_bias(node, node.shape(1)[0])
    return result


def _check_zero_points(node: TypedNode) -> None:
    for index, operand in ((2, 0), (3, 1)):
        zero = node.input(index)
        if zero is not None:
            one_number(f"the zero point of its input {operand}", zero.shape)


def _conv_integer(node: TypedNode) -> list[Shape]:
    _check_zero_points(node)
    return _convolved(node)


def _matmul_integer(node: TypedNode) -> list[Shape]:
    _check_zero_points(node)
    return _matmul(node)


def _matmul_n_bits(node: TypedNode) -> list[Shape]:
    """A matmul by rows of packed integers, a scale for each block of them."""
    a = node.shape()
    depth = node["K"]
    columns = node["N"]
    size = node["block_size"]
    blocks = -(-depth // size)
    if size & (size - 1):
        raise Mismatch(f"its attribute 'block_size' is {size}, it must be a power of two")
    has_rank("its input 0", a, 1)
    if a[-1] != depth:
        raise ShapeMismatch(f"its input of shape {listed(a)} does not have {depth} columns")
    attributes = f"K is {depth}, N is {columns}, block_size is {size}"
    has_shape("its weight", node.shape(1), (columns, blocks, size // 2), attributes)
    has_shape("its scales", node.shape(2), (columns, blocks), attributes)
    zeros = node.input(3)
    if zeros is not None:
        packed = (columns, -(-blocks // 2))
        wanted = packed if zeros.dtype == "uint8" else (columns, blocks)
        has_shape("its zero points", zeros.shape, wanted, attributes)
    return [(*a[:-1], columns)]


def _convolved(node: TypedNode) -> list[Shape]:
    kernel = _kernel(node)
    x = node.shape()
    w = node.shape(1)
    groups = node["group"]
    if w[1] * groups != x[1]:
        raise ShapeMismatch(
            f"its weight of shape {listed(w)} has {w[1]} input channels in each of {groups} groups,"
            f" the input of shape {listed(x)} has {x[1]} in all"
        )
    if w[0] % groups:
        raise ShapeMismatch(
            f"the {w[0]} output channels of the weight of shape {listed(w)} do not divide into"
            f" {groups} groups"
        )
    window = window_of(node, kernel)
    _check_padded(node, window)
    return [(x[0], w[0], *window_counts(node, window))]


def _conv_transpose(node: TypedNode) -> list[Shape]:
    kernel = _kernel(node)
    x = node.shape()
    w = node.shape(1)
    groups = node["group"]
    if w[0] != x[1] or w[0] % groups:
        raise ShapeMismatch(
            f"its weight of shape {listed(w)} has {w[0]} input channels in {groups} groups; the"
            f" input of shape {listed(x)} has {x[1]}"
        )
    _check_bias(node, w[1] * groups)
    window = window_of(node, kernel)
    return [(x[0], w[1] * groups, *_spread(node, window))]


def _spread(node: TypedNode, window: Window) -> Shape:
    """The spatial extents of the result of a transposed convolution."""
    x = node.shape()
    extra = per_axis(node, "output_padding", len(window.kernel))
    cut = [before + after for before, after in zip(window.before, window.after, strict=True)]
    result = tuple(
        (size - 1) * window.strides[i] + window.reach[i] + extra[i] - cut[i]
        for i, size in enumerate(x[2:])
    )
    if any(size < 1 for size in result):
        raise ShapeMismatch(
            f"its pads take more than the result of the input of shape {listed(x)} has: that"
            f" would be {listed(result)}"
        )
    return result


def _gemm(node: TypedNode) -> list[Shape]:
    a = node.shape()
    b = node.shape(1)
    c = node.input(2)
    has_rank("its input 0", a, 2, 2)
    has_rank("its input 1", b, 2, 2)
    rows, inner = a[::-1] if node["transA"] else a
    other, columns = b[::-1] if node["transB"] else b
    if inner != other:
        transposed = f"transA={node['transA']}, transB={node['transB']}"
        raise ShapeMismatch(
            f"its matrices of shapes {listed(a)} and {listed(b)} ({transposed}) do not multiply:"
            f" {inner} columns, {other} rows"
        )
    if c is not None:
        fits_into("its input 2", c.shape, (rows, columns))
    return [(rows, columns)]


def _matmul(node: TypedNode) -> list[Shape]:
    a, b = node.shape(), node.shape(1)
    has_rank("its input 0", a, 1)
    has_rank("its input 1", b, 1)
    left, right = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    if left[-1] != right[-2]:
        raise ShapeMismatch(
            f"its matrices of shapes {listed(a)} and {listed(b)} do not multiply: {left[-1]}"
            f" columns, {right[-2]} rows"
        )
    batch = broadcast(left[:-2], right[:-2])
    rows = () if len(a) == 1 else left[-2:-1]
    columns = () if len(b) == 1 else right[-1:]
    return [(*batch, *rows, *columns)]


def _convolution_work(node: TypedNode, results: Sequence[Shape]) -> int:
    return 2 * prod(results[0]) * prod(node.shape(1)[1:])


def _matmul_work(node: TypedNode, results: Sequence[Shape]) -> int:
    return 2 * prod(results[0]) * node.shape()[-1]


def _gemm_work(node: TypedNode, results: Sequence[Shape]) -> int:
    return 2 * prod(results[0]) * node.shape()[0 if node["transA"] else 1]


def _einsum_work(node: TypedNode, results: Sequence[Shape]) -> int:
    shapes = [value.shape for value in node.inputs if value is not None]
    return 2 * max(einsum_products(node["equation"], shapes), prod(results[0]))


_CONVOLUTION = Facts(work=_convolution_work)
_MATMUL = Facts(work=_matmul_work)
_CONV: dict[str, Attribute] = {**KERNEL_ATTRIBUTES, "group": integer(1, least=1)}
_GEMM = {"alpha": number(1.0), "beta": number(1.0), "transA": flag(0), "transB": flag(0)}

CONTRACTIONS: dict[str, OpSpec] = {
    "Conv": operator(Kind.CONTRACTION, "T T T? -> T", _conv, _CONV, facts=_CONVOLUTION, T=FLOATS),
    "ConvFloat8": operator(
        Kind.CONTRACTION,
        "A B -> float32",
        _convolved,
        _CONV,
        domain=FLOAT8_DOMAIN,
        facts=replace(_CONVOLUTION, wide=True),
        A=FLOAT8,
        B=FLOAT8,
    ),
    "ConvInteger": operator(
        Kind.CONTRACTION,
        "A B A? B? -> int32",
        _conv_integer,
        _CONV,
        facts=_CONVOLUTION,
        A=BYTES,
        B=BYTES,
    ),
    "ConvTranspose": operator(
        Kind.CONTRACTION,
        "T T T? -> T",
        _conv_transpose,
        {
            **_CONV,
            "auto_pad": one_of("NOTSET"),
            "output_padding": OUTPUT_PADDING,
            "finite": flag(1),  # whether zeros around the image may be multiplied by the weights
        },
        facts=Facts(work=lambda node, results: 2 * prod(node.shape()) * prod(node.shape(1)[1:])),
        T=FLOATS,
    ),
    "Einsum": operator(
        Kind.CONTRACTION,
        "T* -> T",
        lambda node: [
            einsum_shape(node["equation"], [value.shape for value in node.inputs if value])
        ],
        {"equation": Attribute("string", required=True)},
        facts=Facts(work=_einsum_work, wide=True, sized=True),
        T=NUMBERS - {"bfloat16"},
    ),
    "Gemm": operator(
        Kind.CONTRACTION, "T T T? -> T", _gemm, _GEMM, facts=Facts(work=_gemm_work), T=WIDE
    ),
    "MatMul": operator(
        Kind.CONTRACTION, "T T -> T", _matmul, facts=replace(_MATMUL, derived=True), T=WIDE
    ),
    "MatMulFloat8": operator(
        Kind.CONTRACTION,
        "A B -> float32",
        _matmul,
        facts=replace(_MATMUL, wide=True),
        domain=FLOAT8_DOMAIN,
        A=FLOAT8,
        B=FLOAT8,
    ),
    "MatMulInteger": operator(
        Kind.CONTRACTION, "A B A? B? -> int32", _matmul_integer, facts=_MATMUL, A=BYTES, B=BYTES
    ),
    "MatMulNBits": operator(
        Kind.CONTRACTION,
        "T uint8 T Z? -> T",
        _matmul_n_bits,
        {
            "K": Attribute("int", required=True, least=1),
            "N": Attribute("int", required=True, least=1),
            "bits": Attribute("int", required=True, allowed=(4,)),
            "block_size": Attribute("int", required=True, least=16),
        },
        domain="com.microsoft",
        facts=_MATMUL,
        T=FLOATS - {"float64"},
        Z=FLOATS - {"float64"} | UINT8,
    ),
}
"""The entries of this family, by operator."""
