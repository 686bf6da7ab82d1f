"""Whether every access of a function is inside its buffer: proved, refuted, or neither.

Intervals decide most; then TVM's analyzer, which knows conditions and asks Z3 within a budget that
counts its steps; then all values of the axes, as far as they are few.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy
from numpy.typing import NDArray
from tvm import tirx
from tvm.ir import PrimType, Range, Var
from tvm.sym import Analyzer

from compiler.kernels.tir.memory import Access, Accesses
from compiler.kernels.tir.terms.bounds import ExactTerms, SizedBounds
from compiler.kernels.tir.terms.integers import (
    COMPARISONS,
    LOGIC,
    Integer,
    KernelTerms,
    addends,
    leaves,
    related,
    subterms,
)
from compiler.kernels.tir.terms.linear import Linear, Sums, follows

SOLVER_STEPS = 200_000
"""Z3's budget for one question (its rlimit): some tens of milliseconds, and always the same."""

MOST_POINTS = 1 << 22
"""The most values of all axes that an access is tried with."""

POINTS_AT_ONCE = 1 << 18
"""The values that are tried at once."""

SAMPLES = 1 << 13
"""The values that are tried where there are more: for a counterexample, not for a proof."""

SYMBOLIC = 1
"""TVM's number of the proofs that may ask Z3."""

LARGEST_NUMBER = 1 << 62
"""Numbers from here on would wrap around in the arithmetic of 64 bits that decides."""

Points = NDArray[numpy.int64]


@dataclass
class Verdict:
    """How many accesses were proved in which way, and what was not.

    `undecided` and `outside` describe accesses; the second have an index outside their buffer.
    """

    accesses: int = 0
    by_sums: int = 0
    by_solver: int = 0
    by_enumeration: int = 0
    undecided: list[str] = field(default_factory=list[str])
    outside: list[str] = field(default_factory=list[str])


def judge(function: Accesses) -> Verdict:
    """Decide each access of a function; those that differ by a constant are one question."""
    verdict = Verdict(len(function.listed), undecided=[*function.opaque])
    sums = Sums(function.terms)
    if function.sizes:
        return _judge_sized(function, sums, verdict)
    alike = dict[tuple[object, ...], list[Access]]()
    for access in function.listed:
        index = access.index
        if index.low < 0 or index.high >= access.extent:
            conditions = related(index, access.conditions)
            key = (access.extent, addends(index)[0], conditions)
            alike.setdefault(key, []).append(access)
    for accesses in alike.values():
        ends = sorted(accesses, key=lambda access: addends(access.index)[1])
        conditions = related(ends[0].index, ends[0].conditions)
        least, greatest = sums.of(ends[0].index), sums.of(ends[-1].index)
        beyond = greatest.plus(Linear({}, 1 - ends[0].extent))
        if follows((least.times(-1), beyond), conditions, sums):
            verdict.by_sums += len(accesses)
        elif proves(_inside(ends[0], ends[-1], function.terms), conditions):
            verdict.by_solver += len(accesses)
        else:
            _enumerate(accesses, function.terms, verdict)
    return verdict


def _judge_sized(function: Accesses, sums: Sums, verdict: Verdict) -> Verdict:
    """Decide each access for all sizes, by bounds over symbols or by sums."""
    alike = dict[tuple[str, tuple[Integer, ...], tuple[Integer, ...]], list[Access]]()
    for access in function.listed:
        index = access.index
        if access.size is not None or index.low < 0 or index.high >= access.extent:
            conditions = related(index, access.conditions)
            key = (str(access.extent), addends(index)[0], conditions)
            alike.setdefault(key, []).append(access)
    sizes = ExactTerms(function.sizes, sums)
    known = dict[tuple[Integer, ...], SizedBounds]()
    for (_, _, conditions), accesses in alike.items():
        ends = sorted(accesses, key=lambda access: addends(access.index)[1])
        if conditions not in known:
            known[conditions] = SizedBounds(sizes, conditions)
        if not _is_inside(ends[0], ends[-1], known[conditions], function.terms, sums):
            verdict.undecided += [*map(access_text, accesses)]
    return verdict


