"""Rule for Einsum: letters of one operand are summed first, and operands contracted two by two."""

from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_letters

import numpy as np

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.net.attributes import Mismatch
from compiler.net.graph import Value
from compiler.net.operators import OPERATORS, ShapeMismatch
from compiler.net.operators.einsum import einsum_shape, einsum_terms
from compiler.tensors.substitution import shape_at_hints

EXHAUSTIVE = 5
"""The most operands of which all orders are compared."""

Contracted = tuple[tuple[int, ...], str]
"""The operands of an Einsum, whose result comes after the other operands, and its equation."""


@rule("Einsum")
def rewrite_einsum(call: Call) -> list[Value]:
    """As several contractions if these multiply less, in float32 for floats of 16 bits.

    A contraction of two operands is a MatMul, or a Mul if it has no sums, where one can be.
    """
    values = call.operands
    shapes = [value.shape for value in values]
    dtype = call.data.dtype
    try:
        einsum_shape(call.attributes["equation"], shapes)
        steps = einsum_steps(call.attributes["equation"], shapes)
    except (Mismatch, ShapeMismatch):
        return call.emit()  # which says what is wrong with it
    if not steps and dtype in OPERATORS["Einsum"].dtypes(0):
        terms, result = einsum_terms(call.attributes["equation"], [x.rank for x in values])
        pair = _pair(call, values, terms, result)
        return call.emit() if pair is None else [pair]
    values = [in_float32(call, value) for value in values]
    if not steps:
        return [in_type(call, call.emit([*values])[0], dtype)]
    for operands, equation in steps:
        own = [values[i] for i in operands]
        terms, _, kept = equation.partition("->")
        result = _pair(call, own, terms.split(","), kept)
        if result is None:
            result = call.one("Einsum", *own, equation=equation)
        values = [*(v for i, v in enumerate(values) if i not in operands), result]
    return [in_type(call, values[0], dtype)]


def _pair(call: Call, values: list[Value], terms: list[str], result: str) -> Value | None:
    """Two operands as a MatMul or a Mul; None for other Einsums.

    Einsum's kernel is as fast for a vector and matrices, and reads them as they are.
    """
    if len(values) != 2 or any(len(set(term)) < len(term) for term in terms):
        return None
    sizes = [dict(zip(term, x.shape, strict=True)) for term, x in zip(terms, values, strict=True)]
    shared = [x for x in terms[0] if x in terms[1]]
    summed = [x for x in shared if x not in result]
    if set("".join(terms)) - set(result) - set(summed) or 0 in map(prod, (v.shape for v in values)):
        return None
    if not summed and values[0].dtype in OPERATORS["Mul"].dtypes(0):
        return call.one(
            "Mul", *(_aligned(call, x, term, result) for x, term in zip(values, terms, strict=True))
        )
    batch = [x for x in result if x in shared]
    own = [[x for x in result if x in term and x not in shared] for term in terms]
    unequal = any(sizes[0][x] != sizes[1][x] for x in summed)
    if unequal or not all(own) or values[0].dtype not in OPERATORS["MatMul"].dtypes(0):
        return None
    left, right = (1, 0) if result[-1] in own[0] else (0, 1)
    rows = own[left]
    columns = own[right]
    each = [[x] for x in batch]
    # a known operand is reordered at compile time, so the other one's order is kept
    summed.sort(key=terms[left if values[left].array is None else right].index)
    # without a batch each letter of rows keeps its axis, as in a layer that exporters write
    row_axes = [rows] if batch else [[x] for x in rows]
    a = _grouped(call, values[left], terms[left], [*each, *row_axes, summed])
    b = _grouped(call, values[right], terms[right], [*each, summed, columns])
    letters = [*batch, *rows, *columns]
    extents = [next((n[x] for n in sizes if x in n and n[x] != 1), 1) for x in letters]
    multiplied = _in_shape(call, call.one("MatMul", a, b), extents)
    return _ordered(call, multiplied, letters, result)


