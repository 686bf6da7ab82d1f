"""Numbers that count up, in steps and as many as extents say: what only a run's sizes decide."""

from compiler.net.attributes import Shape, integer
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import has_shape
from compiler.net.spec import LARGEST_TENSOR, Kind, OpSpec, operator

POSITIONS = "Positions"
"""The operator that writes numbers which count up."""


def _shape(node: TypedNode) -> list[Shape]:
    first, step, count = node["first"], node["step"], node["count"]
    has_shape("its input", node.shape(), (), "it is one number")
    if count < 0:
        raise ShapeMismatch(f"it writes {count} numbers")
    for end in (first, first + step * count):
        if not -LARGEST_TENSOR <= end <= LARGEST_TENSOR:
            raise ShapeMismatch(f"it counts from {first} in steps of {step} beyond 32 bits")
    return [(count,)]


POSITIONAL: dict[str, OpSpec] = {
    POSITIONS: operator(
        Kind.INJECTIVE,
        "T -> T",
        _shape,
        {"first": integer(0), "step": integer(1), "count": integer(required=True)},
        facts=Facts(exact=True, repeats=True, keeps_codes=False),
        T=frozenset({"int32", "int64"}),
    ),
}
"""The entries of this family, by operator.

Number `i` of Positions is the input plus `first + step * i`; there are `count`. All three may
depend on symbols: a kernel's text is the same for all sizes then.
"""