def _is_inside(
    least: Access, greatest: Access, bounds: SizedBounds, terms: KernelTerms, sums: Sums
) -> bool:
    """Whether two accesses, and all between them, are inside their buffer."""
    if bounds.inside(least.index, greatest.index, least.extent):
        return True
    first, last = sums.of(least.index), sums.of(greatest.index)
    extent = sums.of(least.size or terms.number(least.extent))
    beyond = last.plus(extent, -1).plus(Linear({}, 1))
    return follows((first.times(-1), beyond), bounds.conditions, sums)


def _enumerate(accesses: Sequence[Access], terms: KernelTerms, verdict: Verdict) -> None:
    """Decide accesses one by one, by all values of their axes."""
    for access in accesses:
        answer = enumerated(_inside(access, access, terms), access.conditions)
        if answer is True:
            verdict.by_enumeration += 1
        elif answer is False:
            verdict.undecided.append(access_text(access))
        else:
            verdict.outside.append(f"{access_text(access)} {answer}")


def access_text(access: Access) -> str:
    """An access in words."""
    verb = "writes" if access.writes else "reads"
    return f"{verb} element {access.index} of {access.buffer}, which has {access.extent}"


def _inside(least: Access, greatest: Access, terms: KernelTerms) -> Integer:
    """That two accesses, and all between them, are inside their buffer."""
    first = terms.apply("<=", terms.number(0), least.index)
    last = terms.apply("<", greatest.index, terms.number(greatest.extent))
    return terms.apply("and", first, last)


def proves(goal: Integer, conditions: Sequence[Integer]) -> bool:
    """Whether TVM's analyzer proves that a goal follows from conditions.

    Z3's integers have no end, but TVM's constants do.
    """
    constants = [term for term in subterms((goal, *conditions)) if term.kind == "number"]
    return all(map(_is_small, constants)) and _Solver().proves(goal, conditions)


class _Solver:
    """TVM's analyzer for one question: Z3's budget is for all that an analyzer is asked."""

    def __init__(self) -> None:
        self._analyzer: Any = Analyzer()
        if self._analyzer.is_z3_enabled:
            self._analyzer.set_z3_rlimit(SOLVER_STEPS)
        self._expressions = dict[Integer, Any]()

    def proves(self, goal: Integer, conditions: Sequence[Integer]) -> bool:
        """Whether a goal follows from conditions."""
        if not conditions:
            return bool(self._analyzer.can_prove(self._truth(goal), SYMBOLIC))
        with self._analyzer.constraint_scope(self._truth(conditions[0])):
            return self.proves(goal, conditions[1:])

    def _truth(self, term: Integer) -> Any:
        """A term as a condition."""
        if term.kind == "not":
            return tirx.Not(self._truth(term.operands[0]))
        if term.kind in ("and", "or"):
            a, b = map(self._truth, term.operands)
            return tirx.And(a, b) if term.kind == "and" else tirx.Or(a, b)
        if term.kind in COMPARISONS:
            return _COMPARED[term.kind](*map(self._integer, term.operands))
        return tirx.NE(self._integer(term), _constant(0))

    def _integer(self, term: Integer) -> Any:
        """A term as an integer of 64 bits."""
        if term not in self._expressions:
            self._expressions[term] = self._new_integer(term)
        return self._expressions[term]

    def _new_integer(self, term: Integer) -> Any:
        if term.kind == "number":
            return _constant(term.low)
        if term.kind in ("axis", "unknown"):
            variable = Var(term.name or "value", PrimType("int64"))
            if _is_small(term):
                extent = _constant(term.high - term.low + 1)
                self._analyzer.bind(variable, Range.from_min_extent(_constant(term.low), extent))
            return variable
        if term.kind in (*COMPARISONS, *LOGIC):
            return tirx.Select(self._truth(term), _constant(1), _constant(0))
        if term.kind == "select":
            values = map(self._integer, term.operands[1:])
            return tirx.Select(self._truth(term.operands[0]), *values)
        return _COMPUTED[term.kind](*map(self._integer, term.operands))


_COMPARED: Mapping[str, Any] = {"<": tirx.LT, "<=": tirx.LE, "==": tirx.EQ}
_COMPUTED: Mapping[str, Any] = {
    "+": tirx.Add,
    "-": tirx.Sub,
    "*": tirx.Mul,
    "//": tirx.FloorDiv,
    "%": tirx.FloorMod,
    "min": tirx.Min,
    "max": tirx.Max,
}


def _constant(value: int) -> Any:
    return tirx.const(value, "int64")


