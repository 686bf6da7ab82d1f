"""Numbers that count up, as many as extents say, and the positions of what is not zero."""

from math import prod

from compiler.net.attributes import Shape, integer
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import has_shape
from compiler.net.spec import LARGEST_TENSOR, Kind, OpSpec, operator
from compiler.tensors.dtypes import ALL

POSITIONS = "Positions"
"""The operator that writes numbers which count up."""

NONZERO_POSITIONS = "NonZeroPositions"
"""The operator that counts the elements which are not zero, and writes where they are."""


def _shape(node: TypedNode) -> list[Shape]:
    first, step, count = node["first"], node["step"], node["count"]
    has_shape("its input", node.shape(), (), "it is one number")
    if count < 0:
        raise ShapeMismatch(f"it writes {count} numbers")
    for end in (first, first + step * count):
        if not -LARGEST_TENSOR <= end <= LARGEST_TENSOR:
            raise ShapeMismatch(f"it counts from {first} in steps of {step} beyond 32 bits")
    return [(count,)]


def _nonzero_shapes(node: TypedNode) -> list[Shape]:
    count = node["count"]
    elements = prod(node.shape())
    if not 0 <= count <= elements:
        raise ShapeMismatch(f"{count} of {elements} elements are not zero")
    return [(count,), (1,)]


POSITIONAL: dict[str, OpSpec] = {
    POSITIONS: operator(
        Kind.INJECTIVE,
        "T -> T",
        _shape,
        {"first": integer(0), "step": integer(1), "count": integer(required=True)},
        facts=Facts(exact=True, repeats=True, keeps_codes=False),
        T=frozenset({"int32", "int64"}),
    ),
    NONZERO_POSITIONS: operator(
        Kind.OPAQUE,
        "T -> int64 int64",
        _nonzero_shapes,
        {"count": integer(required=True)},
        facts=Facts(sized=True),
        T=ALL,
    ),
}
"""The entries of this family, by operator.

Number `i` of Positions is the input plus `first + step * i`; there are `count`. All three may
depend on symbols: a kernel's text is the same for all sizes then.

NonZeroPositions gives the row-major positions of the elements that are not zero, in order, and
their number. `count` is that number: a symbol that is measured by this very operator.
"""
