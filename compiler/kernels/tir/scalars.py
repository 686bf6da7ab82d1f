"""The integers that a function keeps in buffers of one element, as it goes from step to step."""

from collections.abc import Collection, Mapping
from typing import Any

import tvm_ffi
from tvm.ir import Call
from tvm.tirx import stmt

from compiler.kernels.tir.terms.integers import TYPE_LIMITS, Integer, IntegerRange, KernelTerms
from compiler.kernels.tir.terms.linear import Sums, interval

ScalarState = dict[Any, tuple[Integer, IntegerRange]]
"""The value of each buffer, and the interval that the conditions of its store leave to it."""


class Scalars:
    """The present values of a thread's own buffers of one integer, none of which has two names.

    They are followed in functions that have a loop by condition, where they are what is counted.
    """

    def __init__(self, terms: KernelTerms, body: Any):
        self._terms, self._sums = terms, Sums(terms)
        self.state: ScalarState = {}
        self.followed = False
        self._aliased = set[Any]()

        def loop(node: stmt.While) -> None:
            self.followed = True

        def declaration(node: Any) -> None:
            if isinstance(node.data, Call):
                self._aliased.update((node.buffer, *node.data.args))

        visitors = ((stmt.While, loop), (stmt.DeclBuffer, declaration))
        tvm_ffi.structural_walk(body, visitors, order="pre")

    def store(self, buffer: Any, value: Integer | None, conditions: tuple[Integer, ...]) -> None:
        """Give a buffer a value; None if it is not an integer."""
        own = buffer.scope() in ("", "global", "local") and buffer not in self._aliased
        if value is None or not self.followed or not own or str(buffer.dtype) not in TYPE_LIMITS:
            self.state.pop(buffer, None)
        else:
            self.state[buffer] = (value, self.interval(value, conditions))

    def interval(self, value: Integer, conditions: tuple[Integer, ...]) -> IntegerRange:
        """An interval of a value under conditions."""
        return interval(value, conditions, self._sums) or (value.low, value.high)

    def narrow(self, conditions: tuple[Integer, ...]) -> bool:
        """Take note of conditions under which all buffers have their values, if that can be."""
        for buffer, (value, (low, high)) in self.state.items():
            narrowed = interval(value, conditions, self._sums)
            if narrowed is None:
                return False
            self.state[buffer] = (value, (max(low, narrowed[0]), min(high, narrowed[1])))
        return True

    def merge(self, other: ScalarState) -> None:
        """Keep what holds in the present state and in another: either may be the next step's."""
        for buffer in [*self.state]:
            if buffer not in other:
                del self.state[buffer]
                continue
            (value, limits), (second, others) = self.state[buffer], other[buffer]
            both = (min(limits[0], others[0]), max(limits[1], others[1]))
            joined = value if value is second else self._terms.unknown(*both, buffer.name)
            self.state[buffer] = (joined, both)

    def limits(self, buffers: Collection[Any]) -> dict[Any, IntegerRange]:
        """The intervals of those buffers that have a value."""
        return {buffer: self.state[buffer][1] for buffer in buffers if buffer in self.state}

    def forget(self, buffers: Collection[Any], within: Mapping[Any, IntegerRange]) -> None:
        """Let buffers have any value in intervals; those without one are not known."""
        for buffer in buffers:
            self.state.pop(buffer, None)
            if buffer in within:
                limits = within[buffer]
                self.state[buffer] = (self._terms.unknown(*limits, buffer.name), limits)


def hull(
    first: Mapping[Any, IntegerRange], second: Mapping[Any, IntegerRange]
) -> dict[Any, IntegerRange]:
    """The intervals that hold both of two."""
    return {
        b: (min(first[b][0], second[b][0]), max(first[b][1], second[b][1]))
        for b in first
        if b in second
    }


def is_within(inner: Mapping[Any, IntegerRange], outer: Mapping[Any, IntegerRange]) -> bool:
    """Whether all intervals are inside others."""
    return inner.keys() == outer.keys() and all(
        outer[b][0] <= low and high <= outer[b][1] for b, (low, high) in inner.items()
    )


def extended(
    before: Mapping[Any, IntegerRange],
    after: Mapping[Any, IntegerRange],
    widest: Mapping[Any, IntegerRange],
) -> dict[Any, IntegerRange]:
    """The intervals before and after a turn of a loop; an end that moved goes as far as it can."""
    both = hull(before, after)
    for b, (least, greatest) in widest.items():
        low, high = both[b]
        falls, rises = low < before[b][0], high > before[b][1]
        both[b] = (least if falls else low, greatest if rises else high)
    return both


def carried(body: Any) -> set[Any]:
    """The buffers that a loop's body stores to, but for those that each turn makes anew."""
    stored, own = set[Any](), set[Any]()

    def store(node: Any) -> None:
        stored.add(node.buffer)

    def allocation(node: Any) -> None:
        own.add(node.buffer)

    visitors = ((stmt.BufferStore, store), (stmt.AllocBuffer, allocation))
    tvm_ffi.structural_walk(body, visitors, order="pre")
    return stored - own


def written(body: Any) -> set[Any]:
    """The buffers that a function's body stores to, by all their names."""
    stored = set[Any]()
    sources = dict[Any, Any]()

    def store(statement: Any) -> None:
        stored.add(statement.buffer)

    def declare(statement: Any) -> None:
        source = statement.data
        sources[statement.buffer] = source.args[0] if isinstance(source, Call) else source

    visitors = ((stmt.BufferStore, store), (stmt.DeclBuffer, declare))
    tvm_ffi.structural_walk(body, visitors, order="pre")
    owners = stored | {sources[buffer] for buffer in stored if buffer in sources}
    return owners | {buffer for buffer, source in sources.items() if source in owners}
