"""Drops masks that hide nothing: zeros that are added to what a softmax sees.

Exporters write one for attention whose model is given no mask, as large as the scores.
"""

from compiler.frontend.graph import Graph, Operator, Value


def drop_masks(graph: Graph) -> None:
    """Let softmaxes see what zeros are added to, in place; sums that nothing uses then stay.

    The sum of -0 and 0 is another zero, of which a softmax makes the same bits.
    """
    sums = {op.outputs[0]: op for op in graph.operators if op.op_type == "Add"}
    for operator in graph.operators:
        while operator.op_type == "Softmax" and (below := _below(sums.get(operator.inputs[0]))):
            operator.inputs[0] = below


def _below(add: Operator | None) -> Value | None:
    """What a mask of zeros is added to by a sum, if it is one."""
    for value, mask in (add.inputs, add.inputs[::-1]) if add else ():
        kept = value.dtype == add.outputs[0].dtype and value.shape == add.outputs[0].shape
        if kept and value.array is None and _hides_nothing(mask):
            return value
    return None


def _hides_nothing(mask: Value) -> bool:
    """Whether a value is zeros along several axes, unlike a bias that is to be trained."""
    several = sum(extent > 1 for extent in mask.shape) > 1
    return several and mask.array is not None and not mask.array.any()
