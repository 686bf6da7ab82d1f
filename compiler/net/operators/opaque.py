"""Operators that are never fused: sorts, scatters, scans."""

from collections.abc import Sequence
from math import prod

from compiler.net.attributes import LAST_AXIS, Shape, axis_attribute, flag, integer, one_of
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.gathers import scatter_elements_shape, scatter_nd_shape
from compiler.net.operators.shapes import axis_in, has_rank, has_shape, listed
from compiler.net.spec import Kind, OpSpec, onnx_form, operator
from compiler.tensors.dtypes import ALL, INDICES, WIDE, WITHOUT_BFLOAT16


def _cumulative_sum(node: TypedNode) -> list[Shape]:
    axis_in(node["axis"], len(node.shape()))
    return [node.shape()]


def _number_of_largest(node: TypedNode) -> dict[str, int]:
    counts = node.vector(1)
    has_shape("its K", (len(counts),), (1,), "it is one number")
    return {"k": counts[0]}


def _top_k(node: TypedNode) -> list[Shape]:
    shape = node.shape()
    count = node["k"]
    has_rank("its input", shape, 1)
    axis = axis_in(node["axis"], len(shape))
    if not 0 <= count <= shape[axis]:
        raise ShapeMismatch(
            f"it takes the first {count} of axis {axis} of the input of shape {listed(shape)},"
            f" which has {shape[axis]}"
        )
    result = (*shape[:axis], count, *shape[axis + 1 :])
    return [result, result]


_FLOPS_A_COMPARISON = 10
"""A comparison of a sort and its branch, which is not foreseen: 8 rows of 8,000 elements, with 13
comparisons each, take 210 to 420 us on an Intel Xeon."""


def _top_k_work(node: TypedNode, results: Sequence[Shape]) -> int:
    """Each element is compared with a heap of the largest."""
    axis: int = node["axis"]
    count = results[0][axis]
    return prod(node.shape()) * count.bit_length() * _FLOPS_A_COMPARISON


_REDUCTION = one_of("none", "add", "mul", "max", "min")
_CUMULATIVE = {"exclusive": flag(0), "reverse": flag(0)}
_TOP_K = {"axis": LAST_AXIS, "largest": flag(1), "sorted": flag(1)}

OPAQUE: dict[str, OpSpec] = {
    "CumSum": operator(
        Kind.OPAQUE,
        "T -> T",
        _cumulative_sum,
        {"axis": axis_attribute(), **_CUMULATIVE},
        onnx=onnx_form(
            "T I",
            {1: "axis"},
            lambda node: {"axis": axis_in(node.scalar(1), len(node.shape()))},
            _CUMULATIVE,
        ),
        facts=Facts(wide=True, sized=True),
        T=WIDE,
        I=INDICES,
    ),
    "ScatterElements": operator(
        Kind.OPAQUE,
        "T I T -> T",
        scatter_elements_shape,
        {"axis": axis_attribute(0), "reduction": _REDUCTION},
        facts=Facts(sized=True),
        T=ALL,
        I=INDICES,
    ),
    "ScatterND": operator(
        Kind.OPAQUE,
        "T int64 T -> T",
        scatter_nd_shape,
        {"reduction": _REDUCTION},
        facts=Facts(sized=True),
        T=ALL,
    ),
    "TopK": operator(
        Kind.OPAQUE,
        "T -> T int64",
        _top_k,
        {"k": integer(required=True), **_TOP_K},
        onnx=onnx_form(
            "T int64", {1: "k"}, _number_of_largest, _TOP_K, lambda node: {"k": [node["k"]]}
        ),
        facts=Facts(work=_top_k_work, sized=True),
        T=WITHOUT_BFLOAT16,
    ),
}
"""The entries of this family, by operator."""
