"""Operators on extents give, for all sizes that their conditions hold for, what numbers give."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.interpreter.extents import evaluate_extents
from compiler.net.operators import OPERATORS, Kind
from compiler.net.operators.canonical import complete_attributes
from compiler.net.spec import KnownTensor
from compiler.tensors.assumptions import assuming
from compiler.tensors.dtypes import ELEMENTS
from compiler.tensors.extents import Symbol, extent_of, value_at
from tests.operator_cases import Array

SYMBOLS = [Symbol("n", 2, 40, hint=8), Symbol("m", 2, 40, hint=3)]
ON_EXTENTS = sorted(name for name, spec in OPERATORS.items() if spec.facts.on_extents)
INT64 = {name: number for number, name in ELEMENTS.items()}["int64"]


N, M = map(extent_of, SYMBOLS)
ITEMS: dict[str, list[Any]] = {
    "int64": [N, M, 3 * N - 6, M - N, N * M, -4, 0, 7],
    "bool": [False, True],
    "divisor": [N, M, N * M, 2, 7, -4],
}


def array(data: st.DataObject, shape: tuple[int, ...], items: list[Any]) -> Array:
    """An array of some of the items."""
    result = np.empty(shape, object)
    for index in np.ndindex(*shape):
        result[index] = data.draw(st.sampled_from(items))
    return result


def at(extents: Array, sizes: dict[str, int], dtype: str) -> Array:
    """The numbers that extents are for sizes."""
    numbers = [int(value_at(extent, sizes)) for extent in extents.reshape(-1)]
    return np.array(numbers, dtype).reshape(extents.shape)


@pytest.mark.parametrize("op_type", [*ON_EXTENTS, "Mod", "Cast", "Transpose", "Concat"])
@settings(max_examples=12)
@given(data=st.data())
def test_sizes_give_what_the_entry_computes(op_type: str, data: st.DataObject):
    spec = OPERATORS[op_type]
    count = spec.most_inputs or 2
    dtypes = ["bool" if "int64" not in spec.dtypes(i) else "int64" for i in range(count)]
    shapes = [(2, 3)] + [data.draw(st.sampled_from([(2, 3), (3,), (1, 3)]))] * (count - 1)
    if op_type == "Concat":
        shapes = [(2, 3)] * count
    operands = [
        array(data, shape, ITEMS[dtype]) for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    attributes: dict[str, Any] = {
        "Cast": {"to": INT64},
        "Concat": {"axis": 1},
        "Transpose": {"perm": [1, 0]},
        "Mod": {"fmod": data.draw(st.integers(0, 1))},
    }.get(op_type, {})
    if spec.kind is Kind.REDUCTION:
        axes = data.draw(st.sampled_from([[0], [1], [0, 1]]))
        attributes = {"axes": axes, "keepdims": data.draw(st.integers(0, 1))}
    if op_type in ("Div", "Mod"):
        operands[1] = array(data, shapes[1], ITEMS["divisor"])
    full = complete_attributes(op_type, attributes, shapes)
    inputs = [KnownTensor(dtype, x.shape, x) for dtype, x in zip(dtypes, operands, strict=True)]
    with assuming() as assumptions:
        (result,) = evaluate_extents(op_type, inputs, full, 1)
    sizes = {symbol.name: data.draw(st.integers(2, 40)) for symbol in SYMBOLS}
    if not assumptions.hold(sizes):
        sizes = {symbol.name: symbol.hint for symbol in SYMBOLS}
    numbers = [
        KnownTensor(dtype, x.shape, at(x, sizes, dtype))
        for dtype, x in zip(dtypes, operands, strict=True)
    ]
    assert spec.evaluate is not None
    wanted = spec.evaluate(spec.node(op_type, numbers, full))
    wanted = cast(Array, wanted[0] if isinstance(wanted, list) else wanted)
    np.testing.assert_array_equal(at(result, sizes, wanted.dtype.name), wanted)
