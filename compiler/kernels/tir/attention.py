"""The attention that a group consists of, and its scores as code."""

from dataclasses import replace
from typing import Any

from compiler.graph.attention import Attention, find_attentions
from compiler.kernels.group import Group
from compiler.kernels.tir.fusion import FusionContext
from compiler.tensors.dtypes import NARROW_FLOATS
from compiler.tensors.row_major import reshaped_index, unflatten_index, unit_free


def attention_of(group: Group) -> Attention | None:
    """The attention that a group consists of, if its operands are strided reads."""
    attentions = find_attentions(group, reads=True)
    if len(attentions) != 1 or len(attentions[0].operators) != len(group.operators):
        return None
    attention = attentions[0]
    sources = (attention.query, attention.key, attention.value)
    values = [*(operand.source for operand in sources), attention.result.source]
    keep = -1 if attention.value.keep is None else attention.value.keep
    inside = group.outputs != (values[-1],) or max(*values[:-1], keep) >= group.inputs
    if inside or any(group.values[value].block for value in values):
        return None
    return attention


def score_context(group: Group, attention: Attention) -> FusionContext:
    """The code of the softmax's operand, its only result, around an element of Q K^T.

    Scores in 16 bits are computed in float32 and not rounded.
    """
    operators = group.operators
    left_out = {attention.softmax, *attention.weights, *attention.views, attention.second}
    left_out.update(attention.result.operators)
    kept = tuple(op for i, op in enumerate(operators) if i not in left_out)
    scores = operators[attention.softmax].operand(0)
    computed = {i for n in (attention.first, *attention.scores) for i in operators[n].outputs}
    values = tuple(
        replace(info, dtype="float32")
        if number in computed and info.dtype in NARROW_FLOATS
        else info
        for number, info in enumerate(group.values)
    )
    own = replace(group, values=values, operators=kept, outputs=(scores,))
    return FusionContext(own, operators[attention.first])


def scores_at(group: Group, attention: Attention, number: Any) -> list[Any]:
    """The index of a problem in the batch of the scores, of which the weights may be a view."""
    scores, weights = (
        group.values[group.operators[i].operand(0)].shape[:-2]
        for i in (attention.softmax, attention.second)
    )
    batch = unflatten_index(number, attention.batch)
    batch = batch[len(batch) - len(weights) :]
    return reshaped_index(unit_free(batch, weights), weights, scores)
