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
        if part.kind == "weight":
            key = str(part.attributes["key"])
        else:
            values: dict[str, Any] = dict(part.attributes)
            array = values.pop("array", None)
            if isinstance(array, FrozenArray):
                values |= {"value": array.array.ravel().tolist()}
            if not part.inputs:
                values |= {"shape": list(part.shape)}
            key = derived_key(part.kind, inputs, values, part.dtype)
        keys[part] = key
    return keys[term]
