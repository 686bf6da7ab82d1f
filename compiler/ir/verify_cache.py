"""Skip re-verifying operations whose types and attributes are unchanged."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import is_
from typing import TypeVar

from xdsl.irdl import IRDLOperation

OperationT = TypeVar("OperationT", bound=IRDLOperation)


def verified_once(definition: type[OperationT]) -> type[OperationT]:
    """Let operations of a definition without regions be verified again only if they have changed.

    xDSL's verifier of a definition takes most of a verification's time. Its result depends on
    types, attributes and the operation's `facts`, which are immutable: while they are the same
    objects, the result is the same.
    """
    verify = definition.verify_

    def verify_(self: OperationT) -> None:
        facts = tuple(_facts(self))
        verified: tuple[object, ...] = getattr(self, "_verified", ())
        if len(verified) != len(facts) or not all(map(is_, verified, facts)):
            verify(self)
            vars(self)["_verified"] = facts

    setattr(definition, "verify_", verify_)  # noqa: B010
    return definition


def _facts(op: IRDLOperation) -> Iterator[object]:
    """All that the verifier of an operation without regions may depend on."""
    yield len(op.operands)
    yield from (value.type for value in chain(op.operands, op.results))
    yield from chain.from_iterable(op.properties.items())
    yield len(op.properties)
    yield from chain.from_iterable(op.attributes.items())
    yield len(op.regions) + len(op.successors)
    more: Callable[[], Iterable[object]] | None = getattr(op, "facts", None)
    if more is not None:
        yield from more()
