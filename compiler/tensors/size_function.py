"""Many extents as one function of sizes, in which each part of them is computed once."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from compiler.tensors.extents import Atom, Expression, Extent, Maximum, Quotient
from compiler.tensors.symbols import Symbol


class SizeFunction:
    """A function from the sizes of symbols, in order, to numbers: a Python text that was compiled.

    Pickled, it is the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        namespace: dict[str, Any] = {}
        exec(compile(text, "<extents of a schedule>", "exec"), namespace)
        self._numbers: Callable[..., tuple[int, ...]] = namespace["numbers"]

    def __reduce__(self) -> tuple[type["SizeFunction"], tuple[str]]:
        return SizeFunction, (self.text,)

    def __call__(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """The numbers for these sizes."""
        return self._numbers(*sizes)


class SizeFunctionBuilder:
    """Collects extents over symbols, by name; the function then gives their numbers by position."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self._arguments = [f"size{index}" for index in range(len(symbols))]
        self._variables: dict[object, str] = dict(zip(symbols, self._arguments, strict=True))
        self._lines: list[str] = []
        self._results: dict[str, int] = {}

    def position(self, extent: Extent) -> int:
        """The position of an extent's number; raises KeyError for a symbol without a value."""
        return self._results.setdefault(self._text(extent), len(self._results))

    def define(self, symbol: Symbol, lows: Iterable[Extent]) -> None:
        """Let a symbol stand for the largest of some extents, at least 0."""
        texts = dict.fromkeys(["0", *map(self._text, lows)])
        text = f"max({', '.join(texts)})" if len(texts) > 1 else "0"
        self._variables[symbol.name] = self._variable(text)

    def function(self) -> SizeFunction:
        """The function, whose result has the number of each extent at its position."""
        body = "".join(f"    {line}\n" for line in self._lines)
        results = "".join(f"{text}, " for text in self._results)
        return SizeFunction(
            f"def numbers({', '.join(self._arguments)}):\n{body}    return ({results})\n"
        )

    def _text(self, extent: Extent) -> str:
        """A number, or the variable of an extent."""
        if not isinstance(extent, Expression):
            return str(int(extent))
        if extent.terms not in self._variables:
            ordered = sorted(extent.terms, key=str)
            terms = ["*".join([str(n), *map(self._factor, atoms)]) for atoms, n in ordered]
            self._variables[extent.terms] = self._variable(" + ".join(terms))
        return self._variables[extent.terms]

    def _factor(self, atom: Atom) -> str:
        """The variable of an atom."""
        key = atom.name if isinstance(atom, Symbol) else atom
        if key not in self._variables:
            match atom:
                case Quotient():
                    numerator, denominator = (
                        self._text(atom.numerator),
                        self._text(atom.denominator),
                    )
                    self._variables[key] = self._variable(f"{numerator} // {denominator}")
                case Maximum():
                    largest = f"max({', '.join(map(self._text, atom.extents))})"
                    self._variables[key] = self._variable(largest)
                case Symbol():
                    raise KeyError(atom.name)
        return self._variables[key]

    def _variable(self, text: str) -> str:
        """A new variable of this value."""
        name = f"n{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return name
