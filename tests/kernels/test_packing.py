"""Packings against numpy, and what they refuse."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.graph.packing import apply_packing, packed_dtype, packed_shape
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.tensors.dtypes import numpy_dtype


def test_blocks_of_sixteen_channels():
    weight = numpy.arange(51 * 3 * 7 * 7, dtype="float32").reshape(51, 3, 7, 7)
    packing = "pad:13,0,0,0|reshape:4,16,3,7,7|transpose:0,2,3,4,1"
    packed = apply_packing(weight, packing)
    assert packed.shape == packed_shape(weight.shape, packing) == (4, 3, 7, 7, 16)
    assert packed.flags.c_contiguous
    assert packed[2, 1, 3, 4, 5] == weight[37, 1, 3, 4]
    assert (packed[3, ..., 3:] == 0).all()


def test_the_empty_packing_changes_nothing():
    weight = numpy.arange(6).reshape(2, 3)
    assert (apply_packing(weight, "") == weight).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_floats_of_16_bits_become_float32(kind: str):
    weight = numpy.linspace(-3, 3, 12, dtype="float32").astype(numpy_dtype(kind)).reshape(3, 4)
    packed = apply_packing(weight, "widen|transpose:1,0")
    assert packed.dtype == packed_dtype(kind, "widen|transpose:1,0") == "float32"
    assert (packed == weight.T).all()
    assert packed_dtype(kind, "transpose:1,0") == kind
    with pytest.raises(ValueError, match="does not fit"):
        packed_shape((3, 4), "widen:2")


def test_places_are_taken_again_and_in_any_order():
    weight = numpy.arange(6).reshape(2, 3)
    assert packed_shape(weight.shape, "take:1,2,0,2,2") == (2, 4)
    assert apply_packing(weight, "take:1,2,0,2,2").tolist() == [[2, 0, 2, 2], [5, 3, 5, 5]]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_sums_of_rows_follow_a_matrix_of_bytes(kind: str):
    weight = numpy.random.default_rng(1).integers(0, 256, (7, 64)).astype("uint8").view(kind)
    packed = apply_packing(weight, "row-sums")
    assert packed.shape == packed_shape(weight.shape, "row-sums") == (7 * 64 + 7 * 4,)
    assert (packed[: 7 * 64] == weight.reshape(-1)).all()
    assert packed[7 * 64 :].view("<i4").tolist() == weight.astype(int).sum(axis=1).tolist()
    with pytest.raises(ValueError, match="only bytes have sums of rows"):
        apply_packing(weight.astype("int32"), "row-sums")
    with pytest.raises(ValueError, match="does not fit"):
        packed_shape((2, 3, 4), "row-sums")


@pytest.mark.parametrize(
    ("results", "points"), [(2, [0, 1, -1]), (4, [0, 3 / 4, -3 / 4, 1.5, -1.5])]
)
def test_winograd_evaluates_kernels_at_points(results: int, points: list[float]):
    weight = numpy.random.default_rng(0).standard_normal((3, 2, 3, 3))
    packing = f"winograd:{results}"
    packed = apply_packing(weight, packing)
    assert packed.shape == packed_shape(weight.shape, packing)
    powers = [[p**k for k in range(3)] for p in points]
    scales = [numpy.prod([p - q for q in points if q != p]) for p in points]
    lines = numpy.array([*powers, [0, 0, 1]]) / numpy.array([*scales, 1])[:, None]
    wanted = numpy.einsum("ia,fcab,jb->fcij", lines, weight, lines)
    numpy.testing.assert_allclose(packed, wanted, rtol=1e-12, atol=1e-12)
    for shape, wrong in [((2, 3, 1, 3), packing), (weight.shape, "winograd:3")]:
        with pytest.raises(ValueError, match="does not fit"):
            packed_shape(shape, wrong)


@given(st.permutations(range(4)), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_no_element_is_lost(order: list[int], pads: list[int]):
    weight = numpy.arange(1, 121).reshape(2, 3, 4, 5)
    packing = f"pad:{','.join(map(str, pads))}|transpose:{','.join(map(str, order))}"
    packed = apply_packing(weight, packing)
    assert packed.shape == packed_shape(weight.shape, packing)
    assert sorted(packed[packed > 0]) == list(range(1, 121))


@given(*[st.integers(1, 3)] * 4, st.lists(st.integers(1, 3), max_size=2))
def test_groups_on_a_diagonal(many: int, merged: int, rows: int, columns: int, rest: list[int]):
    """Each merged group's matrix has those of its groups as blocks, and zeros else."""
    weight = numpy.random.default_rng(0).random((many * merged * rows, columns, *rest))
    packing = f"diagonal:{many * merged},{merged}"
    packed = apply_packing(weight, packing)
    assert packed.shape == packed_shape(weight.shape, packing)
    for index in numpy.ndindex(*rest):
        blocks = weight[(..., *index)].reshape(many, merged, rows, columns)
        matrices = packed[(..., *index)].reshape(many, merged * rows, merged * columns)
        for own, matrix in zip(blocks, matrices, strict=True):
            expected = numpy.zeros_like(matrix)
            for i, block in enumerate(own):
                place = numpy.ix_(range(i * rows, (i + 1) * rows),
                                  range(i * columns, (i + 1) * columns))  # fmt: skip
                expected[place] = block
            numpy.testing.assert_array_equal(matrix, expected)


