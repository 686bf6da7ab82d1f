"""Extents of a kernel's tensors as TVM sees them: numbers, or expressions over int32 variables.

A kernel of a group with symbols is built with `SizeExpression`s in its shapes. They are extents of
`tensors.extents`, and take part in arithmetic with TVM's expressions too, so that lowerings and
templates need not know which of both a shape has. What they compare must hold for all sizes.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from typing import Any

from tvm import tirx
from tvm.ir import Expr, PrimType, Var
from tvm.sym import Analyzer
from tvm_ffi import register_error

from compiler.kernels.group import Group, takes_symbols
from compiler.tensors.arithmetic import maximum, minimum
from compiler.tensors.extents import (
    DECIDING,
    Atom,
    Expression,
    Extent,
    Maximum,
    Monomial,
    NotForAllSizes,
    Quotient,
    Undecided,
    at_hints,
    extent_of,
)
from compiler.tensors.inequalities import at_least_zero
from compiler.tensors.symbols import Symbol

RUN_ATTRIBUTE = "run"
"""The annotation of a parallel loop over symbols: how many turns are one block."""

_SYMBOLS: dict[Var, Symbol] = {}
"""The symbol of each variable that stands for one."""


@cache
def variable_of(symbol: Symbol) -> Var:
    """The variable that stands for a symbol, in all kernels."""
    own = Var(symbol.name, PrimType("int32"))
    _SYMBOLS[own] = symbol
    return own


def symbol_of(variable: Var) -> Symbol | None:
    """The symbol that a variable stands for, if it does."""
    return _SYMBOLS.get(variable)


class SizeExpression(Expression):
    """An extent over symbols, which is also an operand of TVM's expressions."""

    __slots__ = ()

    def __tvm_ffi_object__(self) -> Expr:
        """The expression that TVM takes in its place."""
        return _expression_of(self.terms)

    def __add__(self, other: Any) -> Any:
        return self._with(other, Expression.__add__, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._with(other, Expression.__radd__, lambda a, b: b + a)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, Expression.__sub__, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, Expression.__rsub__, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, Expression.__mul__, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        return self._with(other, Expression.__rmul__, lambda a, b: b * a)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, Expression.__floordiv__, tirx.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, Expression.__rfloordiv__, lambda a, b: tirx.floordiv(b, a))

    def __mod__(self, other: Any) -> Any:
        return self._with(other, Expression.__mod__, tirx.floormod)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, Expression.__rmod__, lambda a, b: tirx.floormod(b, a))

    def __neg__(self) -> Any:
        return as_size(Expression.__neg__(self))

    def __eq__(self, other: object) -> bool:
        """Whether two extents are equal for all sizes.

        An axis that has one element, or none, for some sizes only has more, if the example's has:
        `is_pinned` sees to what broadcasts.
        """
        if isinstance(other, Expression):
            return self.terms == other.terms
        if other not in (0, 1):
            return False
        return Expression.__eq__(self, other) if at_hints(self) == other else False

    __hash__ = Expression.__hash__

    def __bool__(self) -> bool:
        """Whether there is any element, as in the example."""
        return not self == 0

    def __lt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: not _at_least(a, b), tirx.LT)

    def __le__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: _at_least(b, a), tirx.LE)

    def __gt__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: not _at_least(b, a), tirx.GT)

    def __ge__(self, other: Any) -> Any:
        return self._with(other, _at_least, tirx.GE)

    def _with(
        self,
        other: Any,
        exact: Callable[["SizeExpression", Any], Any],
        computed: Callable[[Any, Any], Any],
    ) -> Any:
        """An operator's result: of extents an extent or a truth value, else TVM's expression."""
        if isinstance(other, int | Expression):
            return as_size(exact(self, other))
        if isinstance(other, Expr):
            return computed(_expression_of(self.terms), other)
        return NotImplemented


def _at_least(extent: Extent, other: Extent) -> bool:
    """Whether an extent is at least another one; raises Undecided if for some sizes only."""
    difference = extent - other
    above = at_least_zero(difference)
    if above is None:
        raise Undecided(f"{difference} >= 0 holds for some sizes only")
    return above


def as_size(value: Any) -> Any:
    """An extent as a `SizeExpression`; what is a number or a truth value stays."""
    if isinstance(value, Expression) and not isinstance(value, SizeExpression):
        return SizeExpression(value.terms)
    return value


def expression(extent: Any) -> Any:
    """An extent or an index as TVM's expression."""
    if isinstance(extent, int):
        return tirx.const(extent, "int32")
    return _expression_of(extent.terms) if isinstance(extent, Expression) else extent


@cache
def _expression_of(terms: frozenset[tuple[Monomial, int]]) -> Expr:
    ordered = sorted(terms, key=lambda term: (len(term[0]), [*map(str, term[0])]), reverse=True)
    every = [(factor, _flipped(monomial, factor), monomial) for monomial, factor in ordered]
    positive = [
        _term(monomial, factor) if least is None else least
        for factor, least, monomial in every
        if factor > 0 or least is not None
    ]
    negative = [_term(own, -factor) for factor, least, own in every if factor < 0 and least is None]
    total = reduce(lambda a, b: a + b, positive) if positive else tirx.const(0, "int32")
    return reduce(lambda a, b: a - b, negative, total)


