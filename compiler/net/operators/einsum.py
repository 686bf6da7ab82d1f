"""The shape and the labels of an Einsum, from its equation."""

from collections.abc import Sequence
from math import prod

from compiler.net.attributes import Mismatch, Shape
from compiler.net.node import ShapeMismatch
from compiler.net.operators.shapes import broadcast, listed

_DOTS = "..."


def _split(term: str, equation: str) -> tuple[str, str, bool]:
    """The letters before and after the ellipsis of a term, and whether it has one."""
    head, dots, tail = term.partition(_DOTS)
    letters = head + tail
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise Mismatch(f"the term {term!r} of its equation {equation!r} has more than letters")
    return head, tail, bool(dots)


class _Letters:
    """The extent of every letter, and the extents of the ellipsis, None before one is read."""

    def __init__(self, equation: str):
        self.equation = equation
        self.extents: dict[str, int] = {}
        self.dots: Shape | None = None

    def read(self, term: str, shape: Shape) -> None:
        """Bind the letters of an input's term."""
        head, tail, dots = _split(term, self.equation)
        rest = len(shape) - len(head) - len(tail)
        if rest < 0 or (rest > 0 and not dots):
            raise ShapeMismatch(
                f"the term {term!r} of its equation {self.equation!r} does not fit the input of"
                f" shape {listed(shape)}"
            )
        if dots:
            between = shape[len(head) : len(head) + rest]
            # ONNX: every occurrence of an ellipsis represents the same number of dimensions
            if self.dots is not None and len(self.dots) != rest:
                raise ShapeMismatch(
                    f"the ellipsis of its equation {self.equation!r} stands for {len(self.dots)}"
                    f" axes in one input and for {rest} in another"
                )
            self.dots = between if self.dots is None else broadcast(self.dots, between)
        sizes = (*shape[: len(head)], *shape[len(head) + rest :])
        own: dict[str, int] = {}
        for letter, size in zip(head + tail, sizes, strict=True):
            if own.setdefault(letter, size) != size:
                raise ShapeMismatch(
                    f"the term {term!r} of its equation {self.equation!r} takes a diagonal of the"
                    f" input of shape {listed(shape)}, which has axes of {own[letter]} and {size}"
                )
            self._bind(letter, size)

    def _bind(self, letter: str, size: int) -> None:
        known = self.extents.setdefault(letter, size)
        if known == 1:
            self.extents[letter] = size
        elif size not in (1, known):
            raise ShapeMismatch(
                f"the letter {letter!r} of its equation {self.equation!r} is {known} in one input"
                f" and {size} in another"
            )


def einsum_products(equation: str, shapes: Sequence[Shape]) -> int:
    """The terms of all sums of an Einsum that fits its inputs: one for each value of all letters.

    A letter that is 1 in some inputs has its other extent.
    """
    letters = _Letters(equation)
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    for term, shape in zip(terms, shapes, strict=True):
        letters.read(term, shape)
    return prod(letters.extents.values())


def einsum_shape(equation: str, shapes: Sequence[Shape]) -> Shape:
    """The result's shape; raises Mismatch for a bad equation, ShapeMismatch for other shapes."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    inputs = terms.split(",")
    if len(inputs) != len(shapes):
        raise Mismatch(
            f"its equation {equation!r} is for {len(inputs)} inputs, it has {len(shapes)}"
        )
    letters = _Letters(equation)
    for term, shape in zip(inputs, shapes, strict=True):
        letters.read(term, shape)
    result = result if arrow else _implicit(terms)
    head, tail, dots = _split(result, equation)
    unknown = [letter for letter in head + tail if letter not in letters.extents]
    if unknown or len(set(head + tail)) < len(head + tail):
        raise Mismatch(
            f"the result {result!r} of its equation {equation!r} repeats or adds letters"
        )
    before, after = ([letters.extents[letter] for letter in part] for part in (head, tail))
    return (*before, *(letters.dots or () if dots else ()), *after)


def _implicit(terms: str) -> str:
    """The result of an equation without an arrow: letters that occur once, in order."""
    letters = terms.replace(_DOTS, "").replace(",", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return (_DOTS if _DOTS in terms else "") + "".join(once)


def einsum_terms(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each input and of the result; an ellipsis becomes capital Greek letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    widths = [r - len(t.replace("...", "")) for r, t in zip(ranks, terms, strict=True)]
    broadcast = "".join(chr(0x391 + i) for i in range(max(widths, default=0)))
    full = [
        t.replace("...", broadcast[len(broadcast) - w :])
        for t, w in zip(terms, widths, strict=True)
    ]
    if arrow:
        return full, right.replace("...", broadcast)
    letters = [x for x in "".join(terms) if x != "."]
    once = sorted(x for x in set(letters) if letters.count(x) == 1)
    return full, (broadcast if "..." in left else "") + "".join(once)
