"""The maps of movement operators, in each way to read them, on random cases of all of them."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from compiler.frontend.interpreter import evaluate_node
from compiler.net.maps import (
    AffineIndex,
    Algebra,
    Map,
    Maps,
    NotAffine,
    affine_indices,
    axis_reads,
    covered,
    moved_elements,
    strided,
)
from compiler.net.operators import OPERATORS, infer
from compiler.net.operators.injective import PARTS
from compiler.net.operators.movement import MOVEMENT, maps_of
from compiler.net.operators.views import VIEWS
from compiler.net.spec import KnownTensor
from compiler.tensors.strides import StridedWindow
from tests import movement_cases
from tests.frontend.interpreter.comparison import (
    Refused,
    difference,
    evaluate,
    onnxruntime_results,
)
from tests.frontend.interpreter.known import is_known
from tests.operator_cases import Array, Case, Draw

FAMILIES = (
    movement_cases.views,
    movement_cases.parts,
    movement_cases.blocks,
    movement_cases.pad,
    movement_cases.gather,
)


class Integers(Algebra):
    """Indices as Python's integers: one element at a time."""

    def __init__(self, operands: Sequence[Array | None]) -> None:
        self._operands = operands

    def _element(self, operand: int, at: Sequence[int]) -> int:
        array = self._operands[operand]
        assert array is not None
        return int(array[tuple(at)])

    def index_at(self, operand: int, at: Sequence[int], extent: int) -> int:
        """An index, from the end if it is negative."""
        return self._element(operand, at) % extent

    def length_at(self, operand: int, at: Sequence[int], most: int) -> int:
        """A length, at most all."""
        return min(max(self._element(operand, at), 0), most)

    def select(self, condition: Any, then: int, otherwise: int) -> int:
        """One of two."""
        return then if condition else otherwise

    def smaller(self, left: int, right: int) -> int:
        """The smaller."""
        return min(left, right)

    def larger(self, left: int, right: int) -> int:
        """The larger."""
        return max(left, right)

    def entry(self, table: Array, position: int) -> int:
        """An entry of a table."""
        return int(table[position])


def by_element(
    maps: Sequence[Map], shape: Sequence[int], operands: Sequence[Array | None]
) -> Array:
    """A result by the definition of maps, one element after another."""
    first = operands[0]
    assert first is not None
    result = np.zeros(shape, first.dtype)
    for at in np.ndindex(*shape):
        result[at] = _element(maps, at, operands)
    return result


def _element(maps: Sequence[Map], at: Sequence[int], operands: Sequence[Array | None]) -> Any:
    for own in maps:
        operand, index = operands[own.operand], list(own.at(Integers(operands), at))
        assert operand is not None
        inside = all(0 <= i < n for i, n in zip(index, operand.shape, strict=True))
        assert inside or own.partial, f"{index} is outside {operand.shape}"
        if inside and (own.where is None or own.where(at)):
            return operand[tuple(index)]
    fill = None if maps[0].fill is None else operands[maps[0].fill]
    return 0 if fill is None else fill.reshape(())


def random_cases(seed: int) -> list[Case]:
    """A case of each family, in the canonical form."""
    return [family(Draw(seed)).canonical for family in FAMILIES]


def maps_and_shapes(case: Case) -> tuple[Maps, list[tuple[int, ...]]]:
    """The maps of a case, and the shapes that its rule gives."""
    inputs = [None if a is None else KnownTensor(a.dtype.name, a.shape, a) for a in case.inputs]
    shapes = [t.shape for t in infer(case.op_type, inputs, case.attributes, case.outputs)]
    node = OPERATORS[case.op_type].node(case.op_type, inputs, case.attributes, case.outputs)
    return maps_of(node, shapes), shapes


def test_every_movement_operator_has_a_generator() -> None:
    drawn = {case.op_type for seed in range(200) for case in random_cases(seed)}
    assert drawn == MOVEMENT - {"Identity"}


