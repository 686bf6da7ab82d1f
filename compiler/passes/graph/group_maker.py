"""Moving operators of a graph into a `dataflow.group`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import NoneType, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue, Use
from xdsl.rewriter import Rewriter

from compiler.graph.aliases import is_absorbable
from compiler.graph.signature import signature
from compiler.ir.dataflow import ConstantOp, GroupOp, NoneOp, OperatorOp, YieldOp
from compiler.ir.edit import erase_dead, insert_before, last_of
from compiler.net.operators import KINDS, Kind


def make_group(
    operators: Sequence[OperatorOp],
    views: frozenset[OperatorOp] = frozenset(),
    anchor: Operation | None = None,
) -> GroupOp:
    """Move operators, given in order, into a new group before `anchor`, or at their graph's end.

    Constants that they use are cloned into it, and so are the `views` between two of them; weights
    and results of other groups become its inputs; results with users outside become its outputs.
    An opaque operator yields all results that are not left out: its loops write them, and a result
    without users would have to be on the stack.
    """
    anchor = last_of(operators[0]) if anchor is None else anchor
    body = _Body(frozenset(operators), views)
    for op in operators:
        body.move(op)
    # A view that others use as well stays outside, too.
    erase_dead(body.absorbed)
    results = [
        value
        for op in operators
        for value in op.results
        if any(body.is_outside(use) for use in value.uses)
        or (KINDS[op.type_name] is Kind.OPAQUE and not isinstance(value.type, NoneType))
    ]
    body.block.add_op(YieldOp(*results))
    group = GroupOp(body.inputs, [value.type for value in results], Region(body.block))
    for value, output in zip(results, group.outputs, strict=True):
        value.replace_uses_with_if(output, body.is_outside)
        output.name_hint = value.name_hint
    insert_before(anchor, group)
    group.kernel = StringAttr(signature(group))
    return group


def ungroup(group: GroupOp) -> list[Operation]:
    """Replace a group by its operations; returns them."""
    inner = zip(group.body.block.args, group.inputs, strict=True)
    results = zip(group.outputs, group.results_yielded, strict=True)
    for value, replacement in (*inner, *results):
        value.replace_all_uses_with(replacement)
    operations = [op for op in group.body.block.ops if not isinstance(op, YieldOp)]
    for op in operations:
        op.detach()
    insert_before(group, *operations)
    Rewriter.erase_op(group)
    return operations


@dataclass
class _Body:
    members: frozenset[Operation]
    views: frozenset[OperatorOp]
    block: Block = field(default_factory=Block)
    inputs: list[SSAValue] = field(default_factory=list[SSAValue])
    inner: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    absorbed: list[OperatorOp] = field(default_factory=list[OperatorOp])

    def move(self, op: OperatorOp) -> None:
        """Move an operator to the end, with operands from inside."""
        operands = [self.inside(value) for value in op.inputs]
        op.detach()
        self.block.add_op(op)
        op.operands = operands

    def inside(self, value: SSAValue) -> SSAValue:
        """The value inside the group for a value outside."""
        if value.owner in self.members:
            return value
        if value not in self.inner:
            self.inner[value] = self._bring(value)
        return self.inner[value]

    def _bring(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        if isinstance(owner, ConstantOp | NoneOp):
            return self._clone(owner, [])
        if isinstance(owner, OperatorOp) and self._leads_inside(owner):
            operands = [self.inside(operand) for operand in owner.inputs]
            self.absorbed.append(owner)
            return self._clone(owner, operands)
        self.inputs.append(value)
        argument = self.block.insert_arg(value.type, len(self.block.args))
        argument.name_hint = value.name_hint
        return argument

    def _clone(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        copy = op.clone()
        copy.operands = operands
        self.block.add_op(copy)
        return copy.results[0]

    def _leads_inside(self, op: OperatorOp) -> bool:
        """Whether a view aliases, perhaps through other views, a result of a member."""
        while op in self.views and is_absorbable(op):
            owner = op.inputs[0].owner
            if owner in self.members:
                return True
            if not isinstance(owner, OperatorOp):
                return False
            op = owner
        return False

    def is_outside(self, use: Use) -> bool:
        """Whether a use is by an operation outside the group."""
        return use.operation.parent_block() is not self.block