WRONG = ("pad:1", "pad:-1,0", "reshape:7", "transpose:0,0", "swap:1", "diagonal:2", "diagonal:3,3",
         "diagonal:2,4", "diagonal:0,0", "take:", "take:2,0", "take:-1,0", "take:1,3",
         "take:1,-1")  # fmt: skip


@pytest.mark.parametrize("packing", WRONG)
def test_a_packing_that_does_not_fit_is_refused(packing: str):
    with pytest.raises(ValueError, match="packing"):
        apply_packing(numpy.zeros((2, 3)), packing)


@pytest.mark.parametrize("kept", [10, 7])
def test_rounding_is_to_nearest_even(kept: int):
    values = numpy.random.default_rng(kept).standard_normal(2000).astype("float32")
    rounded = apply_packing(values, f"round:{kept}")
    spacing = numpy.spacing(values) * 2 ** (23 - kept)
    assert (numpy.abs(rounded - values) <= numpy.abs(spacing) / 2).all()
    assert (rounded.view("uint32") % (1 << (23 - kept)) == 0).all()
    half = numpy.array([1 + 2.0 ** -(kept + 1), 1 + 3 * 2.0 ** -(kept + 1)], numpy.float32)
    assert (apply_packing(half, f"round:{kept}") == [1, 1 + 2.0 ** (1 - kept)]).all()


def test_rounding_keeps_what_is_not_finite():
    values = numpy.array([numpy.inf, -numpy.inf, numpy.nan, 0, -0.0], numpy.float32)
    numpy.testing.assert_array_equal(apply_packing(values, "round:10"), values)
    with pytest.raises(ValueError, match="only float32"):
        apply_packing(numpy.zeros(2), "round:10")


def gemm_of(operands: tuple[int, ...]) -> Group:
    """A Gemm of the operands with these numbers: 0 is a weight, 1 an input."""
    square = TensorInfo("float32", (4, 4))
    gemm = Node("Gemm", {}, operands, (2,))
    return Group("gemm", (square,) * 3, 2, (True, False), {}, (gemm,), (2,))


READ_TWICE = ((0, 0), (1, 0, 0), (0, 1, 0))


def test_a_weight_is_packed_where_one_operand_reads_it():
    assert gemm_of((1, 0)).is_packable(0)
    assert not gemm_of((0, 1)).is_packable(1)


@pytest.mark.parametrize("operands", READ_TWICE)
def test_a_weight_that_is_read_twice_stays_as_it_is(operands: tuple[int, ...]):
    assert not gemm_of(operands).is_packable(0)
