"""The kernels that terms would become: a quick account of fusion, for the search.

`fuse-operators` decides in the end; the search's best graphs go through it before one is chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.graph.rewriting.terms import RESULT, Graph, Term, reachable
from compiler.net.operators import KINDS, Kind
from compiler.net.operators.injective import PARTS
from compiler.rewrite.search.attention import attentions_of
from compiler.support.dag import finish_times
from compiler.tensors.dtypes import ELEMENT_BYTES

_NONE = frozenset[int]()
"""The kernels that inputs and constants wait for."""


@dataclass(frozen=True, slots=True)
class TermKernel:
    """A kernel: the term that decides its time, and the kernels that it waits for, by number.

    `fused` is the number of operators in its epilogue, which read `nbytes` of other kernels'
    tensors; `members` are all operators of an attention, none of another kernel.
    """

    term: Term
    after: tuple[int, ...]
    fused: int = 0
    nbytes: int = 0
    members: tuple[Term, ...] = ()


def kernels_of(graph: Graph) -> list[TermKernel]:
    """The kernels of a graph, in order: an elementwise operator is fused with the one before it,
    and an attention is one kernel."""
    terms = reachable(graph)
    attentions = attentions_of(graph, terms)
    inside = frozenset(term for members in attentions.values() for term in members)
    kernels: list[_Growing] = []
    made_by: dict[Term, frozenset[int]] = {}
    for term in terms:
        if term.constant or not term.inputs:
            made_by[term] = _NONE
            continue
        before = _all_of([made_by[operand] for operand in term.operands])
        if inside and term in attentions:
            made_by[term] = frozenset({len(kernels)})
            kernels.append(_Growing(term, before, members=attentions[term]))
        elif (inside and term in inside) or is_view(term):
            made_by[term] = before
        elif (fused := _fused_with(term, made_by, before)) is not None:
            made_by[term] = fused
            kernels[max(fused)].fuse(term, made_by)
        else:
            made_by[term] = frozenset({len(kernels)})
            kernels.append(_Growing(term, before))
    return [kernel.finished for kernel in kernels]


def _all_of(sets: Sequence[frozenset[int]]) -> frozenset[int]:
    """The union of some sets, most often of one."""
    return sets[0] if len(sets) == 1 else _NONE.union(*sets)


@dataclass(slots=True)
class _Growing:
    """A kernel with the operators so far; see `TermKernel`."""

    term: Term
    after: frozenset[int]
    members: tuple[Term, ...] = ()
    fused: int = 0
    nbytes: int = 0

    def fuse(self, term: Term, made_by: Mapping[Term, frozenset[int]]) -> None:
        """Add an operator to the epilogue."""
        own = made_by[term]
        self.fused += 1
        for operand in term.operands:
            if not operand.constant and made_by[operand].isdisjoint(own):
                self.nbytes += prod(operand.shape) * ELEMENT_BYTES[operand.dtype]
                self.after |= made_by[operand]

    @property
    def finished(self) -> TermKernel:
        """The kernel with all its operators."""
        after = tuple(sorted(self.after))
        return TermKernel(self.term, after, self.fused, self.nbytes, self.members)


def is_view(term: Term) -> bool:
    """Whether an operator moves no bytes."""
    if term.kind == RESULT or KINDS.get(term.kind) is Kind.VIEW:
        return True
    if term.kind not in PARTS:
        return False
    axis = term.attributes.get("axis")
    return isinstance(axis, int) and prod(term.shape[:axis]) == 1


def _fused_with(
    term: Term, made_by: Mapping[Term, frozenset[int]], before: frozenset[int]
) -> frozenset[int] | None:
    """The kernel that an elementwise operator is fused with: the last one that it waits for.

    None where that made no operand of the result's shape: the operator has a separate kernel.
    """
    if KINDS.get(term.kind) is not Kind.ELEMENTWISE or not before:
        return None
    last = before if len(before) == 1 else frozenset({max(before)})
    for operand in term.operands:
        if operand.shape == term.shape and made_by[operand] == last:
            return last
    return None


def mixed_cost(kernels: Sequence[TermKernel], times: Sequence[float], alpha: float) -> float:
    """AutoGraph's cost: the sum of all times and `alpha` times the critical path."""
    return sum(times) + alpha * critical_time(kernels, times)


def critical_time(kernels: Sequence[TermKernel], times: Sequence[float]) -> float:
    """The time of the longest path."""
    return max(finish_times(times, [kernel.after for kernel in kernels]), default=0.0)
