"""The simplest form of a term, which is made in its place; exact, bit for bit, but for -0 + 0.

The binary forms of these are proved with the substitutions.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.net.operators import OPERATORS, facts_of
from compiler.support.registry import Registrar

if TYPE_CHECKING:
    from compiler.graph.rewriting.terms import Term, Terms

Inputs = Sequence["Term | None"]
Simplify = Callable[["Terms", Inputs, Mapping[str, Any]], "Term | None"]

_RULES: dict[str, Simplify] = {}
_simplifies = Registrar(_RULES)


def simplified(
    terms: "Terms", kind: str, inputs: Inputs, attributes: Mapping[str, Hashable]
) -> "Term | None":
    """A term equal to an operator on some inputs; None if there is nothing to simplify."""
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(terms, inputs, attributes)
    entry = OPERATORS.get(kind)
    return None if entry is None else _without_neutral(inputs, entry.facts.neutral)


@_simplifies("Concat")
def _concat(terms: "Terms", inputs: Inputs, attributes: Mapping[str, Any]) -> "Term | None":
    """Concats of Concats are one, adjacent slices of a tensor one slice, equal fills one fill."""
    axis = attributes["axis"]
    flat: list[Term] = []
    for term in inputs:
        assert term is not None
        nested = facts_of(term.node.type).concatenates and term.node.attributes["axis"] == axis
        for part in term.operands if nested else [term]:
            merged = _adjacent(terms, flat[-1], part, axis) if flat else None
            flat[-1:] = [merged] if merged is not None else [*flat[-1:], part]
    if len(flat) == 1:
        return flat[0]
    return None if flat == list(inputs) else terms.apply("Concat", flat, {"axis": axis})


def _adjacent(terms: "Terms", left: "Term", right: "Term", axis: int) -> "Term | None":
    """One term for two neighbours in a Concat."""
    kinds = {left.node.type, right.node.type}
    first, second = left.node.attributes, right.node.attributes
    if kinds == {"fill"} and first == second:
        shape = list(left.shape)
        shape[axis] += right.shape[axis]
        return terms.fill(_number(left), left.dtype, shape)
    if kinds != {"Slice"} or left.node.inputs[:1] != right.node.inputs[:1]:
        return None
    if not first.get("axis") == second.get("axis") == axis or first["stop"] != second["start"]:
        return None
    bounds = {"axis": axis, "start": first["start"], "stop": second["stop"]}
    return terms.apply("Slice", left.node.inputs, bounds)


def _number(fill: "Term") -> float:
    value = fill.node.attributes["value"]
    assert isinstance(value, float)
    return value


@_simplifies("Slice")
def _slice(terms: "Terms", inputs: Inputs, attributes: Mapping[str, Any]) -> "Term | None":
    """A whole slice is its tensor; a slice of a slice is one, one of a Concat is of its parts."""
    x = inputs[0]
    if x is None or "stop" not in attributes:
        return None
    axis, start, stop = attributes["axis"], attributes["start"], attributes["stop"]
    if start == 0 and stop == x.shape[axis]:
        return x
    if x.node.type == "Slice" and x.node.attributes.get("axis") == axis:
        first: Any = x.node.attributes["start"]
        bounds = {"axis": axis, "start": first + start, "stop": first + stop}
        return terms.apply("Slice", x.node.inputs, bounds)
    if facts_of(x.node.type).concatenates and x.node.attributes["axis"] == axis:
        return _slice_of_concat(terms, x, axis, start, stop)
    return None


def _slice_of_concat(terms: "Terms", x: "Term", axis: int, start: int, stop: int) -> "Term | None":
    """The slices of a Concat's parts, one after another; None if a slice is empty."""
    parts: list[Term] = []
    first = 0
    for part in x.operands:
        extent = part.shape[axis]
        low = max(start - first, 0)
        high = min(stop - first, extent)
        if low < high:
            bounds = {"axis": axis, "start": low, "stop": high}
            parts.append(terms.apply("Slice", [part], bounds))
        first += extent
    return terms.apply("Concat", parts, {"axis": axis}) if parts else None


@_simplifies("Transpose")
def _transpose(terms: "Terms", inputs: Inputs, attributes: Mapping[str, Any]) -> "Term | None":
    """A Transpose that keeps the order is its tensor; two are one."""
    x = inputs[0]
    perm = attributes["perm"]
    assert x is not None
    if list(perm) == sorted(perm):
        return x
    if not facts_of(x.node.type).permutes:
        return None
    inner: Any = x.node.attributes["perm"]
    return terms.apply("Transpose", x.node.inputs, {"perm": tuple(inner[axis] for axis in perm)})


@_simplifies("Reshape")
def _reshape(terms: "Terms", inputs: Inputs, attributes: Mapping[str, Any]) -> "Term | None":
    """A Reshape that keeps the shape is its tensor; two are one."""
    x = inputs[0]
    assert x is not None
    if x.shape == tuple(attributes["shape"]):
        return x
    if x.node.type == "fill":
        return terms.fill(_number(x), x.dtype, attributes["shape"])
    return terms.apply("Reshape", x.node.inputs, attributes) if x.node.type == "Reshape" else None


@_simplifies("Pad")
def _pad(terms: "Terms", inputs: Inputs, attributes: Mapping[str, Any]) -> "Term | None":
    """A Pad by nothing is its tensor."""
    return inputs[0] if "pads" in attributes and not any(attributes["pads"]) else None


def _without_neutral(inputs: Inputs, neutral: Sequence[float | None]) -> "Term | None":
    """The operand besides one that is neutral everywhere, if it has the result's shape."""
    for fill, other, number in zip(inputs, inputs[::-1], neutral, strict=False):
        if fill is None or other is None or number is None or fill.node.type != "fill":
            continue
        if _number(fill) == number and _fits(fill.shape, other.shape):
            return other
    return None


def _fits(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a tensor is broadcast to the shape of another."""
    pairs = zip(shape[::-1], other[::-1], strict=False)
    return len(shape) <= len(other) and all(n in (1, m) for n, m in pairs)


def _without_bias(kind: str) -> Simplify:
    """A bias of zeros is left out."""

    def rule(terms: "Terms", inputs: Inputs, attributes: Mapping[str, Any]) -> "Term | None":
        if len(inputs) < 3:
            return None
        bias = inputs[2]
        zero = bias is None or (bias.node.type == "fill" and _number(bias) == 0.0)
        return terms.apply(kind, inputs[:2], attributes) if zero else None

    return rule


_simplifies("Conv")(_without_bias("Conv"))
_simplifies("Gemm")(_without_bias("Gemm"))
