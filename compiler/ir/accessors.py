"""Access to an operation's operands and results without irdl's search for them."""

from operator import attrgetter
from typing import TypeVar

from xdsl.irdl import VarIRConstruct
from xdsl.irdl.operations import UniqueVariadicAccessor
from xdsl.ir import Operation

OperationT = TypeVar("OperationT", bound=type[Operation])

ALL = {VarIRConstruct.OPERAND: "_operands", VarIRConstruct.RESULT: "results"}
"""Where an operation keeps all of its operands and all of its results."""


def direct_access(definition: OperationT) -> OperationT:
    """Let the fields of all operands, and of all results, of an operation be read directly.

    Passes read them most of all: irdl's way makes a view, and a slice of it, each time.
    """
    for name, field in list(vars(definition).items()):
        if isinstance(field, UniqueVariadicAccessor) and field.num_defs == 1:
            kept = ALL.get(field.construct)
            if kept is not None:
                setattr(definition, name, property(attrgetter(kept)))
    return definition
