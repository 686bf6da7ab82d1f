"""The kernels that terms would become: a quick account of fusion, for the search.

`fuse-operators` decides in the end; the search's best graphs go through it before one is chosen.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import cast

from compiler.graph.attention import ANCHOR, AttentionSizes
from compiler.graph.cost import unrolled_terms
from compiler.graph.rewriting.terms import RESULT, Graph, Term, reachable
from compiler.net.operators import KINDS, OPERATORS, Kind, broadcasts, facts_of
from compiler.net.operators.injective import PARTS
from compiler.net.operators.reductions import LISTED_REDUCTIONS
from compiler.support.dag import finish_times
from compiler.tensors.dtypes import ELEMENT_BYTES

LAYOUTS = frozenset({"Transpose", RESULT, *(kind for kind in PARTS if OPERATORS[kind].picks)})
"""Operators besides views that an attention's kernel reads through."""


def attentions_of(graph: Graph, terms: Sequence[Term]) -> dict[Term, tuple[Term, ...]]:
    """The operators of each attention, in order, by the last one.

    `terms` are those of the graph, inputs first.
    """
    softmaxes = [term for term in terms if term.node.type == ANCHOR and not term.constant]
    if not softmaxes:
        return {}
    users: dict[Term, list[Term]] = {}
    for term in [t for t in terms if not t.constant]:
        for operand in term.operands:
            users.setdefault(operand, []).append(term)
    finder = _Finder(users, frozenset(graph))
    attentions = (finder.around(softmax) for softmax in softmaxes)
    return {members[-1]: members for members in attentions if members}


@dataclass(frozen=True)
class _Finder:
    users: Mapping[Term, list[Term]]
    outputs: frozenset[Term]

    def around(self, softmax: Term) -> tuple[Term, ...]:
        """The attention of a softmax over the last axis; empty if it is none."""
        weights, second = self.weights(softmax)
        axis = softmax.node.attributes["axis"]
        scores = self.scores(softmax.node.inputs[0])
        if scores is None or second is None or axis != len(softmax.shape) - 1:
            return ()
        if second.node.type != "MatMul" or second.node.inputs[0] is not (weights or [softmax])[-1]:
            return ()
        query, key, value = *scores[0].operands, second.node.inputs[1]
        if value is None or not _sizes(query, value, second).are_supported:
            return ()
        members = {*scores, softmax, *weights, second, *self.results(second)}
        self.absorb([query, key, value], members)
        self.absorb_mask(value, members)
        for operand in (query, key):
            self.absorb_norms(operand, members)
        split = [t for t in members if t.node.type == RESULT and t.node.inputs[0] not in members]
        return tuple(sorted(members.difference(split), key=lambda term: term.number))

    def weights(self, softmax: Term) -> tuple[list[Term], Term | None]:
        """The operators that view weights or compute each alone, and the one after them."""
        path = list[Term]()
        last = self.only_user(softmax)
        while last is not None and (_is_scalar(last) or _keeps_matrices(last)):
            path.append(last)
            last = self.only_user(last)
        return path, last

    def scores(self, term: Term | None) -> list[Term] | None:
        """The MatMul of the scores and the operators after it, or None."""
        if term is None or self.only_user(term) is None:
            return None
        if term.node.type == "MatMul":
            return [term]
        chains = (self.scores(operand) for operand in _of_scores(term))
        return next(([*chain, term] for chain in chains if chain is not None), None)

    def results(self, second: Term) -> Iterator[Term]:
        """The layout changes of the result and what is computed of each element of it alone,
        which no other operator reads."""
        user = self.only_user(second)
        while user is not None:
            permutes = facts_of(user.node.type).permutes
            if not (permutes or _is_view(user) or _is_scalar(user)):
                return
            yield user
            user = self.only_user(user)

    def absorb(self, operands: list[Term], members: set[Term]) -> None:
        """Add the layout changes of operands that only members read."""
        while operands:
            term = operands.pop()
            if not (term.node.type in LAYOUTS or _is_view(term)) or term in self.outputs:
                continue
            if term not in members and all(user in members for user in self.users[term]):
                members.add(term)
                operands += term.operands

    def absorb_mask(self, value: Term, members: set[Term]) -> None:
        """Add the mask of rows of V that only members read, and the layout changes before it."""
        value = _source_of(value, members)
        outside = value in members or value in self.outputs
        if outside or not _masks_rows(value) or not members.issuperset(self.users[value]):
            return
        members.add(value)
        self.absorb([term for term in value.node.inputs[1:2] if term is not None], members)

    def absorb_norms(self, operand: Term, members: set[Term]) -> None:
        """Add a division by norms that only members read, and the layout changes before it."""
        operators = _division_by_norms(_source_of(operand, members))
        users = [user for term in operators for user in self.users[term]]
        if self.outputs.isdisjoint(operators) and members.union(operators).issuperset(users):
            members.update(operators)
            self.absorb(
                [term for quotient in operators[:1] for term in quotient.node.inputs[:1] if term],
                members,
            )

    def only_user(self, term: Term) -> Term | None:
        """The operator that alone reads a term."""
        users = self.users.get(term, [])
        return users[0] if len(users) == 1 and term not in self.outputs else None