def _is_small(term: Integer) -> bool:
    return -LARGEST_NUMBER < term.low and term.high < LARGEST_NUMBER


def enumerated(goal: Integer, conditions: tuple[Integer, ...]) -> bool | str:
    """Try a goal with all values of its axes: True if it holds, False if they are too many.

    Where it fails although all conditions hold, the text says for which values. Conditions that
    share nothing with the goal do not help a proof.
    """
    own = related(goal, conditions)
    variables, every = leaves((goal, *own)), leaves((goal, *conditions))
    if not all(map(_is_small, subterms((goal, *conditions)))):
        return False
    if prod(v.high - v.low + 1 for v in variables) > MOST_POINTS:
        return _counterexample(goal, conditions, every, _samples(every))
    for values in _grid(variables):
        failing = ~_holds(goal, own, values)
        if failing.any():
            first = {v: numpy.repeat(value[failing][:1], SAMPLES) for v, value in values.items()}
            rest = _samples([v for v in every if v not in first])
            return _counterexample(goal, conditions, every, first | rest)
    return True


def _counterexample(
    goal: Integer,
    conditions: Sequence[Integer],
    variables: Sequence[Integer],
    values: Mapping[Integer, Points],
) -> bool | str:
    """The values among some for which a goal fails and each condition holds, or False.

    An unknown of memory makes no counterexample: its value may never be there.
    """
    if any(variable.kind == "unknown" for variable in variables):
        return False
    failing = numpy.flatnonzero(~_holds(goal, conditions, values))
    if not failing.size:
        return False
    at = ", ".join(f"{v.name} = {values[v][failing[0]]}" for v in variables)
    return f"at {at}" if at else "always"


def _holds(
    goal: Integer, conditions: Sequence[Integer], values: Mapping[Integer, Points]
) -> NDArray[Any]:
    """Where a goal holds, or a condition does not."""
    results = dict[Integer, Any](values)
    met: Any = True
    for condition in conditions:
        met = met & (_evaluated(condition, results) != 0)
    shape = numpy.broadcast_shapes(*(value.shape for value in values.values()), (1,))
    return numpy.broadcast_to((_evaluated(goal, results) != 0) | ~numpy.asarray(met), shape)


def _grid(variables: Sequence[Integer]) -> Iterator[dict[Integer, Points]]:
    """All values of variables, so many at once."""
    counts = [v.high - v.low + 1 for v in variables]
    total = prod(counts)
    for first in range(0, total, POINTS_AT_ONCE):
        rest = numpy.arange(first, min(first + POINTS_AT_ONCE, total), dtype=numpy.int64)
        values = dict[Integer, Points]()
        for variable, count in zip(variables, counts, strict=True):
            rest, own = numpy.divmod(rest, count)
            values[variable] = own + variable.low
        yield values


def _samples(variables: Sequence[Integer]) -> dict[Integer, Points]:
    """Some values of variables: half of them at the ends of their ranges, always the same."""
    generator = numpy.random.default_rng(0)
    values = dict[Integer, Points]()
    for variable in variables:
        inner = generator.integers(variable.low, variable.high, SAMPLES, endpoint=True)
        ends = generator.choice((variable.low, variable.high), SAMPLES)
        values[variable] = numpy.where(generator.random(SAMPLES) < 0.5, ends, inner)
    return values


def _evaluated(term: Integer, results: dict[Integer, Any]) -> NDArray[Any]:
    """The values of a term, remembered in `results`; truth values are numbers here, too."""
    for part in subterms((term,)):
        if part not in results:
            if part.kind == "number":
                results[part] = numpy.int64(part.low)
            else:
                operands = [results[operand] for operand in part.operands]
                results[part] = numpy.asarray(_FUNCTIONS[part.kind](*operands)).astype("int64")
    values: NDArray[Any] = results[term]
    return values


def _chosen(condition: Points, first: Points, second: Points) -> Points:
    return numpy.where(condition != 0, first, second)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "+": numpy.add,
    "-": numpy.subtract,
    "*": numpy.multiply,
    "//": numpy.floor_divide,
    "%": numpy.remainder,
    "min": numpy.minimum,
    "max": numpy.maximum,
    "<": numpy.less,
    "<=": numpy.less_equal,
    "==": numpy.equal,
    "and": numpy.logical_and,
    "or": numpy.logical_or,
    "not": numpy.logical_not,
    "select": _chosen,
}
