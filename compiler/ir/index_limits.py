"""The numbers that a graph's inputs may have where operators take them as indices."""

from collections import deque
from collections.abc import Iterator

from xdsl.ir import BlockArgument, SSAValue

from compiler.ir.dataflow import GraphOp, NoneOp, OperatorOp
from compiler.ir.movement import moved_operands
from compiler.ir.types import known_type
from compiler.net.operators import facts_of
from compiler.net.operators.indices import INDEXED, index_bounds
from compiler.tensors.substitution import shape_at_hints


def index_limits(graph: GraphOp) -> dict[str, int]:
    """For each input by name that operators take as indices, the least number out of range.

    Where sizes depend on symbols it is that of the example sizes. Only indices that reach their
    operator unchanged are considered. No limit is below 1, even where an operator takes rows of an
    empty tensor, which no run may.
    """
    names = dict(zip(graph.body.block.args, (name.data for name in graph.input_names), strict=True))
    limits: dict[str, int] = {}
    for op in graph.walk():
        if isinstance(op, OperatorOp) and (limit := _limit(op)) is not None:
            operand, below = limit
            for value in _sources(operand):
                if value in names:
                    name = names[value]
                    limits[name] = min(below, limits.get(name, below))
    return limits


def _limit(op: OperatorOp) -> tuple[SSAValue, int] | None:
    """The operand of an operator that is indices, and the least number beyond them."""
    if op.type_name not in INDEXED:
        return None
    inputs = [None if isinstance(v.owner, NoneOp) else known_type(v.type) for v in op.inputs]
    bounds = index_bounds(op.type_name, inputs, op.__getitem__)
    if bounds is None:
        return None
    return op.inputs[bounds.input], max(1, 1 + min(shape_at_hints(bounds.high)))


def _sources(value: SSAValue) -> Iterator[BlockArgument]:
    """The block arguments whose numbers a value has."""
    queue = deque([value])
    seen = {value}
    while queue:
        value = queue.popleft()
        if isinstance(value, BlockArgument):
            yield value
        elif isinstance(owner := value.owner, OperatorOp):
            converts = facts_of(owner.type_name).converts
            carried = owner.inputs[:1] if converts else moved_operands(owner)
            unseen = [v for v in carried if v not in seen]
            seen.update(unseen)
            queue.extend(unseen)
