"""The weights that constant terms become."""

from math import prod
from typing import Any

from numpy.typing import NDArray

from compiler.graph.rewriting.attributes import FrozenArray
from compiler.graph.rewriting.terms import Term, reachable
from compiler.graph.rewriting.weights import derived_key, weight_array


def constant_key(term: Term) -> str:
    """The key of the weight that a constant term is."""
    keys: dict[Term, str] = {}
    for part in reachable([term]):
        inputs = [keys[item] for item in part.operands]
        if part.node.type == "weight":
            key = str(part.node.attributes["key"])
        else:
            values: dict[str, Any] = dict(part.node.attributes)
            array = values.pop("array", None)
            if isinstance(array, FrozenArray):
                values |= {"value": array.array.ravel().tolist()}
            if not part.node.inputs:
                values |= {"shape": list(part.shape)}
            key = derived_key(part.node.type, inputs, values, part.dtype)
        keys[part] = key
    return keys[term]


def small_constant(term: Term) -> NDArray[Any] | None:
    """The array of a constant that is part of the code: the graph's own, or of one element.

    None for other terms, and those that depend on a weight.
    """
    array = term.node.attributes.get("array")
    if isinstance(array, FrozenArray) and prod(term.shape) != 1:
        return array.array
    if not term.constant or prod(term.shape) != 1:
        return None
    if any(part.node.type == "weight" for part in reachable([term])):
        return None
    return weight_array({}, constant_key(term))
