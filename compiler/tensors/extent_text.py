"""Extents as texts, such as `3*n + (m + 7)//8`, for files."""

import ast
from collections.abc import Mapping
from dataclasses import replace

from compiler.tensors.arithmetic import maximum
from compiler.tensors.extents import Expression, Extent, Undecided, extent_of, symbols_of
from compiler.tensors.substitution import substituted
from compiler.tensors.symbols import Symbol


def with_identifiers(extent: Extent, identifiers: Mapping[str, str]) -> Extent:
    """An extent over symbols that have identifiers, by their names, for names."""
    renamed = {s: extent_of(replace(s, name=identifiers[s.name])) for s in symbols_of(extent)}
    return substituted(extent, renamed)


def extent_to_text(extent: Extent, identifiers: Mapping[str, str]) -> int | str:
    """A number, or the text of an extent in which symbols have identifiers for names."""
    if not isinstance(extent, Expression):
        return extent
    return str(with_identifiers(extent, identifiers))


def extent_from_text(text: str, symbols: Mapping[str, Symbol]) -> Extent:
    """The extent whose text, by `str`, this is.

    Raises ValueError for any other text, and for a symbol that is not among `symbols`.
    """
    try:
        return _extent(ast.parse(text.strip(), mode="eval").body, symbols)
    except (SyntaxError, KeyError, ZeroDivisionError, RecursionError, Undecided) as error:
        raise ValueError(f"{text!r} is not an extent over {', '.join(symbols)}") from error


def _extent(node: ast.expr, symbols: Mapping[str, Symbol]) -> Extent:
    match node:
        case ast.Constant(value=int(number)) if type(number) is int:
            return number
        case ast.Name(id=name):
            return extent_of(symbols[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_extent(operand, symbols)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _extent(left, symbols) + _extent(right, symbols)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _extent(left, symbols) - _extent(right, symbols)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _extent(left, symbols) * _extent(right, symbols)
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return _extent(left, symbols) // _extent(right, symbols)
        case ast.Call(func=ast.Name(id="max"), args=[first, *others]):
            return maximum(_extent(first, symbols), *(_extent(arg, symbols) for arg in others))
        case _:
            raise SyntaxError(ast.unparse(node))
