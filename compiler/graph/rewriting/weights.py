"""Keys of derived weights, which name their parts, so that passes need no weight store."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from compiler.errors import ModelError
from compiler.graph.rewriting.attributes import as_operator
from compiler.net.operators import OPERATORS, KnownTensor
from compiler.net.spec import evaluate_known
from compiler.tensors.dtypes import numpy_dtype

Array = NDArray[Any]
Store = Mapping[str, Array]


def concatenated_key(keys: Sequence[str], axis: int) -> str:
    """The key of the Concat of some weights along an axis."""
    return derived_key("Concat", keys, {"axis": axis})


def reshaped_key(key: str, shape: Sequence[int]) -> str:
    """The key of a weight in another shape of as many elements."""
    return derived_key("Reshape", [key], {"shape": list(shape)})


def derived_key(
    operator: str, inputs: Sequence[str], attributes: Mapping[str, Any], dtype: str = ""
) -> str:
    """The key of an operator's result on some weights, rounded to a dtype or their own.

    The attributes are those of a term of the operator, in JSON.
    """
    # as objects, so that the quotes of nested keys are not escaped again at each level
    parts = [json.loads(key) if key.startswith('{"operator"') else key for key in inputs]
    given = {"dtype": dtype} if dtype else {}
    return json.dumps({"operator": operator, "inputs": parts, **attributes, **given})


def weight_array(store: Store, key: str) -> Array:
    """A weight of the store, or derived from some; raises ModelError if the store has none.

    Floating-point numbers are rounded once, after all operators of the key.
    """
    if key in store:
        return store[key]
    try:
        whole = json.loads(key)
        dtype = whole.get("dtype") or _element_type(store, whole)
        result = _evaluated(store, whole)
    except (ValueError, LookupError, AttributeError, TypeError):
        raise ModelError(f"the weight {key!r} is not in the store") from None
    return result.astype(dtype, copy=False)


def _element_type(store: Store, part: Any) -> numpy.dtype[Any]:
    """The dtype of the first weight that a key names."""
    while not isinstance(part, str):
        part = part["inputs"][0]
    return store[part].dtype


def _evaluated(store: Store, part: Any) -> Array:
    if isinstance(part, str):
        return _exact(store[part])
    kind = part["operator"]
    inputs = [_evaluated(store, item) for item in part["inputs"]]
    if kind in _LEAVES:
        return _LEAVES[kind](part)
    if kind in _ORDERS:
        return _results("ScatterOrder", inputs, {"slots": part["slots"]}, 2)[_ORDERS[kind]]
    if kind not in FOLDED:
        raise LookupError(kind)
    named = {n: v for n, v in part.items() if n not in ("operator", "inputs", "dtype")}
    return _results(kind, inputs, named)[0]


def _exact(array: Array) -> Array:
    """A weight in the type in which it is computed with: float64, or as it is."""
    if array.dtype.kind in "iub":
        return array
    return array.astype(numpy.float64)


def _results(
    kind: str, inputs: Sequence[Array], attributes: Mapping[str, Any], count: int = 1
) -> list[Array]:
    """The results of an operator; its attributes are those of a term."""
    tensors = [KnownTensor(array.dtype.name, array.shape, array) for array in inputs]
    entry = OPERATORS[kind]
    node = entry.node(kind, tensors, as_operator(tensors, attributes), count)
    return [result for result in evaluate_known(node, entry) if result is not None]


def _fill(attributes: Mapping[str, Any]) -> Array:
    shape: tuple[int, ...] = tuple(attributes["shape"])
    return numpy.full(shape, float(attributes["value"]), numpy.float64)


def _constant(attributes: Mapping[str, Any]) -> Array:
    values = numpy.array(attributes["value"], numpy_dtype(attributes["dtype"]))
    return _exact(values.reshape(attributes["shape"]))


_LEAVES: Mapping[str, Callable[[Mapping[str, Any]], Array]] = {
    "fill": _fill,
    "identity": lambda attributes: numpy.eye(attributes["shape"][0]),
    "constant": _constant,
}
"""The weights that are made of attributes alone."""

_ORDERS = {"starts": 0, "order": 1}
"""The results of a ScatterOrder, each a weight."""

FOLDED = frozenset(name for name, entry in OPERATORS.items() if entry.facts.derived)
"""The operators whose results on weights are weights with a derived key."""
