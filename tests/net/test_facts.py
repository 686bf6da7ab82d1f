"""The facts of entries hold for what the interpreter computes."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from compiler.frontend.evaluate import evaluate
from compiler.net.facts import EVERYTHING
from compiler.net.graph import Value
from compiler.net.operators import OPERATORS, KnownTensor
from compiler.net.operators.canonical import canonical_node
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.reductions import LISTED_REDUCTIONS
from compiler.net.spec import Kind

Array = np.ndarray
RANDOM = np.random.default_rng(5)
ELEMENT_NUMBERS = {name: number for number, name in ONNX_DTYPES.items()}
SPECIAL = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 2.5, -1.5, 1e30], "f4")


def result_of(op_type: str, arrays: list[Array | None], **attributes: Any) -> Array:
    """The first result of an operator."""
    inputs = [None if a is None else Value("", str(a.dtype), a.shape, a) for a in arrays]
    result, *_ = evaluate(op_type, inputs, attributes, [True] * (2 if op_type == "Split" else 1))
    assert result is not None
    return result


def names(fact: str) -> list[str]:
    """The operators that have a fact."""
    return [name for name, entry in OPERATORS.items() if getattr(entry.facts, fact)]


def tensor(*shape: int, dtype: str = "f4") -> Array:
    """A tensor of distinct numbers, the first of which is 1."""
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


def scalar(value: float) -> Array:
    """A number without axes."""
    return np.array(value, np.float32)


def numbers(*values: int) -> Array:
    """A vector of integers."""
    return np.array(values, np.int64)


X = tensor(1, 4, 2, 2)
MOVES: dict[str, tuple[list[Array], dict[str, Any]]] = {
    "Concat": ([X, X + 100], {"axis": 1}),
    "DepthToSpace": ([X], {"blocksize": 2}),
    "Expand": ([X], {}),
    "Flatten": ([X], {}),
    "Gather": ([X, numbers(1, -1, 1)], {"axis": 1}),
    "GatherElements": ([X, np.zeros_like(X, np.int64)], {"axis": 1}),
    "GatherND": ([X, numbers(0, 2).reshape(1, 2)], {}),
    "Identity": ([X], {}),
    "Pad": ([X, numbers(0, 1, 0, 0, 0, 0, 0, 1), scalar(9)], {}),
    "Reshape": ([X, numbers(4, 4)], {}),
    "ReverseSequence": ([X[0], numbers(1, 2)], {"batch_axis": 1, "time_axis": 0}),
    "Slice": ([X, numbers(3), numbers(-9), numbers(1), numbers(-2)], {}),
    "SpaceToDepth": ([X], {"blocksize": 2}),
    "Split": ([X, numbers(1, 3)], {"axis": 1}),
    "Squeeze": ([X], {}),
    "Tile": ([X, numbers(1, 2, 1, 3)], {}),
    "Transpose": ([X], {"perm": [3, 1, 0, 2]}),
    "Trilu": ([X], {}),
    "Unsqueeze": ([X, numbers(0)], {}),
}
MOVES["Expand"][0].append(numbers(3, 4, 2, 2))


def test_every_operator_that_moves_has_a_case():
    moving = [name for name, entry in OPERATORS.items() if entry.maps is not None]
    assert sorted(MOVES) == sorted(moving)


@pytest.mark.parametrize("name", MOVES)
def test_results_are_elements_of_the_operands_that_move(name: str):
    arrays, attributes = MOVES[name]
    result = result_of(name, [*arrays], **attributes)
    entry = OPERATORS[name]
    sources = [x.ravel() for i, x in enumerate(arrays) if entry.moves(i)]
    others = {0.0} if name == "Trilu" else set[float]()
    assert set(result.ravel().tolist()) <= set(np.concatenate(sources).tolist()) | others
    assert not entry.picks or set(result.ravel().tolist()) <= set(arrays[0].ravel().tolist())
    again = np.unique(result).size < result.size
    assert entry.facts.repeats or not again or name in ("Pad", "Trilu")


@pytest.mark.parametrize("name", names("interval"))
def test_results_are_in_the_interval(name: str):
    entry = OPERATORS[name]
    shape = (1, 2, 4, 4)
    extra = {"MaxPool": {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}}.get(name, {})
    for scale in (0.01, 1.0, 50.0):
        operands: list[Array] = [
            RANDOM.standard_normal(shape).astype("f4") * scale for _ in range(2)
        ]
        if name == "Clip":
            operands[1:] = [scalar(-0.5), scalar(0.25)]
        operands = operands[: max(entry.least_inputs, 3 if name == "Clip" else 1)]
        intervals = [(float(x.min()), float(x.max())) for x in operands]
        assert entry.facts.interval is not None
        low, high = entry.facts.interval(intervals)
        result = result_of(name, [*operands], **extra)
        slack = 1e-6 * max(abs(low), abs(high)) if name in ("Add", "Mul", "Sub") else 1e-6
        assert low - slack <= result.min() <= result.max() <= high + slack


def test_an_interval_of_any_number_is_finite_for_small_results_alone():
    small = {name for name, entry in OPERATORS.items() if entry.facts.is_small}
    assert {"Sigmoid", "Softmax", "LayerNormalization", "Sin"} <= small
    assert not {"Relu", "Clip", "Add", "MaxPool", "MatMul"} & small


@pytest.mark.parametrize("name", names("idempotent"))
def test_a_second_application_changes_nothing(name: str):
    bounds: list[Array | None] = [scalar(-1), scalar(2)] if name == "Clip" else []
    once = result_of(name, [SPECIAL, *bounds])
    assert result_of(name, [once, *bounds]).tobytes() == once.tobytes()


@pytest.mark.parametrize("name", names("involution"))
def test_a_second_application_undoes_the_first(name: str):
    x = {"Not": SPECIAL > 0, "BitwiseNot": numbers(3, -7, 0)}.get(name, SPECIAL)
    assert result_of(name, [result_of(name, [x])]).tobytes() == x.tobytes()


@pytest.mark.parametrize("name", names("commutative"))
def test_operands_may_change_places(name: str):
    (dtypes,) = {tuple(sorted(OPERATORS[name].dtypes(0)))}
    dtype = next(d for d in ("float32", "int64", "bool") if d in dtypes)
    x, y = (RANDOM.integers(-3, 3, 20).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(result_of(name, [x, y]), result_of(name, [y, x]))


NEUTRAL = [
    (name, operand, number)
    for name, entry in OPERATORS.items()
    for operand, number in enumerate(entry.facts.neutral)
    if number is not None
]


@pytest.mark.parametrize(("name", "operand", "number"), NEUTRAL)
def test_a_neutral_operand_leaves_every_bit_of_the_other(name: str, operand: int, number: float):
    finite = SPECIAL[~np.isnan(SPECIAL)]
    operands = [finite, finite]
    operands[operand] = np.full_like(finite, number)
    assert result_of(name, [*operands]).tobytes() == finite.tobytes()


@pytest.mark.parametrize("name", names("reduces"))
def test_results_depend_on_what_is_reduced(name: str):
    entry = OPERATORS[name]
    x: Array = RANDOM.random((2, 3, 4, 2)) + 1.0
    others: list[Array | None] = []
    if "Layer" in name or "RMS" in name:
        others = [np.ones(2)]
    elif name.startswith("Reduce"):
        others = [numbers(-2, 0)]
    inputs = [KnownTensor(str(a.dtype), a.shape, a) for a in (x, *others) if a is not None]
    assert entry.facts.reduces is not None
    use = canonical_node(name, inputs, {})
    axes = set(entry.facts.reduces(entry.node(name, use.inputs, use.attributes)))
    keep = {"keepdims": 1} if "keepdims" in entry.attributes else {}
    before = result_of(name, [x, *others], **keep)
    changes = 0
    for change in (7, -0.9) * 10:
        at = tuple(int(RANDOM.integers(n)) for n in (2, 3, 4, 2))
        changed = x.copy()
        changed[at] += change
        different = np.argwhere(result_of(name, [changed, *others], **keep) != before)
        changes += different.size
        for axis in set(range(x.ndim)) - axes:
            assert set(different[:, axis].tolist()) <= {at[axis]}
    assert changes


@pytest.mark.parametrize("name", LISTED_REDUCTIONS)
def test_a_reduction_of_one_element_is_that_or_a_function_of_it(name: str):
    x: Array = RANDOM.random((3, 1)).astype("f4") + np.float32(0.5)
    other = OPERATORS[name].facts.of_one
    expected = result_of(other, [x] * OPERATORS[other].least_inputs) if other else x
    result = result_of(name, [x, numbers(1)], keepdims=1)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("name", names("converts"))
def test_what_converts_keeps_numbers_that_both_types_have(name: str):
    halves = result_of(name, [SPECIAL[:7]], to=ELEMENT_NUMBERS["float16"])
    assert halves.dtype == np.float16
    np.testing.assert_array_equal(halves.astype("f4"), SPECIAL[:7])


@pytest.mark.parametrize("name", names("clips"))
def test_what_clips_has_elements_and_limits_alone(name: str):
    x = RANDOM.standard_normal(50).astype("f4")
    for low, high in ((-0.5, 0.25), (-9, 0.1), (0.1, 9), (-9, 9)):
        clipped = np.minimum(np.maximum(x, np.float32(low)), np.float32(high))
        np.testing.assert_array_equal(result_of(name, [x, scalar(low), scalar(high)]), clipped)


@pytest.mark.parametrize("name", names("permutes"))
def test_what_permutes_has_the_axes_of_its_operand_in_an_order(name: str):
    x = tensor(2, 3, 4)
    for perm in permutations(range(3)):
        np.testing.assert_array_equal(result_of(name, [x], perm=list(perm)), x.transpose(perm))


@pytest.mark.parametrize("name", names("concatenates"))
def test_what_concatenates_has_its_operands_one_after_another(name: str):
    x = tensor(2, 3, 4)
    for axis in range(3):
        result = result_of(name, [x, -x, x], axis=axis)
        np.testing.assert_array_equal(result, np.concatenate([x, -x, x], axis))


def test_every_fact_that_is_asked_for_is_some_operators():
    for fact in ("converts", "clips", "permutes", "concatenates"):
        assert names(fact), fact


def test_reductions_say_which_axes_or_have_windows():
    silent = {
        name
        for name, entry in OPERATORS.items()
        if entry.kind is Kind.REDUCTION and entry.facts.reduces is None
    }
    windows = {name for name in silent if "kernel_shape" in OPERATORS[name].attributes}
    channels = {"GroupNormalization", "InstanceNormalization", "LRN", "MeanVarianceNormalization"}
    assert silent - windows - channels == {"SegmentReduce", "PartialRanges"} & silent


def test_contractions_count_their_work():
    kinds = {name: entry for name, entry in OPERATORS.items() if entry.kind is Kind.CONTRACTION}
    assert all(entry.facts.work for entry in kinds.values())


def test_only_results_that_are_small_are_bounded_by_nothing():
    for name in names("interval"):
        entry = OPERATORS[name]
        assert entry.facts.interval is not None
        low, high = entry.facts.interval([EVERYTHING] * max(entry.least_inputs, 1))
        assert low < high
        assert np.isfinite([low, high]).all() == entry.facts.is_small
