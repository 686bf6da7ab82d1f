"""Removal of all-zero masks, which are added to the operand of a softmax.

Exporters write one, of the size of the scores, for an attention without a mask.
"""

from dataclasses import replace

from compiler.net.graph import Graph, Value
from compiler.net.node import Node
from compiler.tensors.exact import same_extents


def drop_masks(graph: Graph) -> None:
    """Bypass Adds of zeros before softmaxes, in place; the Adds stay, perhaps without users.

    -0 + 0 is +0, not -0, but a softmax's result is the same for both.
    """
    sums = {op.outputs[0]: op for op in graph.operators if op.type == "Add"}
    for i, operator in enumerate(graph.operators):
        if operator.type != "Softmax":
            continue
        scores = operator.operand(0)
        while below := _unmasked(sums.get(scores)):
            scores = below
        if scores is not operator.inputs[0]:
            graph.operators[i] = replace(operator, inputs=[scores])


def _unmasked(add: Node[Value] | None) -> Value | None:
    """The operand to which an Add adds a mask of zeros; None for other values."""
    if add is None:
        return None
    left, right = add.operand(0), add.operand(1)
    for value, mask in ((left, right), (right, left)):
        kept = value.dtype == add.output.dtype and same_extents(value.shape, add.output.shape)
        if kept and value.array is None and _is_empty_mask(mask):
            return value
    return None


def _is_empty_mask(mask: Value) -> bool:
    """Whether a value is zeros along several axes; zeros along one may be an untrained bias."""
    several = sum(extent > 1 for extent in mask.shape) > 1
    return several and mask.array is not None and not mask.array.any()
