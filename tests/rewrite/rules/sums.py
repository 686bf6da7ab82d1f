"""Elements of tensors as sums over integers: the normal form of a proof.

A term is a number times a multiplication of factors, summed over all integers that its variables
may be, where all its conditions hold. `[p]` is 1 where p holds and otherwise 0, so the element of
a Concat is `[i < n] a(i) + [i >= n] b(i - n)`, and every If, pad and bound is a condition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import z3

from tests.rewrite.rules.divisions import Formula, Index, subterms
from tests.rewrite.rules.reasoning import Reasoner


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """An element of a tensor."""

    name: str
    indices: tuple[Index, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A function of sums; equal arguments give equal results."""

    name: str
    arguments: tuple["Sum", ...]


Factor = Read | Call


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A number times factors, summed over integers where conditions hold."""

    coefficient: Fraction
    variables: tuple[Any, ...] = ()
    conditions: tuple[Formula, ...] = ()
    factors: tuple[Factor, ...] = ()


Sum = tuple[Term, ...]
ZERO: Sum = ()


def number(value: float | Fraction) -> Sum:
    """A number."""
    return (Term(Fraction(value)),) if value else ZERO


def read(name: str, *indices: Index) -> Sum:
    """An element of a tensor."""
    return (Term(Fraction(1), factors=(Read(name, indices),)),)


def scaled(value: Sum, factor: Fraction) -> Sum:
    """A multiple of a sum."""
    return tuple(replace(term, coefficient=term.coefficient * factor) for term in value)


def where(conditions: Sequence[Formula], value: Sum) -> Sum:
    """A sum where conditions hold, otherwise 0."""
    return tuple(replace(t, conditions=(*t.conditions, *conditions)) for t in value)


def times(reasoner: Reasoner, left: Sum, right: Sum) -> Sum:
    """The multiplication of two sums, distributed; their variables must differ."""
    both = tuple(
        Term(
            a.coefficient * b.coefficient,
            a.variables + b.variables,
            a.conditions + b.conditions,
            a.factors + b.factors,
        )
        for a in left
        for b in right
    )
    return both if len(left) == len(right) == 1 else possible(reasoner, both)


def possible(reasoner: Reasoner, value: Sum) -> Sum:
    """A sum without the terms whose conditions never hold."""
    return tuple(t for t in value if not t.conditions or reasoner.possible(t.conditions))


def total(
    reasoner: Reasoner, extents: Sequence[Index], body: Callable[[tuple[Index, ...]], Sum]
) -> Sum:
    """The sum of a body over indices from 0 to before each extent."""
    indices = tuple(0 if reasoner.same(n, 1) else reasoner.fresh("k") for n in extents)
    bounds = [
        bound
        for index, n in zip(indices, extents, strict=True)
        if not isinstance(index, int)
        for bound in (index >= 0, index < n)
    ]
    with reasoner.assuming(bounds):
        value = body(indices)
    variables = tuple(index for index in indices if not isinstance(index, int))
    return tuple(replace(t, variables=variables + t.variables) for t in where(bounds, value))


def pick(reasoner: Reasoner, condition: Formula, yes: Callable[[], Sum], no: Callable[[], Sum]):
    """One of two sums."""
    if reasoner.follows(condition):
        return yes()
    if condition is False or reasoner.follows(z3.Not(condition)):
        return no()
    with reasoner.assuming([condition]):
        first = where([condition], yes())
    with reasoner.assuming([z3.Not(condition)]):
        return first + where([z3.Not(condition)], no())


def names_in(formula: Any) -> set[int]:
    """The identities of the terms inside a formula."""
    return {term.get_id() for term in subterms([formula])}


def outer_conditions(value: Sum) -> Iterator[Formula]:
    """The conditions of terms that do not depend on their own variables."""
    for term in value:
        own = {variable.get_id() for variable in term.variables}
        yield from (c for c in term.conditions if not own & names_in(c))


def call(reasoner: Reasoner, name: str, *arguments: Sum) -> Sum:
    """A function of sums; conditions move out of it: f([p] a) = [p] f(a) + [not p] f(0)."""
    arguments = tuple(possible(reasoner, argument) for argument in arguments)
    conditions = {c.get_id(): c for a in arguments for c in outer_conditions(a)}
    if not conditions:
        return _call(name, arguments)
    condition = next(iter(conditions.values()))
    result: Sum = ZERO
    for holds in (True, False):
        assumed = condition if holds else z3.Not(condition)
        if reasoner.possible([assumed]):
            inner = tuple(_decided(argument, condition, holds) for argument in arguments)
            with reasoner.assuming([assumed]):
                result += where([assumed], call(reasoner, name, *inner))
    return result


def _decided(value: Sum, condition: Formula, holds: bool) -> Sum:
    """A sum where a condition holds, or does not."""
    identity = condition.get_id()
    terms = [t for t in value if holds or all(c.get_id() != identity for c in t.conditions)]
    return tuple(
        replace(t, conditions=tuple(c for c in t.conditions if c.get_id() != identity))
        for t in terms
    )


def _call(name: str, arguments: tuple[Sum, ...]) -> Sum:
    if name == "Relu" and (arguments == (ZERO,) or _is_call(arguments[0], "Relu")):
        return arguments[0]
    return (Term(Fraction(1), factors=(Call(name, arguments),)),)


def _is_call(value: Sum, name: str) -> bool:
    """Whether a sum is one result of a function."""
    if len(value) != 1 or value[0].coefficient != 1 or len(value[0].factors) != 1:
        return False
    factor = value[0].factors[0]
    bare = not (value[0].variables or value[0].conditions)
    return bare and isinstance(factor, Call) and factor.name == name


def substituted(value: Sum, replacements: Sequence[tuple[Any, Any]]) -> Sum:
    """A sum with integers in place of free variables."""
    return tuple(_term(term, replacements) for term in value) if replacements else value


def _term(term: Term, replacements: Sequence[tuple[Any, Any]]) -> Term:
    conditions = tuple(z3.substitute(c, *replacements) for c in term.conditions)
    factors = tuple(factor_with(factor, replacements) for factor in term.factors)
    return replace(term, conditions=conditions, factors=factors)


def factor_with(factor: Factor, replacements: Sequence[tuple[Any, Any]]) -> Factor:
    """A factor with integers in place of free variables."""
    if isinstance(factor, Call):
        return replace(
            factor, arguments=tuple(substituted(a, replacements) for a in factor.arguments)
        )
    return replace(factor, indices=tuple(index_with(i, replacements) for i in factor.indices))


def index_with(index: Index, replacements: Sequence[tuple[Any, Any]]) -> Index:
    """An integer with others in place of free variables."""
    return index if isinstance(index, int) else z3.substitute(index, *replacements)