def _in_shape(call: Call, value: Value, shape: Sequence[int]) -> Value:
    """A value in a shape."""
    return value if list(value.shape) == list(shape) else call.reshaped(value, shape)


def _ordered(call: Call, value: Value, letters: Sequence[str], order: Sequence[str]) -> Value:
    """A value with its axes in another order of their letters."""
    perm = [letters.index(x) for x in order]
    return value if perm == sorted(perm) else call.one("Transpose", value, perm=perm)


def _grouped(call: Call, value: Value, term: str, groups: Sequence[Sequence[str]]) -> Value:
    """A value with one axis for each group of its letters."""
    size = dict(zip(term, value.shape, strict=True))
    moved = _ordered(call, value, term, [x for group in groups for x in group])
    return _in_shape(call, moved, [prod(size[x] for x in group) for group in groups])


def _aligned(call: Call, value: Value, term: str, result: str) -> Value:
    """A value with an axis for each letter of the result, of size 1 for those that are missing."""
    size = dict(zip(term, value.shape, strict=True))
    moved = _ordered(call, value, term, [x for x in result if x in term])
    return _in_shape(call, moved, [size.get(x, 1) for x in result])


def einsum_steps(equation: str, shapes: Sequence[tuple[int, ...]]) -> list[Contracted]:
    """The Einsums that together compute one; none if they multiply no less than it does.

    Each term of a sum is a multiplication less than the operands are. Where a run decides sizes
    the order is that for the example's, and right for all.
    """
    labels, result = einsum_terms(equation, [len(shape) for shape in shapes])
    names = dict(zip(dict.fromkeys("".join(labels)), ascii_letters, strict=False))
    if set(names) < set("".join(labels)):
        return []
    terms = ["".join(names[label] for label in term) for term in labels]
    result = "".join(names[label] for label in result)
    extents: dict[str, int] = {}
    for term, shape in zip(terms, map(shape_at_hints, shapes), strict=True):
        for letter, extent in zip(term, shape, strict=True):
            extents[letter] = extents.get(letter, 1) if extent == 1 else extent
    steps = _summed_first(terms, result)
    sizes = [tuple(extents[letter] for letter in term) for term in terms]
    arrays = [np.broadcast_to(np.float32(0), size) for size in sizes]
    search = "optimal" if len(terms) <= EXHAUSTIVE else "greedy"
    (_, *path), _ = np.einsum_path(f"{','.join(terms)}->{result}", *arrays, optimize=search)
    steps += [_contracted(terms, operands, result) for operands in path]
    total = sum(_multiplications(equation, extents) for _, equation in steps)
    alone = max(1, len(shapes) - 1) * prod(extents.values())
    return steps if total < alone else []


def _multiplications(equation: str, extents: Mapping[str, int]) -> int:
    """The multiplications of an Einsum: one for each value of all letters."""
    return prod(extents[letter] for letter in set(equation) if letter in extents)


def _contracted(terms: list[str], operands: tuple[int, ...], result: str) -> Contracted:
    """The Einsum of some operands, whose result replaces them after the other terms."""
    own = [terms[i] for i in operands]
    terms[:] = [term for i, term in enumerate(terms) if i not in operands]
    needed = set("".join(terms) + result)
    kept = "".join(dict.fromkeys(x for x in "".join(own) if x in needed)) if terms else result
    terms.append(kept)
    return operands, f"{','.join(own)}->{kept}"


def _summed_first(terms: list[str], result: str) -> list[Contracted]:
    """The Einsums that sum what only one of several operands has, which `terms` has no longer."""

    def has_own(i: int) -> bool:
        others = "".join(term for j, term in enumerate(terms) if j != i)
        return len(terms) > 1 and not set(terms[i]) <= set(others + result)

    steps: list[Contracted] = []
    while (own := next((i for i in range(len(terms)) if has_own(i)), None)) is not None:
        steps.append(_contracted(terms, (own,), result))
    return steps