def _source_of(term: Term, members: Set[Term]) -> Term:
    """The term whose layout members change."""
    while term in members and term.node.inputs[0] is not None:
        term = term.node.inputs[0]
    return term


def _division_by_norms(term: Term) -> list[Term]:
    """A division by Euclidean norms and the operators that compute these; empty if it is none."""
    if term.node.type != "Div":
        return []
    operators = [term]
    divisor = term.node.inputs[1]
    # PyTorch exports a normalisation with a bound of the norms, expanded before the Div
    while divisor is not None and _is_no_less(divisor.node.type):
        operators.append(divisor)
        divisor = divisor.node.inputs[0]
    if divisor is None or divisor.node.type != "ReduceL2":
        return []
    of_dividend = divisor.node.inputs[0] is term.node.inputs[0]
    return [*operators, divisor] if of_dividend else []


def _is_no_less(kind: str) -> bool:
    """Whether results are those of operand 0 but for a bound, each perhaps several times."""
    return facts_of(kind).clips or broadcasts(kind) or kind == "Max"


def _sizes(query: Term, value: Term, second: Term) -> AttentionSizes:
    columns, width = value.shape[-2:]
    return AttentionSizes(prod(second.shape[:-1]), columns, query.shape[-1], width)


def _is_view(term: Term) -> bool:
    return KINDS.get(term.node.type) is Kind.VIEW


def _keeps_matrices(term: Term) -> bool:
    """Whether a view changes only the axes before the matrices of its operand."""
    operand = term.node.inputs[0] if _is_view(term) else None
    return operand is not None and len(operand.shape) > 1 and operand.shape[-2:] == term.shape[-2:]


def _of_scores(term: Term) -> Sequence[Term]:
    """The operands that have a score for each one that a term computes."""
    if _keeps_matrices(term):
        return [*term.operands][:1]
    same_shape = [operand for operand in term.operands if operand.shape == term.shape]
    return same_shape if KINDS.get(term.node.type) is Kind.ELEMENTWISE else []


def _is_scalar(term: Term) -> bool:
    """Whether an operator computes each element of one operand alone, by scalar constants."""
    varying = [operand for operand in term.operands if not operand.constant]
    scalars = all(prod(operand.shape) == 1 for operand in term.operands if operand.constant)
    same_shape = len(varying) == 1 and varying[0].shape == term.shape
    return same_shape and scalars and KINDS.get(term.node.type) is Kind.ELEMENTWISE


def _masks_rows(term: Term) -> bool:
    """Whether an operator makes rows zero where a vector of bools is false."""
    if term.node.type != "Where":
        return False
    keep, _, zero = term.node.inputs
    if keep is None or zero is None:
        return False
    return zero.constant and not zero.shape and sum(extent > 1 for extent in keep.shape) == 1


_NONE = frozenset[int]()
"""The kernels that inputs and constants wait for."""


@dataclass(frozen=True, slots=True)
class TermKernel:
    """A kernel: the term that decides its time, and the kernels that it waits for, by number.

    `fused` is the number of operators in its epilogue, and of reductions of few terms before it,
    which read `nbytes` more of other kernels' tensors; `members` are all operators of an attention,
    none of another kernel.
    """

    term: Term
    after: tuple[int, ...]
    fused: int = 0
    nbytes: int = 0
    members: tuple[Term, ...] = ()


