"""Normalisations of channels, groups of channels, or trailing axes."""

from dataclasses import replace

from compiler.net.attributes import LAST_AXIS, Attribute, Mismatch, Shape, integer, number
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import axis_in, fits_into, has_rank, has_shape, listed
from compiler.net.spec import Kind, OpSpec, operator
from compiler.tensors.dtypes import FLOATS


def _by_channel(node: TypedNode) -> list[Shape]:
    x = node.shape()
    has_rank("its input", x, 2)
    for i, name in ((1, "scale"), (2, "bias")):
        has_shape(f"its {name}", node.shape(i), (x[1],), f"the input has the shape {listed(x)}")
    return [x]


def check_groups(groups: int, x: Shape) -> None:
    """Raise ShapeMismatch unless the channels of an input divide into groups."""
    has_rank("its input", x, 2)
    if groups < 1 or x[1] % groups:
        raise ShapeMismatch(
            f"the {x[1]} channels of the input of shape {listed(x)} do not divide into"
            f" {groups} groups"
        )


def _group_normalization(node: TypedNode) -> list[Shape]:
    check_groups(node["num_groups"], node.shape())
    return _by_channel(node)


def _trailing_axes(node: TypedNode) -> range:
    rank = len(node.shape())
    return range(axis_in(node["axis"], rank), rank)


def _trailing(node: TypedNode) -> list[Shape]:
    """Scale and bias broadcast to the axes that are normalised."""
    x = node.shape()
    first = axis_in(node["axis"], len(x))
    for i, name in ((1, "scale"), (2, "bias")):
        value = node.input(i)
        if value is not None:
            fits_into(f"its {name}", value.shape, x)
    statistics = (*x[:first], *[1] * (len(x) - first))
    return [x, statistics, statistics]


def _stash(node: TypedNode) -> str:
    """The dtype of the statistics that LayerNormalization returns."""
    names = {1: "float32", 16: "bfloat16"}
    if len(node.outputs) > 1 and node["stash_type"] not in names:
        raise Mismatch(f"its stash_type is {node['stash_type']}; it can be 1 or 16")
    return names.get(node["stash_type"], "float32")


def _lrn(node: TypedNode) -> list[Shape]:
    has_rank("its input", node.shape(), 2)
    return [node.shape()]


_NORMALISED = Facts(flops=8, small=True)
_EPSILON = {"epsilon": number(1e-5)}
_STASH = Attribute("int", 1, allowed=(1, 10, 11, 16))
_TRAILING = {**_EPSILON, "axis": LAST_AXIS, "stash_type": _STASH}

NORMALIZATIONS: dict[str, OpSpec] = {
    "GroupNormalization": operator(
        Kind.REDUCTION,
        "T T T -> T",
        _group_normalization,
        {**_EPSILON, "num_groups": integer(required=True), "stash_type": _STASH},
        facts=_NORMALISED,
        T=FLOATS,
    ),
    "InstanceNormalization": operator(
        Kind.REDUCTION, "T T T -> T", _by_channel, _EPSILON, facts=_NORMALISED, T=FLOATS
    ),
    "LRN": operator(
        Kind.REDUCTION,
        "T -> T",
        _lrn,
        {
            "alpha": number(1e-4),
            "beta": number(0.75),
            "bias": number(1.0),
            "size": integer(required=True, least=1),
        },
        facts=Facts(flops=8),
        T=FLOATS,
    ),
    "LayerNormalization": operator(
        Kind.REDUCTION,
        "T T T? -> T U? U?",
        _trailing,
        _TRAILING,
        result=_stash,
        facts=replace(_NORMALISED, reduces=_trailing_axes),
        T=FLOATS,
    ),
    "RMSNormalization": operator(
        Kind.REDUCTION,
        "T V -> V",
        _trailing,
        _TRAILING,
        facts=replace(_NORMALISED, reduces=_trailing_axes),
        T=FLOATS,
        V=FLOATS,
    ),
}
"""The entries of this family, by operator."""
