"""Decisions about integers and reals under hypotheses, by z3."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import z3

from tests.rewrite.rules.divisions import Definitions, Formula, Index

EFFORT = 50_000_000
"""The most steps of z3 for one question: not a time, which would depend on the machine.

Each proof has its own context, so that those before it change nothing.
"""
MODELS = 4
"""How many examples of what is possible are kept: each may answer the next question."""


class Unproved(Exception):
    """A proof fails; the message says where."""


class Unknown(Unproved):
    """The solver does not know an answer."""


class Reasoner:
    """Known formulas, and answers that they imply."""

    def __init__(self) -> None:
        self._context = z3.Context()
        self.known: list[Formula] = []
        self._identities: list[int] = []
        self.questions = 0
        self._fresh = count()
        self._answers: dict[tuple[int, ...], bool] = {}
        self._kept: list[Any] = []
        """Formulas whose identities are in use: z3 gives those of freed ones to others."""
        self.definitions = Definitions()
        self._quotients: list[tuple[Index, Index, Index]] = []
        self._candidates: list[Index] = []
        self._models: list[z3.ModelRef] = []

    def fresh(self, name: str) -> Any:
        """A new integer."""
        return z3.Int(f"{name}{next(self._fresh)}")

    def assume(self, *formulas: Formula) -> None:
        """Take formulas as known from now on."""
        new = [f for f in formulas if not z3.is_true(f)]
        self.known += new
        self._identities += [f.get_id() for f in new]
        self._kept += new

    @contextmanager
    def assuming(self, formulas: Sequence[Formula]) -> Generator[None]:
        """Take formulas as known for a while."""
        length = len(self.known)
        self.assume(*formulas)
        try:
            yield
        finally:
            del self.known[length:], self._identities[length:]

    def follows(self, formula: Formula) -> bool:
        """Whether a formula holds wherever the known ones do; False also if unknown."""
        if isinstance(formula, bool):
            return formula
        if formula.get_id() in self._identities:
            return True
        try:
            return not self.possible([z3.Not(formula)])
        except Unknown:
            return False

    def possible(self, formulas: Sequence[Formula]) -> bool:
        """Whether formulas can hold together with the known ones."""
        simple = [f for f in map(z3.simplify, formulas) if not z3.is_true(f)]
        if any(z3.is_false(f) for f in simple):
            return False
        key = (*self._identities, *(f.get_id() for f in simple))
        if key not in self._answers:
            self._kept += simple
            self._answers[key] = self._ask([*self.known, *simple])
        return self._answers[key]

    def _ask(self, formulas: list[Formula]) -> bool:
        everything = conjunction([*formulas, *self.definitions.facts(formulas)])
        if any(z3.is_true(model.eval(everything, model_completion=True)) for model in self._models):
            return True
        self.questions += 1
        solver = z3.Solver(ctx=self._context)
        solver.set("rlimit", EFFORT)
        solver.add(everything.translate(self._context))
        answer = solver.check()
        if answer == z3.unknown:
            raise Unknown(f"z3 does not know whether {formulas[-1]} is possible")
        if answer == z3.sat:
            self._models = [solver.model().translate(z3.main_ctx()), *self._models[: MODELS - 1]]
        return answer == z3.sat

    def divide_exactly(self, number: Index, divisor: Index) -> Index:
        """The quotient of a number that is assumed to be a multiple of the divisor.

        Two quotients are equal if the ratios are.
        """
        each = self.fresh("each")
        self.assume(each * divisor == number, each >= 1)
        for other, other_divisor, other_number in self._quotients:
            same = number * other_divisor == other_number * divisor
            self.assume(z3.Implies(same, each == other))
        self._quotients.append((each, divisor, number))
        return each

    def settle(self, candidates: Sequence[Index]) -> None:
        """Take some numbers as likely quotients, and take quotients that equal them as known."""
        self._candidates = [1, *candidates, *(each for each, _, _ in self._quotients)]
        for each, divisor, number in self._quotients:
            for value in (1, *candidates):
                if self.same(value * divisor, number):
                    self.assume(each == value)

    def known_quotient(self, number: Index, divisor: Index) -> Index | None:
        """A candidate that times the divisor is the number."""
        for value in self._candidates:
            if self.same(value * divisor, number):
                return value
        return None

    def same(self, left: Index, right: Index) -> bool:
        """Whether two integers are equal."""
        if isinstance(left, int) and isinstance(right, int):
            return left == right
        difference = z3.simplify(left - right)
        return is_zero(difference) or self.follows(difference == 0)


def conjunction(formulas: Sequence[Formula]) -> Formula:
    """All of some formulas, without the conversions of `z3.And`, which cost more than z3."""
    items = (z3.Ast * len(formulas))(*(f.as_ast() for f in formulas))
    context = z3.main_ctx()
    return z3.BoolRef(z3.Z3_mk_and(context.ref(), len(formulas), items), context)


def is_zero(term: Any) -> bool:
    """Whether a term is the numeral 0."""
    return z3.is_int_value(term) and term.as_long() == 0
