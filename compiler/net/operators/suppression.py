"""Non-maximum suppression of boxes, of which as many stay as data decide."""

from compiler.net.attributes import Shape, integer
from compiler.net.facts import Facts
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators.shapes import has_shape, listed
from compiler.net.spec import Kind, OpSpec, operator

KEPT_BOXES = "KeptBoxes"
"""The operator that lists the boxes of each class which overlap no better one too much."""


def _kept(node: TypedNode) -> list[Shape]:
    boxes = node.shape(0)
    scores = node.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes != (scores[0], scores[2], 4):
        raise ShapeMismatch(
            f"its boxes have the shape {listed(boxes)}, its scores {listed(scores)}: they are"
            " [batch, boxes, 4] and [batch, classes, boxes]"
        )
    for index in (2, 3) if node.has(3) else (2,):
        has_shape(f"its input {index}", node.shape(index), (), "it is one number")
    result = (*scores[:2], node["most"])
    return [result, result]


SUPPRESSIONS: dict[str, OpSpec] = {
    KEPT_BOXES: operator(
        Kind.OPAQUE,
        "float32 float32 float32 float32? -> int64 bool",
        _kept,
        {"most": integer(required=True, least=1)},
        facts=Facts(sized=True),
    ),
}
"""The entries of this family, by operator.

KeptBoxes has boxes of smaller and larger coordinates, scores, how much of their union two boxes may
share, and a score that those which stay exceed. Its results are, for each class of each image,
the indices of the boxes that stay, the best first, at most `most`; and which of these there are.
"""