def _flipped(monomial: Monomial, factor: int) -> Any:
    """A negative multiple of a maximum as that of the minimum of what is negated; else None."""
    at = next((i for i, atom in enumerate(monomial) if isinstance(atom, Maximum)), None)
    if factor > 0 or at is None:
        return None
    largest = monomial[at]
    others = (*monomial[:at], *monomial[at + 1 :])
    assert isinstance(largest, Maximum)
    least = reduce(tirx.min, (expression(as_size(-extent)) for extent in largest.extents))
    return least if (others, factor) == ((), -1) else _term(others, -factor) * least


def _term(monomial: Monomial, factor: int) -> Any:
    if not monomial:
        return tirx.const(factor, "int32")
    atoms = [_atom(atom) for atom in monomial]
    return reduce(lambda a, b: a * b, atoms if factor == 1 else [*atoms, factor])


def _atom(atom: Atom) -> Any:
    if isinstance(atom, Symbol):
        return variable_of(atom)
    if isinstance(atom, Quotient):
        return tirx.floordiv(expression(atom.numerator), expression(atom.denominator))
    assert isinstance(atom, Maximum)
    return reduce(tirx.max, map(expression, atom.extents))


def extent_from(value: Any) -> Any:
    """The extent that an expression of TVM over symbols is; raises NotForAllSizes if it is none."""
    if isinstance(value, int):
        return value
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, Expression):
        return as_size(value)
    symbol = symbol_of(value) if isinstance(value, Var) else None
    if symbol is not None:
        return as_size(extent_of(symbol))
    if isinstance(value, tirx.Select):  # TVM leaves conditions of constants in extents
        simplified: Any = Analyzer().simplify(value)
        if not isinstance(simplified, tirx.Select):
            return extent_from(simplified)
    binary: Any = value
    kind = _OPERATORS.get(binary.__class__)
    if kind is None:
        raise NotForAllSizes(f"{value} is not an extent over symbols")
    return as_size(EXTENT_OPERATORS[kind](extent_from(binary.a), extent_from(binary.b)))


EXTENT_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": minimum,
    "max": maximum,
}
"""The operators that extents have."""

_OPERATORS: Mapping[Any, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
    tirx.Max: "max",
    tirx.Min: "min",
}


def extent_constant(extent: Any, dtype: str) -> Any:
    """An extent as a constant, or an expression, of a dtype."""
    if isinstance(extent, int):
        return tirx.const(extent, dtype)
    return expression(extent).astype(dtype)


def tensor_extents(tensor: Any) -> tuple[Any, ...]:
    """The shape of a tensor or a buffer of TVM, as extents."""
    return tuple(map(extent_from, tensor.shape))


def is_long(extent: Extent) -> bool:
    """Whether an axis has more than one element, for some sizes at least."""
    return not is_number(extent) or extent > 1


def is_pinned(extent: Any, result: Any) -> bool:
    """Whether the only element of an axis is read for all elements of a result's axis.

    Raises Undecided if that is so for some sizes only.
    """
    if is_number(extent) or extent == result:
        return bool(extent == 1) if is_number(extent) else False
    return Expression.__eq__(extent, 1)


def may_exceed(extent: Any, other: Any) -> bool:
    """Whether an extent is more than another one for some sizes, as far as can be seen."""
    difference = other - extent
    return difference < 0 if is_number(difference) else not at_least_zero(difference)


def is_number(extent: Any) -> bool:
    """Whether an extent is the same for all sizes."""
    return isinstance(extent, int)


def is_sum(extent: Any) -> bool:
    """Whether an extent over symbols has several terms."""
    return isinstance(extent, Expression) and len(extent.terms) > 1


def at_hint(extent: Any) -> int:
    """The number that an extent is for the example sizes, for costs alone."""
    return extent if isinstance(extent, int) else at_hints(extent)


def hinted(group: Group) -> Group:
    """A group for the example sizes, for costs alone."""
    return group.mapped(at_hints)


def sized(group: Group) -> Group:
    """A group whose shapes and attributes have sizes where they have expressions."""
    return group.mapped(as_size)


# A rewriting of TVM's raises what a function of ours raised in it as the class of this name.
register_error(NotForAllSizes.__name__, NotForAllSizes)
register_error(Undecided.__name__, Undecided)


@contextmanager
def for_all_sizes(group: Group, gpu: bool = False) -> Generator[None]:
    """Assume nothing about sizes: raises NotForAllSizes for what is only so for some.

    So it does for operators whose kernels, on a CPU or a `gpu`, need numbers.
    """
    for operator in group.operators:
        if not takes_symbols(operator.type, gpu):
            raise NotForAllSizes(f"no symbolic kernel: {operator.label} needs sizes as numbers")
    token = DECIDING.set(None)
    try:
        yield
    finally:
        DECIDING.reset(token)
