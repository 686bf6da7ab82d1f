"""The integers of a kernel that sizes decide, as the reader of its accesses meets them."""

from compiler.kernels.sizes import is_number
from compiler.kernels.tir.terms.bounds import ExactTerms, SizedBounds
from compiler.kernels.tir.terms.integers import (
    TYPE_LIMITS,
    Integer,
    IntegerRange,
    KernelTerms,
    leaves,
)
from compiler.kernels.tir.terms.linear import Sums
from compiler.tensors.extents import Extent, extent_of
from compiler.tensors.symbols import Symbol


class SizedTerms:
    """The terms of a kernel's symbols, which are added to `sizes`; none without symbols."""

    def __init__(self, terms: KernelTerms, sizes: dict[Integer, Extent]):
        self._terms = terms
        self._sizes = sizes

    def add(self, symbol: Symbol) -> Integer:
        """The term of a symbol, which is any of its values."""
        most = TYPE_LIMITS["int32"][1] if symbol.high is None else symbol.high
        term = self._terms.axis(symbol.name, symbol.low, most)
        self._sizes[term] = extent_of(symbol)
        return term

    def end(self, first: Integer, length: Integer) -> Integer:
        """The end of a run of a length, which may be what is left up to some end."""
        apply = self._terms.apply
        if self._sizes and length.kind == "-" and length.operands[1] is first:
            return length.operands[0]
        if self._sizes and length.kind == "min":
            return apply("min", *(self.end(first, own) for own in length.operands))
        return apply("+", first, length)

    def extent(self, term: Integer) -> Extent:
        """The extent that a term is, or the largest that it may be."""
        exact = ExactTerms(self._sizes, Sums(self._terms)).of(term) if self._sizes else None
        return term.high if exact is None else exact

    def is_extent(
        self, term: Integer, limits: IntegerRange, conditions: tuple[Integer, ...]
    ) -> bool:
        """Whether a term is one of sizes and loops alone, or between 0 and such a one.

        It does not wrap around then, as no tensor has more elements than an int32 counts: a
        schedule is made for sizes for which that holds.
        """
        if not self._sizes:
            return False
        own = leaves((term,))
        if own and all(leaf.kind == "axis" for leaf in own):
            return True
        known = SizedBounds(ExactTerms(self._sizes, Sums(self._terms)), conditions)
        return term.low >= limits[0] and any(not is_number(bound) for bound in known.upper(term))
