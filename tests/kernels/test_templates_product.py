"""MatMul and Gemm by template against float64 numpy."""

import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.cpu.templates import matmul_nest
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_cpu
from tests.kernels.harness import Array
from tests.kernels.template_cases import (
    AXES,
    check,
    expected,
    fused,
    random_array,
    targets,
    template_kernel,
    with_other_axes,
)

extents = st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 33, 70, 130]))


def run(
    left: tuple[int, ...],
    right: tuple[int, ...],
    target: str,
    constant: bool = False,
    prologue: bool = False,
    residual: bool = False,
) -> None:
    """Check one MatMul."""
    a, b = random_array(1, left), random_array(2, right)
    used = numpy.maximum(a, 0) if prologue else a
    product = numpy.matmul(used.astype("float64"), b.astype("float64"))
    addend = random_array(3, product.shape) if residual else None
    group = fused("MatMul", [a, b], product.shape, {}, int(constant), prologue, residual)
    reads = [a, b] if addend is None else [a, b, addend]
    check(group, reads, expected(product, addend), target)


@settings(max_examples=16, deadline=None)
@given(
    st.lists(st.integers(1, 3), max_size=2),
    extents,
    extents,
    extents,
    targets,
    *[st.booleans()] * 3,
)
def test_any_matmul_with_one_matrix(
    batch: list[int],
    rows: int,
    depth: int,
    columns: int,
    target: str,
    constant: bool,
    prologue: bool,
    residual: bool,
) -> None:
    run((*batch, rows, depth), (depth, columns), target, constant, prologue, residual)


@settings(max_examples=12, deadline=None)
@given(st.data(), extents, extents, extents, targets, st.booleans())
def test_any_batched_matmul(
    data: st.DataObject, rows: int, depth: int, columns: int, target: str, prologue: bool
) -> None:
    batch = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    left = [data.draw(st.sampled_from([1, n])) for n in batch]
    right = [
        data.draw(st.sampled_from([1, n])) if x == n else n
        for x, n in zip(left, batch, strict=True)
    ]
    drop = data.draw(st.integers(0, len(batch) - 1))
    run((*left[drop:], rows, depth), (*right, depth, columns), target, False, prologue, True)


