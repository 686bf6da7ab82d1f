"""The range of a tensor in parts, as the kernel that computes the tensor finds it."""

from compiler.net.attributes import Shape, integer
from compiler.net.node import TypedNode
from compiler.net.spec import Kind, OpSpec, operator

PARTIAL_RANGES = "PartialRanges"
"""The operator that gives the least and the greatest element of parts of a tensor."""


def _parts(node: TypedNode) -> list[Shape]:
    return [(node["count"],), (node["count"],)]


RANGES: dict[str, OpSpec] = {
    PARTIAL_RANGES: operator(
        Kind.REDUCTION,
        "float32 -> float32 float32",
        _parts,
        {"count": integer(required=True, least=1)},
    ),
}
"""The entries of this family, by operator.

PartialRanges gives the least and the greatest elements of `count` parts, which may overlap or be
empty and together are the tensor: the least of the first result and the greatest of the second are
those of the tensor. The parts are the kernel's choice.
"""
