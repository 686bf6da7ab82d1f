"""Rule for Einsum: letters of one operand are summed first, and operands contracted two by two."""

from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_letters

import numpy as np

from compiler.frontend.graph import Value
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.net.attributes import Mismatch
from compiler.net.operators import OPERATORS, ShapeMismatch
from compiler.net.operators.einsum import einsum_shape, einsum_terms

EXHAUSTIVE = 5
"""The most operands of which all orders are compared."""

Contracted = tuple[tuple[int, ...], str]
"""The operands of an Einsum, whose result comes after the other operands, and its equation."""


@rule("Einsum")
def rewrite_einsum(call: Call) -> list[Value]:
    """As several Einsums if these multiply less, in float32 for floats of 16 bits."""
    values = call.operands
    shapes, dtype = [value.shape for value in values], call.data.dtype
    try:
        einsum_shape(call.attributes["equation"], shapes)
        steps = einsum_steps(call.attributes["equation"], shapes)
    except (Mismatch, ShapeMismatch):
        return call.emit()  # which says what is wrong with it
    if not steps and dtype in OPERATORS["Einsum"].dtypes(0):
        return call.emit()
    values = [in_float32(call, value) for value in values]
    if not steps:
        return [in_type(call, call.emit([*values])[0], dtype)]
    for operands, equation in steps:
        result = call.one("Einsum", *[values[i] for i in operands], equation=equation)
        values = [*(v for i, v in enumerate(values) if i not in operands), result]
    return [in_type(call, values[0], dtype)]


def einsum_steps(equation: str, shapes: Sequence[tuple[int, ...]]) -> list[Contracted]:
    """The Einsums that together compute one; none if they multiply no less than it does."""
    labels, result = einsum_terms(equation, [len(shape) for shape in shapes])
    names = dict(zip(dict.fromkeys("".join(labels)), ascii_letters, strict=False))
    if set(names) < set("".join(labels)):
        return []
    terms = ["".join(names[label] for label in term) for term in labels]
    result = "".join(names[label] for label in result)
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, extent in zip(term, shape, strict=True):
            extents[letter] = extents.get(letter, 1) if extent == 1 else extent
    steps = _summed_first(terms, result)
    sizes = [tuple(extents[letter] for letter in term) for term in terms]
    arrays = [np.broadcast_to(np.float32(0), size) for size in sizes]
    search = "optimal" if len(terms) <= EXHAUSTIVE else "greedy"
    (_, *path), _ = np.einsum_path(f"{','.join(terms)}->{result}", *arrays, optimize=search)
    steps += [_contracted(terms, operands, result) for operands in path]
    total = sum(_multiplications(equation, extents) for _, equation in steps)
    return steps if total < prod(extents.values()) else []


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
