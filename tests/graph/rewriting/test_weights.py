"""Derived weights: every operator of a key against numpy, nested keys, one rounding, bad keys."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.errors import ModelError
from compiler.graph.rewriting.weights import (
    FOLDED,
    concatenated_key,
    derived_key,
    reshaped_key,
    weight_array,
)

RANDOM = np.random.default_rng(0)
STORE: Mapping[str, Any] = {
    "a": RANDOM.standard_normal((2, 3, 4)).astype(np.float32),
    "b": RANDOM.standard_normal((2, 3, 4)).astype(np.float32),
    "m": RANDOM.standard_normal((4, 5)).astype(np.float32),
    "i": np.arange(6).reshape(2, 3),
}
A, B, M = (STORE[name].astype(np.float64) for name in "abm")

CASES: dict[str, tuple[list[str], dict[str, Any], Callable[[], Any]]] = {
    "Concat": (["a", "b"], {"axis": 1}, lambda: np.concatenate([A, B], 1)),
    "Slice": (["a"], {"axis": 2, "start": 1, "stop": 3}, lambda: A[:, :, 1:3]),
    "Reshape": (["a"], {"shape": [6, 4]}, lambda: A.reshape(6, 4)),
    "Transpose": (["a"], {"perm": [2, 0, 1]}, lambda: A.transpose(2, 0, 1)),
    "Pad": (
        ["a"],
        {"pads": [0, 1, 0, 0, 0, 2], "mode": "constant"},
        lambda: np.pad(A, [(0, 0), (1, 0), (0, 2)]),
    ),
    "Add": (["a", "b"], {}, lambda: A + B),
    "Sub": (["a", "b"], {}, lambda: A - B),
    "Mul": (["a", "b"], {}, lambda: A * B),
    "MatMul": (["a", "m"], {}, lambda: A @ M),
}
"""Of each operator: keys, attributes, and its result."""


def test_every_operator_has_a_case():
    assert CASES.keys() == FOLDED


@pytest.mark.parametrize("operator", sorted(FOLDED))
def test_as_numpy_computes_it(operator: str):
    keys, attributes, expected = CASES[operator]
    found = weight_array(STORE, derived_key(operator, keys, attributes))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected().astype(np.float32))


def test_leaves_without_weights():
    sum_of = derived_key(
        "Add",
        [
            derived_key("fill", [], {"value": 2.5, "shape": [2, 2]}, "float32"),
            derived_key("identity", [], {"shape": [2, 2]}, "float32"),
        ],
        {},
        "float32",
    )
    np.testing.assert_array_equal(weight_array({}, sum_of), [[3.5, 2.5], [2.5, 3.5]])
    value = {"value": [1, 2, 3, 4], "shape": [2, 2]}
    found = weight_array({}, derived_key("constant", [], value, "int64"))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


def test_nested_keys_are_not_escaped_again():
    key = "a"
    for _ in range(12):
        key = derived_key("Add", [key, "b"], {})
    assert "\\" not in key
    np.testing.assert_allclose(weight_array(STORE, key), A + 12 * B, rtol=1e-6)


def test_a_weight_is_rounded_once():
    """Rounding the sum in between to float32, or to float16, would lose the small part."""
    store = {"large": np.array([2.0**24], np.float32), "one": np.array([1.0], np.float32)}
    whole = derived_key("Add", ["large", "one"], {}, "float32")
    key = derived_key("Sub", [whole, "large"], {}, "float32")
    np.testing.assert_array_equal(weight_array(store, key), [1.0])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_16_bits_are_computed_with_exactly(dtype: Any):
    store = {"x": np.array([1.0], dtype), "y": np.array([2.0**-9], dtype)}
    key = derived_key("Sub", [derived_key("Add", ["x", "y"], {}), "x"], {})
    found = weight_array(store, key)
    assert found.dtype == dtype
    assert float(found[0]) == 2.0**-9


def test_integers_stay_integers():
    found = weight_array(STORE, concatenated_key(["i", "i"], 0))
    assert found.dtype == STORE["i"].dtype
    np.testing.assert_array_equal(found, np.concatenate([STORE["i"]] * 2))
    assert weight_array(STORE, reshaped_key("i", [6])).shape == (6,)


@pytest.mark.parametrize(
    "key",
    [
        "c",
        "{",
        "[]",
        '"a"',
        derived_key("Add", ["a", "c"], {}),
        derived_key("Sqrt", ["a"], {}),
        derived_key("Concat", ["a", "b"], {}),
        derived_key("Concat", [], {"axis": 0}),
        derived_key("Reshape", ["a"], {"shape": [5]}),
        json.dumps({"inputs": ["a"]}),
    ],
)
def test_an_unknown_key_is_named(key: str):
    with pytest.raises(ModelError, match="is not in the store"):
        weight_array(STORE, key)
