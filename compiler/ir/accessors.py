"""Access to an operation's operands, results and regions without irdl's search for them."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from xdsl.irdl import IRDLOperation, VarIRConstruct
from xdsl.irdl.operations import (
    BaseAccessor,
    BeforeVariadicSingleAccessor,
    UniqueVariadicAccessor,
)

DefinitionT = TypeVar("DefinitionT", bound=IRDLOperation)

ALL_OF_A_KIND = {
    VarIRConstruct.OPERAND: "_operands",
    VarIRConstruct.RESULT: "results",
    VarIRConstruct.REGION: "regions",
}
"""The attribute of an operation with all of each."""


def direct_access(definition: type[DefinitionT]) -> type[DefinitionT]:
    """Read the fields of an operation directly, as passes read little else.

    irdl makes a view, and a slice of it, each time.
    """
    for name, field in list(vars(definition).items()):
        read = _reader(field) if isinstance(field, BaseAccessor) else None
        if read is not None:
            setattr(definition, name, property(read))
    return definition


def _reader(field: BaseAccessor) -> Callable[[Any], Any] | None:
    """The function that reads a field; None where the sizes of others decide its index."""
    attribute = ALL_OF_A_KIND.get(field.construct)
    if attribute is None:
        return None
    if isinstance(field, UniqueVariadicAccessor) and field.num_defs == 1:
        return attrgetter(attribute)
    if isinstance(field, BeforeVariadicSingleAccessor):
        read_all = attrgetter(attribute)
        index = field.idx
        return lambda operation: read_all(operation)[index]
    return None