@pytest.mark.parametrize("block", range(8))
def test_arrays_of_indices_give_what_single_indices_give(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        for case in random_cases(seed):
            maps, shapes = maps_and_shapes(case)
            results = evaluate(case)
            for own, shape, result in zip(maps, shapes, results, strict=True):
                assert result is not None
                assert result.shape == shape, case
                if own:
                    expected = by_element(own, shape, case.inputs)
                    assert result.tobytes() == expected.tobytes(), case


def as_texts(array: Array) -> Array:
    """The numbers of an array as texts, in an array of objects."""
    texts = np.empty(array.size, object)
    texts[:] = [str(number) for number in array.reshape(-1)]
    return texts.reshape(array.shape)


def test_what_no_text_is_moved_to_is_the_empty_text() -> None:
    texts = np.array(["a", "b"], object)
    padded = evaluate_node("Pad", [texts], {"mode": "constant", "pads": [1, 2]})[0]
    assert padded is not None
    assert padded.tolist() == ["", "a", "b", "", ""]
    square = np.array([["a", "b"], ["c", "d"]], object)
    triangle = evaluate_node("Trilu", [square], {"k": 0, "upper": 0})[0]
    assert triangle is not None
    assert triangle.tolist() == [["a", ""], ["c", "d"]]


def test_texts_are_moved_as_numbers_are() -> None:
    """Also a single one: numpy's scalar of objects is no array."""
    ranks: set[int] = set()
    for seed in range(200):
        for case in random_cases(seed):
            maps, shapes = maps_and_shapes(case)
            for own, shape in zip(maps, shapes, strict=True):
                if not own or 0 in shape or any(part.where or part.partial for part in own):
                    continue
                moved = {part.operand for part in own}
                texts = [
                    as_texts(a) if a is not None and i in moved else a
                    for i, a in enumerate(case.inputs)
                ]
                result = moved_elements(own, shape, texts)
                expected = as_texts(moved_elements(own, shape, case.inputs))
                assert (result.dtype, result.shape) == (expected.dtype, expected.shape), case
                assert (result == expected).all(), case
                ranks.add(len(shape))
    assert 0 in ranks


@pytest.mark.parametrize("block", range(8))
def test_results_are_those_of_onnxruntime(block: int) -> None:
    compared = 0
    for seed in range(block * 20, block * 20 + 20):
        for case in [family(Draw(seed)) for family in FAMILIES]:
            if is_known(case):
                continue
            try:
                expected = onnxruntime_results(case)
            except Refused:
                continue
            results = evaluate(case)
            for result, other in zip(results, expected, strict=True):
                assert not difference(result, other), case
            compared += 1
    assert compared > 40


@pytest.mark.parametrize("block", range(4))
def test_windows_have_the_elements_of_the_result(block: int) -> None:
    traced: set[str] = set()
    for seed in range(block * 60, block * 60 + 60):
        for case in random_cases(seed):
            x = case.inputs[0]
            assert x is not None
            maps, shapes = maps_and_shapes(case)
            results = evaluate(case)
            for own, shape, result in zip(maps, shapes, results, strict=True):
                if len(own) != 1 or 0 in shape or 0 in x.shape:
                    continue
                window = strided(own[0], StridedWindow.contiguous(x.shape), shape, case.inputs)
                if window is not None and result is not None:
                    traced.add(case.op_type)
                    assert window.shape == shape
                    elements = _window_elements(x.reshape(-1), window)
                    assert elements.tobytes() == result.tobytes(), case
    assert traced >= {"Transpose", "Expand", "Slice", "Split", "Reshape", "Pad", "Tile"}


def _window_elements(flat: Array, window: StridedWindow) -> Array:
    """The elements of a window of a buffer."""
    positions = np.array(window.offset)
    for runs in window.axes:
        digits = np.zeros(1, np.int64)
        for extent, stride in runs:
            digits = (digits[:, None] + np.arange(extent) * stride).reshape(-1)
        positions = positions[..., None] + digits
    return flat[positions]


def _is_of_parts(case: Case) -> bool:
    """Whether results are parts of operands, or operands of a result, with every axis in place."""
    maps, shapes = maps_and_shapes(case)
    for own, shape in zip(maps, shapes, strict=True):
        covering = 0
        for part in own:
            operand, indices = case.inputs[part.operand], affine_indices(part, shape)
            if operand is None or indices is None or part.where is not None:
                return False
            terms = [((axis, 1, extent),) for axis, extent in enumerate(shape)]
            if len(indices) != len(shape) or any(
                index.terms not in ((), term) for index, term in zip(indices, terms, strict=True)
            ):
                return False
            reads = axis_reads(part, shape) or ()
            covering += prod(map(len, covered(reads, operand.shape, shape)))
        if covering != prod(shape):
            return False
    return True


def test_parts_are_the_operators_that_keep_every_axis() -> None:
    others = set(MOVEMENT.difference(PARTS, VIEWS))
    for seed in range(80):
        for case in random_cases(seed):
            maps, shapes = maps_and_shapes(case)
            if any(0 in shape for shape in shapes) or not maps[0]:
                continue
            if case.op_type in PARTS:
                steps = case.attributes["step"] if case.op_type == "Slice" else [1]
                assert _is_of_parts(case) or any(step != 1 for step in steps), case
            elif not _is_of_parts(case):
                others.discard(case.op_type)
    assert not others


def test_maps_read_only_operands_of_the_type_of_the_results() -> None:
    for case in [case for seed in range(40) for case in random_cases(seed)]:
        spec = OPERATORS[case.op_type]
        maps, _ = maps_and_shapes(case)
        read = {part.operand for own in maps for part in own}
        filled = {part.fill for own in maps for part in own} - {None}
        moves = {i for i in range(len(case.inputs)) if spec.moves(i)}
        assert read | filled <= moves, case


def test_quotients_of_affine_indices() -> None:
    i, j = AffineIndex.of_axis(0, 3), AffineIndex.of_axis(1, 4)
    position = i * 4 + j + 8
    assert (position // 4, position % 4) == (i + 2, j)
    assert (position - 8) // 12 == AffineIndex(0)
    assert ((5 - j).low, (5 - j).high) == (2, 5)
    with pytest.raises(NotAffine):
        _ = (i + j) // 4
    with pytest.raises(NotAffine):
        _ = i * j


def test_a_diagonal_has_no_axes_of_its_own() -> None:
    assert axis_reads(Map(0, lambda _, i: [i[0], i[0]]), (3,)) is None
    assert axis_reads(Map(0, lambda _, i: [i[0] + i[1]]), (3, 2)) is None
