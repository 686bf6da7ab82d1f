"""Pooling: reductions over windows, or over all positions of a channel."""

from compiler.net.attributes import Attribute, Shape, flag, integer
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import has_rank, listed
from compiler.net.operators.windows import WINDOW_ATTRIBUTES, window_counts, window_of
from compiler.net.spec import Kind, OpSpec, operator
from compiler.tensors.dtypes import FLOATS


def _pool(node: TypedNode) -> list[Shape]:
    x = node.shape()
    kernel = tuple(node["kernel_shape"])
    has_rank("its input", x, 3)
    if len(kernel) != len(x) - 2:
        raise ShapeMismatch(
            f"its kernel_shape {listed(kernel)} is for {len(kernel)} spatial axes, the input of"
            f" shape {listed(x)} has {len(x) - 2}"
        )
    window = window_of(node, kernel)
    if any(pad >= size for pad, size in zip(window.before + window.after, kernel * 2, strict=True)):
        raise ShapeMismatch(
            f"its pads {listed(window.before + window.after)} are not smaller than its"
            f" kernel_shape {listed(kernel)}: windows of padding alone have no result"
        )
    result = (*x[:2], *window_counts(node, window, bool(node["ceil_mode"])))
    return [result, result]


def _global_pool(node: TypedNode) -> list[Shape]:
    x = node.shape()
    has_rank("its input", x, 2)
    if 0 in x[2:] and 0 not in x[:2]:
        raise ShapeMismatch(f"its input {listed(x)} has no pixels")
    return [(*x[:2], *[1] * (len(x) - 2))]


def _spatial_axes(node: TypedNode) -> range:
    return range(2, len(node.shape()))


_WINDOW: dict[str, Attribute] = {
    **WINDOW_ATTRIBUTES,
    "ceil_mode": flag(0),
}
_P = {"p": integer(2, least=1)}

POOLING: dict[str, OpSpec] = {
    "AveragePool": operator(
        Kind.REDUCTION, "T -> T", _pool, {**_WINDOW, "count_include_pad": flag(0)}, T=FLOATS
    ),
    "LpPool": operator(
        Kind.REDUCTION, "T -> T", _pool, {**_WINDOW, **_P}, facts=Facts(wide=True), T=FLOATS
    ),
    "MaxPool": operator(
        Kind.REDUCTION,
        "T -> T int64?",
        _pool,
        _WINDOW,
        facts=Facts(exact=True, keeps_codes=True, interval=lambda operands: operands[0]),
        T=FLOATS | {"int8", "uint8"},
    ),
    **dict.fromkeys(
        ("GlobalAveragePool", "GlobalMaxPool"),
        operator(
            Kind.REDUCTION, "T -> T", _global_pool, facts=Facts(reduces=_spatial_axes), T=FLOATS
        ),
    ),
    "GlobalLpPool": operator(
        Kind.REDUCTION,
        "T -> T",
        _global_pool,
        _P,
        facts=Facts(wide=True, reduces=_spatial_axes),
        T=FLOATS,
    ),
}
"""The entries of this family, by operator."""

WINDOW_POOLS = tuple(name for name, entry in POOLING.items() if entry.facts.reduces is None)
"""The operators of this family whose windows a `kernel_shape` gives."""
