"""Operations that are not checked again while nothing that their definition constrains changes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import is_
from typing import TypeVar

from xdsl.irdl import IRDLOperation

OperationT = TypeVar("OperationT", bound=IRDLOperation)


def checked_once(definition: type[OperationT]) -> type[OperationT]:
    """Let an operation without regions be checked again only where its facts are others.

    xDSL's check of a definition takes most of a verification's time, and its answer depends on
    types and attributes alone, and on what else the operation's `facts` are. Those cannot change:
    while they are the same objects, so is it.
    """
    check = definition.verify_

    def verify_(self: OperationT) -> None:
        facts = tuple(_facts(self))
        known: tuple[object, ...] = getattr(self, "_checked", ())
        if len(known) != len(facts) or not all(map(is_, known, facts)):
            check(self)
            vars(self)["_checked"] = facts

    setattr(definition, "verify_", verify_)  # noqa: B010
    return definition


def _facts(op: IRDLOperation) -> Iterator[object]:
    """Everything that the definition of an operation without regions may constrain."""
    yield len(op.operands)
    yield from (value.type for value in chain(op.operands, op.results))
    yield from chain.from_iterable(op.properties.items())
    yield len(op.properties)
    yield from chain.from_iterable(op.attributes.items())
    yield len(op.regions) + len(op.successors)
    more: Callable[[], Iterable[object]] | None = getattr(op, "facts", None)
    if more is not None:
        yield from more()
