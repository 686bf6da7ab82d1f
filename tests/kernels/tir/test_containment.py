"""Proofs about indices are held against all values of small axes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.kernels.tir import containment
from compiler.kernels.tir.containment import enumerated, judge, proves
from compiler.kernels.tir.memory import Access, Accesses
from compiler.kernels.tir.terms.integers import Integer, KernelTerms, leaves
from compiler.kernels.tir.terms.linear import Linear, Sums, follows

BINARY: Mapping[str, Callable[[int, int], int]] = {
    **{"+": int.__add__, "-": int.__sub__, "*": int.__mul__},
    **{"//": int.__floordiv__, "%": int.__mod__, "min": min, "max": max},
    **{"<": int.__lt__, "<=": int.__le__, "==": int.__eq__, "and": int.__and__, "or": int.__or__},
}
thorough = settings(max_examples=200, deadline=None)


def evaluate(term: Integer, values: Mapping[Integer, int]) -> int:
    """A term by Python's own integers."""
    operands = [evaluate(operand, values) for operand in term.operands]
    match term.kind, operands:
        case (("axis" | "unknown"), []):
            return values[term]
        case "number", []:
            return term.low
        case "not", [a]:
            return int(not a)
        case "select", [condition, a, b]:
            return a if condition else b
        case kind, [a, b]:
            return int(BINARY[kind](a, b))
        case _:
            raise AssertionError(f"{term.kind} has {len(operands)} operands")


def points(terms: Sequence[Integer]) -> list[dict[Integer, int]]:
    """All values of the axes and unknowns in terms."""
    variables = leaves(tuple(terms))
    ranges = [range(v.low, v.high + 1) for v in variables]
    return [dict(zip(variables, point, strict=True)) for point in product(*ranges)]


@st.composite
def questions(draw: st.DrawFn) -> tuple[KernelTerms, Integer, list[Integer]]:
    """An index of a few axes, perhaps of what memory holds, and conditions on them."""
    terms = KernelTerms()
    axes = [terms.axis(name, draw(st.integers(-2, 1)), draw(st.integers(2, 5))) for name in "ijk"]
    if draw(st.booleans()):
        axes.append(terms.unknown(-3, 4, "memory"))

    def grown(depth: int) -> Integer:
        if not depth or draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from([*axes, terms.number(draw(st.integers(-4, 9)))]))
        kind = draw(st.sampled_from(["+", "+", "-", "*", "//", "%", "min", "max", "select"]))
        if kind == "*":
            return terms.apply(kind, grown(depth - 1), terms.number(draw(st.integers(-3, 8))))
        if kind in ("//", "%"):
            return terms.apply(kind, grown(depth - 1), terms.number(draw(st.integers(1, 5))))
        if kind == "select":
            return terms.apply(kind, condition(depth - 1), grown(depth - 1), grown(depth - 1))
        return terms.apply(kind, grown(depth - 1), grown(depth - 1))

    def condition(depth: int) -> Integer:
        kind = draw(st.sampled_from(["<", "<", "<=", "==", "and", "or", "not"]))
        if kind in ("<", "<=", "=="):
            return terms.apply(kind, grown(depth), grown(depth))
        if kind == "not":
            return terms.apply(kind, condition(0))
        return terms.apply(kind, condition(0), condition(0))

    conditions = [condition(1) for _ in range(draw(st.integers(0, 3)))]
    return terms, grown(3), conditions


@thorough
@given(questions())
def test_values_are_within_the_intervals_of_terms(
    question: tuple[KernelTerms, Integer, list[Integer]],
):
    _, index, conditions = question
    for values in points([index, *conditions]):
        for term in (index, *conditions):
            assert term.low <= evaluate(term, values) <= term.high


def is_inside(index: Integer, extent: int, conditions: Sequence[Integer]) -> bool:
    """Whether an index is below an extent wherever all conditions hold."""
    return all(
        0 <= evaluate(index, values) < extent
        for values in points([index, *conditions])
        if all(evaluate(condition, values) for condition in conditions)
    )


def is_reached(index: Integer, conditions: Sequence[Integer]) -> bool:
    """Whether all conditions hold for some values."""
    return any(
        all(evaluate(condition, values) for condition in conditions)
        for values in points([index, *conditions])
    )


@thorough
@given(questions(), st.data())
def test_every_way_to_prove_proves_only_what_holds(
    question: tuple[KernelTerms, Integer, list[Integer]], data: st.DataObject
):
    terms, index, conditions = question
    extent = data.draw(st.integers(1, max(2, index.high + 1)))
    holds = is_inside(index, extent, conditions)
    sums = Sums(terms)
    own = sums.of(index)
    if follows((own.times(-1), own.plus(Linear({}, 1 - extent))), conditions, sums):
        assert holds
    lower = terms.apply("<=", terms.number(0), index)
    goal = terms.apply("and", lower, terms.apply("<", index, terms.number(extent)))
    if proves(goal, conditions):
        assert holds
    answer = enumerated(goal, tuple(conditions))
    if answer is True:
        assert holds
    elif answer:
        assert not holds