SPECIAL = {
    "vector times matrix": ((40,), (40, 19)),
    "matrix times vector": ((21, 40), (40,)),
    "vector times vector": ((40,), (40,)),
    "vector times matrices": ((40,), (3, 40, 19)),
    "matrices times vector": ((3, 21, 40), (40,)),
    "last panel narrower than a vector": ((2, 9, 20), (2, 20, 197)),
    "attention": ((1, 3, 50, 64), (1, 3, 64, 50)),
    "many narrow rows": ((2000, 256), (256, 40)),
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("constant", [False, True])
def test_special_matmul(name: str, constant: bool) -> None:
    run(*SPECIAL[name], "cpu", constant, residual=True)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((20, 40), (40, 330)),
        ((2, 20, 40), (2, 40, 384)),
        ((2, 3, 9, 17), (1, 3, 17, 250)),
        ((3, 20, 40), (40, 297)),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_panels_that_a_kernel_copies(
    left: tuple[int, ...],
    right: tuple[int, ...],
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for bound in ("COPIED_DEPTH", "COPIED_ELEMENTS", "COPIED_TILES"):
        monkeypatch.setattr(matmul_nest, bound, 1)
    run(left, right, target, residual=True)
    a, b = random_array(1, left), random_array(2, right)
    shape = numpy.matmul(a, b).shape
    kernel = template_kernel(fused("MatMul", [a, b], shape, {}, 0), parse_cpu(target))
    assert kernel is not None
    assert kernel.function is not None
    assert "panels = T.alloc_buffer" in kernel.function.script()


def test_a_gemm_copies_panels_of_a_transposed_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("COPIED_DEPTH", "COPIED_ELEMENTS", "COPIED_TILES"):
        monkeypatch.setattr(matmul_nest, bound, 1)
    a, b = random_array(1, (50, 40)), random_array(2, (297, 40))
    group = fused(
        "Gemm", [a, b], (50, 297), {"transA": 0, "transB": 1, "alpha": 1.0, "beta": 1.0}, 0
    )
    check(group, [a, b], expected(a.astype("float64") @ b.T, None), "cpu")


@settings(max_examples=16, deadline=None)
@given(
    extents,
    extents,
    extents,
    *[st.booleans()] * 3,
    st.sampled_from([(), (1,), (1, 1), (-1, 1), (1, -1), (-1,), (-1, -1)]),
    st.sampled_from([(1.0, 1.0), (0.5, 2.0)]),
    targets,
)
def test_any_gemm(
    rows: int,
    depth: int,
    columns: int,
    flip_left: bool,
    flip_right: bool,
    constant: bool,
    addend: tuple[int, ...],
    factors: tuple[float, float],
    target: str,
) -> None:
    a = random_array(1, (depth, rows) if flip_left else (rows, depth))
    b = random_array(2, (columns, depth) if flip_right else (depth, columns))
    full = (rows, columns)[2 - len(addend) :]
    c = random_array(3, [n if keep < 0 else 1 for keep, n in zip(addend, full, strict=True)])
    attributes = {
        "transA": int(flip_left),
        "transB": int(flip_right),
        "alpha": factors[0],
        "beta": factors[1],
    }
    group = fused("Gemm", [a, b, c], (rows, columns), attributes, 2 if constant else 0)
    check(group, [a, b, c], [gemm(a, b, c, flip_left, flip_right, factors)], target)


def gemm(
    a: Array, b: Array, c: Array, flip_a: bool, flip_b: bool, factors: tuple[float, float]
) -> Array:
    """ONNX's Gemm in float64."""
    left, right = (a.T if flip_a else a), (b.T if flip_b else b)
    product = left.astype("float64") @ right.astype("float64")
    return factors[0] * product + factors[1] * c.astype("float64")


def test_other_dtypes_are_declined() -> None:
    group = fused("MatMul", [random_array(1, (3, 4)), random_array(2, (0, 4)).T], (3, 0), {}, 0)
    assert template_kernel(group, parse_cpu("cpu")) is None


@pytest.mark.parametrize("name", AXES)
def test_a_result_may_have_other_axes_of_one_element(name: str) -> None:
    group, reads, result = with_other_axes(name)
    check(group, reads, [result], "cpu")


@pytest.mark.parametrize("columns", [3, 24])
@pytest.mark.parametrize("names", [("Tanh", "Neg"), ("Neg", "Erf")])
def test_a_value_used_twice_where_functions_have_no_vector_form(
    names: tuple[str, str], columns: int
) -> None:
    a, b = random_array(1, (3, 5)), random_array(2, (5, columns))
    result = TensorInfo("float32", (3, columns))
    values = (
        TensorInfo("float32", a.shape),
        TensorInfo("float32", b.shape),
        result,
        result,
        result,
    )
    chain = [Node("MatMul", {}, (0, 1), (2,), "node")]
    chain += [Node(name, {}, (2 + i,), (3 + i,), "node") for i, name in enumerate(names)]
    group = Group("MatMul_shared", values, 2, (False, False), {}, tuple(chain), (4, 3))
    functions = {"Tanh": numpy.tanh, "Neg": numpy.negative, "Erf": numpy.vectorize(math.erf)}
    first = functions[names[0]](a.astype("float64") @ b.astype("float64"))
    check(group, [a, b], [functions[names[1]](first), first], "cpu")


def test_a_matmul_and_softplus_above_a_threshold() -> None:
    a, b = random_array(1, (61, 48)), random_array(2, (48, 40))
    result, threshold = TensorInfo("float32", (61, 40)), numpy.array(0.3, "float32")
    reads = (TensorInfo("float32", a.shape), TensorInfo("float32", b.shape))
    between = (result, result, result, TensorInfo("bool", (61, 40)))
    operators = (
        Node("MatMul", {}, (0, 1), (3,), "node"),
        Node("Relu", {}, (3,), (4,), "node"),
        Node("Softplus", {}, (4,), (5,), "node"),
        Node("Greater", {}, (4, 2), (6,), "node"),
        Node("Where", {}, (6, 4, 5), (7,), "node"),
    )
    values = (*reads, TensorInfo("float32", ()), *between, result)
    group = Group("softplus", values, 2, (False, False), {2: threshold}, operators, (7,))
    rectified = numpy.maximum(a.astype("float64") @ b.astype("float64"), 0)
    above = rectified > threshold
    check(group, [a, b], [numpy.where(above, rectified, numpy.logaddexp(0, rectified))], "cpu")
