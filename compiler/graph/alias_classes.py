"""Which values share memory through views, for decisions that they must take together."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import NoneType
from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import nbytes_of


@dataclass
class Sharing:
    """Sets of values that grow together (a disjoint-set forest)."""

    _parents: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def root(self, value: SSAValue) -> SSAValue:
        """The value that stands for all that one is joined with."""
        top = value
        while top in self._parents:
            top = self._parents[top]
        while value is not top:
            self._parents[value], value = top, self._parents[value]
        return top

    def join(self, first: SSAValue, second: SSAValue) -> None:
        """Make two sets one."""
        first, second = self.root(first), self.root(second)
        if first is not second:
            self._parents[second] = first


def shared_values(view: OperatorOp) -> list[SSAValue]:
    """The data operands and results of a view, those without elements or left out apart."""
    data = list(view.inputs) if view.type_name == "Concat" else [view.inputs[0]]
    given = (v for v in (*data, *view.outputs) if not isinstance(v.type, NoneType))
    return [value for value in given if nbytes_of(value.type)]


_MOVING = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def moved_from(value: SSAValue) -> SSAValue:
    """What a tensor's elements come from, only moved or converted."""
    while isinstance(owner := value.owner, OperatorOp) and owner.type_name in _MOVING:
        value = owner.inputs[0]
    return value
