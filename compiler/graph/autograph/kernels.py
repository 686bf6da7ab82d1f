"""The kernels that terms would become: a quick account of fusion, for the search.

`fuse-operators` decides in the end; the search's best graphs go through it before one is chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.dag import finish_times
from compiler.graph.autograph.attention import attentions_of
from compiler.graph.rewriting.terms import RESULT, Graph, Term, reachable
from compiler.ir.operators import KINDS, Kind
from compiler.schedule import ELEMENT_BYTES

MAY_BE_VIEWS = frozenset({"Concat", "Slice", "Split"})
"""Operators that cost nothing where each operand or result is a range of consecutive bytes."""


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
    attentions = attentions_of(graph)
    inside = frozenset(term for members in attentions.values() for term in members)
    kernels: list[TermKernel] = []
    made_by: dict[Term, frozenset[int]] = {}
    for term in reachable(graph):
        before = frozenset[int]().union(*(made_by.get(t, frozenset()) for t in term.operands))
        if term in attentions:
            made_by[term] = frozenset({len(kernels)})
            members = attentions[term]
            kernels.append(TermKernel(term, tuple(sorted(before)), members=members))
        elif term in inside or term.constant or not term.inputs or is_view(term):
            made_by[term] = before
        elif (fused := _fused_with(term, made_by, before)) is not None:
            made_by[term] = frozenset({fused})
            kernels[fused] = _with(kernels[fused], term, made_by)
        else:
            made_by[term] = frozenset({len(kernels)})
            kernels.append(TermKernel(term, tuple(sorted(before))))
    return kernels


def is_view(term: Term) -> bool:
    """Whether an operator moves no bytes."""
    if term.kind == RESULT or KINDS.get(term.kind) is Kind.VIEW:
        return True
    axis = term.attributes.get("axis")
    if term.kind not in MAY_BE_VIEWS or not isinstance(axis, int):
        return False
    return prod(term.shape[:axis]) == 1


def _fused_with(
    term: Term, made_by: Mapping[Term, frozenset[int]], before: frozenset[int]
) -> int | None:
    """The kernel that an elementwise operator is fused with: the last one that it waits for.

    None where that made no operand of the result's shape: the operator has a separate kernel.
    """
    if KINDS.get(term.kind) is not Kind.ELEMENTWISE or not before:
        return None
    last = max(before)
    for operand in term.operands:
        if made_by.get(operand) == frozenset({last}) and operand.shape == term.shape:
            return last
    return None


def _with(kernel: TermKernel, term: Term, made_by: Mapping[Term, frozenset[int]]) -> TermKernel:
    """A kernel with one more operator."""
    others = [t for t in term.operands if not t.constant and not made_by[t] & made_by[term]]
    nbytes = sum(prod(t.shape) * ELEMENT_BYTES[t.dtype] for t in others)
    after = {*kernel.after, *(number for t in others for number in made_by[t])}
    return replace(
        kernel,
        after=tuple(sorted(after)),
        fused=kernel.fused + 1,
        nbytes=kernel.nbytes + nbytes,
    )


def mixed_cost(kernels: Sequence[TermKernel], times: Sequence[float], alpha: float) -> float:
    """AutoGraph's cost: the sum of all times and `alpha` times the critical path."""
    return sum(times) + alpha * critical_time(kernels, times)


def critical_time(kernels: Sequence[TermKernel], times: Sequence[float]) -> float:
    """The time of the longest path."""
    return max(finish_times(times, [kernel.after for kernel in kernels]), default=0.0)
