"""Skip verifying again what is unchanged: operations, and whole modules."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import is_
from typing import TypeVar

from xdsl.ir import Operation
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
        if not same_objects(verified, facts):
            verify(self)
            # The facts themselves, not their ids: an id may be reused once an object is gone.
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
    operation_facts: Callable[[], Iterable[object]] | None = getattr(op, "facts", None)
    if operation_facts is not None:
        yield from operation_facts()


def verified_state(top: Operation) -> list[object]:
    """All that the verification of an operation depends on, with the operations inside it.

    Types and attributes are immutable: while these are the same objects, the result is the same.
    """
    state: list[object] = []
    for op in top.walk():
        properties = op.properties
        attributes = op.attributes
        state += op, op.parent, len(properties), len(attributes), len(op.operands)
        state += op.operands
        state += [result.type for result in op.results]
        for named in (properties, attributes):
            state += named
            state += named.values()
        state += op.successors
        for region in op.regions:
            state += region, region.parent
            for block in region.blocks:
                state += block, block.parent, len(block.args)
                state += [argument.type for argument in block.args]
    return state


def same_objects(first: Sequence[object], second: Sequence[object]) -> bool:
    """Whether two states hold the same objects."""
    return len(first) == len(second) and all(map(is_, first, second))