def kernels_of(graph: Graph, few_terms: int = 0) -> list[TermKernel]:
    """The kernels of a graph, in order: an elementwise operator is fused with the one before it,
    and an attention is one kernel.

    A reduction of at most `few_terms` is computed by another one that alone reads it.
    """
    terms = reachable(graph)
    attentions = attentions_of(graph, terms)
    inside = frozenset(term for members in attentions.values() for term in members)
    unrolled = _unrolled(graph, terms, inside, few_terms) if few_terms else {}
    kernels: list[_Growing] = []
    made_by: dict[Term, frozenset[int]] = {}
    for term in terms:
        if term.constant or not term.node.inputs:
            made_by[term] = _NONE
            continue
        awaited = _all_of([made_by[operand] for operand in term.operands])
        if inside and term in attentions:
            made_by[term] = frozenset({len(kernels)})
            kernels.append(_Growing(term, awaited, members=attentions[term]))
        elif (inside and term in inside) or term in unrolled or is_view(term):
            made_by[term] = awaited
        elif (fused := _fused_with(term, made_by, awaited)) is not None:
            made_by[term] = fused
            kernels[max(fused)].fuse(term, made_by)
        else:
            made_by[term] = frozenset({len(kernels)})
            kernels.append(_Growing(term, awaited))
            kernels[-1].compute(term.node.inputs[0], unrolled)
    return [kernel.finished for kernel in kernels]


def _unrolled(
    graph: Graph, terms: Sequence[Term], inside: Set[Term], few_terms: int
) -> dict[Term, int]:
    """The reductions that others compute, with how often these compute an element before them.

    `terms` are those of the graph, inputs first; those `inside` attentions are not listed.
    """
    every = (term for term in terms if term.node.type in LISTED_REDUCTIONS)
    listed = [term for term in every if not term.constant and term not in inside]
    if len(listed) < 2:
        return {}
    reads = Counter(operand for term in terms for operand in term.operands)
    few: dict[Term, int] = {}
    unrolled: dict[Term, int] = {}
    for term in listed:
        (source,) = term.operands
        if source in few and reads[source] == 1 and source not in graph:
            unrolled[source] = few[source]
        axes = cast(Sequence[int], term.node.attributes["axes"])
        repeated = unrolled.get(source, 1)
        if often := unrolled_terms(term.node.type, axes, source.shape, repeated, few_terms):
            few[term] = often
    return unrolled


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
        kernels = made_by[term]
        self.fused += 1
        for operand in term.operands:
            if not operand.constant and made_by[operand].isdisjoint(kernels):
                self.nbytes += _nbytes(operand)
                self.after |= made_by[operand]

    def compute(self, operand: Term | None, unrolled: Mapping[Term, int]) -> None:
        """Add the reductions of few terms that an operand is."""
        while operand is not None and operand in unrolled:
            (source,) = operand.operands
            self.fused += 1
            self.nbytes += _nbytes(source) - _nbytes(operand)
            operand = source

    @property
    def finished(self) -> TermKernel:
        """The kernel with all its operators."""
        awaited = tuple(sorted(self.after))
        return TermKernel(self.term, awaited, self.fused, self.nbytes, self.members)


def _nbytes(term: Term) -> int:
    return prod(term.shape) * ELEMENT_BYTES[term.dtype]


def is_view(term: Term) -> bool:
    """Whether an operator moves no bytes."""
    if term.node.type == RESULT or KINDS.get(term.node.type) is Kind.VIEW:
        return True
    if term.node.type not in PARTS:
        return False
    axis = term.node.attributes.get("axis")
    return isinstance(axis, int) and prod(term.shape[:axis]) == 1


def _fused_with(
    term: Term, made_by: Mapping[Term, frozenset[int]], awaited: frozenset[int]
) -> frozenset[int] | None:
    """The kernel that an elementwise operator is fused with: the last one that it waits for.

    None where that made no operand of the result's shape: the operator has a separate kernel.
    """
    if KINDS.get(term.node.type) is not Kind.ELEMENTWISE or not awaited:
        return None
    last = awaited if len(awaited) == 1 else frozenset({max(awaited)})
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