@thorough
@given(questions(), st.data())
def test_small_questions_are_decided(
    question: tuple[KernelTerms, Integer, list[Integer]], data: st.DataObject
):
    """Right accesses are proved; wrong ones are met outside, unless memory may decide."""
    terms, index, conditions = question
    assume(is_reached(index, conditions))
    extent = data.draw(st.integers(1, max(2, index.high + 1)))
    access = Access("x", 0, extent, index, tuple(conditions), False)
    verdict = judge(Accesses(terms, [access]))
    if is_inside(index, extent, conditions):
        assert not verdict.undecided
        assert not verdict.outside
    elif any(leaf.kind == "unknown" for leaf in leaves((index, *conditions))):
        assert verdict.undecided or verdict.outside
    else:
        assert verdict.outside


def windowed(terms: KernelTerms, extents: Sequence[int], pad: int, bounded: bool = True) -> Access:
    """The read of a padded 3x3 window: (channel, row, column) of an image."""
    channels, rows, columns = extents
    channel = terms.axis("channel", 0, channels - 1)
    row, column = (
        terms.apply("+", terms.axis(name, 0, n - 1), terms.axis(f"window_{name}", 0, 2))
        for name, n in (("row", rows), ("column", columns))
    )
    plane = terms.apply("*", channel, terms.number(rows * columns))
    line = terms.apply("*", row, terms.number(columns))
    index = terms.apply("+", terms.apply("+", plane, line), column)
    index = terms.apply("-", index, terms.number(pad * (columns + 1)))
    limits = [
        terms.apply(kind, a, b)
        for value, n in ((row, rows), (column, columns))
        for kind, a, b in (
            ("<=", terms.number(pad), value),
            ("<", value, terms.number(n + pad)),
        )
    ]
    return Access(
        "image", 0, channels * rows * columns, index, tuple(limits[:: 1 if bounded else 2]), False
    )


def test_padded_windows_are_proved_by_adding_conditions():
    """However large the image: nothing is enumerated, nor is the solver asked."""
    terms = KernelTerms()
    verdict = judge(Accesses(terms, [windowed(terms, (512, 1000, 1000), 1)]))
    assert (verdict.by_sums, verdict.by_solver, verdict.by_enumeration) == (1, 0, 0)


def test_padded_windows_without_an_upper_bound_are_met_outside():
    terms = KernelTerms()
    verdict = judge(Accesses(terms, [windowed(terms, (4, 9, 9), 1, bounded=False)]))
    assert "reads element" in verdict.outside[0]
    assert "of image, which has 324" in verdict.outside[0]


def test_accesses_that_differ_by_a_constant_are_one_question(monkeypatch: pytest.MonkeyPatch):
    asked: list[Integer] = []

    def nothing(*_: object) -> bool:
        return False

    def answer(goal: Integer, conditions: Sequence[Integer]) -> bool:
        asked.append(goal)
        return True

    monkeypatch.setattr(containment, "proves", answer)
    monkeypatch.setattr(containment, "follows", nothing)
    terms = KernelTerms()
    first = windowed(terms, (4, 9, 9), 1)
    others = [
        replace(first, index=terms.apply("+", first.index, terms.number(n))) for n in range(20)
    ]
    assert judge(Accesses(terms, others)).by_solver == 20
    assert len(asked) == 1


def test_indices_of_memory_are_bounded_by_their_clamp():
    terms = KernelTerms()
    number = terms.unknown(-(1 << 63), (1 << 63) - 1, "indices")
    clamped = terms.apply("max", terms.apply("min", number, terms.number(9)), terms.number(0))
    row = terms.apply("+", terms.apply("*", clamped, terms.number(64)), terms.axis("i", 0, 63))
    assert not judge(Accesses(terms, [Access("x", 0, 640, row, (), False)])).undecided
    verdict = judge(Accesses(terms, [Access("x", 0, 10, number, (), False)]))
    assert "indices in [" in verdict.undecided[0]


def test_reversed_rows_are_proved_by_the_solver():
    """An index of memory under a condition on it, as ReverseSequence has it."""
    terms = KernelTerms()
    number = terms.unknown(-(1 << 63), (1 << 63) - 1, "lengths")
    length = terms.apply("max", terms.apply("min", number, terms.number(9)), terms.number(0))
    step = terms.axis("step", 0, 8)
    back = terms.apply("-", terms.apply("-", length, step), terms.number(1))
    index = terms.apply("select", terms.apply("<", step, length), back, step)
    verdict = judge(Accesses(terms, [Access("x", 0, 9, index, (), False)]))
    assert verdict.by_solver == 1
