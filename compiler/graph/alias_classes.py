"""Alias classes: values that share memory through views, and so must be decided on together."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.ir.movement import moved_operands
from compiler.ir.types import nbytes_of
from compiler.net.operators import KINDS, Kind, facts_of


@dataclass
class DisjointSets:
    """Sets of values that can be merged (a disjoint-set forest)."""

    _parents: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def root(self, value: SSAValue) -> SSAValue:
        """The value that represents the set of another one."""
        top = value
        while top in self._parents:
            top = self._parents[top]
        while value is not top:
            self._parents[value], value = top, self._parents[value]
        return top

    def merge(self, first: SSAValue, second: SSAValue) -> None:
        """Merge the sets of two values."""
        first, second = self.root(first), self.root(second)
        if first is not second:
            self._parents[second] = first


def shared_values(view: OperatorOp) -> list[SSAValue]:
    """The data operands and results of a view, without empty tensors and omitted operands."""
    given = (v for v in (*moved_operands(view), *view.outputs) if not isinstance(v.type, NoneType))
    return [value for value in given if nbytes_of(value.type)]


def moved_from(value: SSAValue) -> SSAValue:
    """The tensor whose elements a value holds, after operators that only move or convert them."""
    while isinstance(owner := value.owner, OperatorOp) and _keeps_elements(owner.type_name):
        value = owner.inputs[0]
    return value


def before_casts(value: SSAValue) -> SSAValue:
    """The value of which another is a cast, perhaps of a cast; the value where it is none."""
    while isinstance(owner := value.owner, OperatorOp) and facts_of(owner.type_name).converts:
        value = owner.inputs[0]
    return value


def _keeps_elements(name: str) -> bool:
    facts = facts_of(name)
    return KINDS[name] is Kind.VIEW or facts.converts or facts.permutes
