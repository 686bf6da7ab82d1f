"""The weights that constant terms become."""

from typing import Any

from compiler.graph.rewriting.attributes import FrozenArray
from compiler.graph.rewriting.terms import Term, reachable
from compiler.graph.rewriting.weights import derived_key


def constant_key(term: Term) -> str:
    """The key of the weight that a constant term is."""
    keys: dict[Term, str] = {}
    for part in reachable([term]):
        inputs = [keys[item] for item in part.operands]
        keys[part] = _key(part, inputs)
    return keys[term]


def _key(term: Term, inputs: list[str]) -> str:
    if term.kind == "weight":
        return str(term.attributes["key"])
    values: dict[str, Any] = dict(term.attributes)
    array = values.pop("array", None)
    if isinstance(array, FrozenArray):
        values |= {"value": array.array.ravel().tolist()}
    if not term.inputs:
        values |= {"shape": list(term.shape)}
    return derived_key(term.kind, inputs, values, term.dtype)
