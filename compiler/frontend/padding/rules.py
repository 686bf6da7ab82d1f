"""The effect of padding on each operator."""

from collections.abc import Mapping

from compiler.frontend.padding.axes import ONE
from compiler.frontend.padding.effects import Effect, Rule, broadcast_axes, unified
from compiler.frontend.padding.indexing import INDEXING_RULES
from compiler.frontend.padding.movement import MOVEMENT_RULES, view
from compiler.frontend.padding.pairs import OperatorPair
from compiler.frontend.padding.reductions import REDUCTION_RULES
from compiler.frontend.padding.windows import WINDOW_RULES
from compiler.net.operators import KINDS, STRUCTURAL_INPUTS, Kind


def effect_of(pair: OperatorPair) -> Effect:
    """The effect of padding on an operator; raises CannotPad if it has no rule, or none that fits.

    Operators without padded operands and results are not affected.
    """
    used = [*pair.inputs, *pair.outputs]
    if not any(tensor is not None and tensor.open for tensor in used):
        return Effect([() if output is None else output.axes for output in pair.outputs])
    op_type = pair.operator.op_type
    rule = _RULES.get(op_type) or _BY_KIND.get(KINDS[op_type])
    if rule is None:
        axes = [axis for tensor in used if tensor is not None for axis in tensor.axes]
        raise pair.refusal("has no rule for padding", *axes)
    return rule(pair)


def _elementwise(pair: OperatorPair) -> Effect:
    """Each element of the result depends on elements at its own index."""
    structural = STRUCTURAL_INPUTS.get(pair.operator.op_type, ())
    operands = [
        operand.axes
        for index, operand in enumerate(pair.inputs)
        if operand is not None and index not in structural
    ]
    return Effect([broadcast_axes(pair, *operands)])


def _by_channel(pair: OperatorPair) -> Effect:
    """A BatchNormalization, whose other operands have the channels of the first."""
    data = pair.operand(0).axes
    channels = [operand.axes[0] for operand in pair.inputs[1:] if operand is not None]
    return Effect([(data[0], unified(pair, *(data[1:2] or (ONE,)), *channels), *data[2:])])


_RULES: Mapping[str, Rule] = {
    **REDUCTION_RULES,
    **WINDOW_RULES,
    **MOVEMENT_RULES,
    **INDEXING_RULES,
    "BatchNormalization": _by_channel,
}
_BY_KIND: Mapping[Kind, Rule] = {Kind.ELEMENTWISE: _elementwise, Kind.VIEW: view}
