"""Templates of CPUs on tensors in 16 bits against float64: converted as read, rounded once."""

from collections.abc import Sequence

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.packing import WIDEN
from compiler.kernels.building.kernel import compile_scheduled
from compiler.kernels.group import Group
from compiler.target.target import parse_cpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.harness import Array
from tests.kernels.template_cases import (
    check,
    fused,
    narrowed,
    random_array,
    run_guarded,
    targets,
    template_kernel,
)
from tests.kernels.test_templates_convolution import Case as Convolution
from tests.kernels.test_templates_convolution import reference

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Half the distance of the numbers at 1: the largest relative error of one rounding."""

dtypes = st.sampled_from(list(UNIT))
extents = st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 33, 70, 130]))


def random_narrow(seed: int, shape: Sequence[int], dtype: str) -> Array:
    """Standard normal numbers in 16 bits."""
    return random_array(seed, shape).astype(numpy_dtype(dtype))


def check_once(group: Group, arrays: Sequence[Array], want: Array, dtype: str, target: str) -> None:
    """Check a kernel whose results are rounded once."""
    check(group, arrays, [want], target, relative=1.01 * UNIT[dtype])


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 3), max_size=2), extents, extents, extents, dtypes, targets)
@pytest.mark.parametrize("constant", [False, True])
def test_any_matmul(
    constant: bool,
    batch: list[int],
    rows: int,
    depth: int,
    columns: int,
    dtype: str,
    target: str,
) -> None:
    a = random_narrow(1, (*batch, rows, depth), dtype)
    own = (depth, columns) if constant else (*batch, depth, columns)
    b = random_narrow(2, own, dtype)
    want = numpy.matmul(a.astype("float64"), b.astype("float64"))
    wide = [x.astype("float32") for x in (a, b)]
    group = narrowed(fused("MatMul", wide, want.shape, {}, int(constant)), dtype)
    check_once(group, [a, b], want, dtype, target)


@settings(max_examples=8, deadline=None)
@given(extents, extents, extents, st.booleans(), st.booleans(), dtypes, targets)
def test_any_gemm(
    rows: int, depth: int, columns: int, left: bool, right: bool, dtype: str, target: str
) -> None:
    a = random_narrow(1, (depth, rows) if left else (rows, depth), dtype)
    b = random_narrow(2, (columns, depth) if right else (depth, columns), dtype)
    c = random_narrow(3, (columns,), dtype)
    one, other, bias = (x.astype("float64") for x in (a, b, c))
    want = (one.T if left else one) @ (other.T if right else other) + bias
    attributes = {"transA": int(left), "transB": int(right)}
    wide = [x.astype("float32") for x in (a, b, c)]
    group = narrowed(fused("Gemm", wide, want.shape, attributes, 2), dtype)
    check_once(group, [a, b, c], want, dtype, target)


ONES, TWOS, NONE, AROUND = (1, 1), (2, 2), (0, 0, 0, 0), (1, 1, 1, 1)

CONVOLUTIONS = {
    "pointwise": Convolution(1, 1, 24, 37, (9, 11), ONES, ONES, ONES, NONE),
    "many chunks": Convolution(2, 1, 16, 20, (40, 41), ONES, ONES, ONES, NONE),
    "strided pointwise": Convolution(1, 1, 24, 18, (10, 11), ONES, TWOS, ONES, NONE),
    "3 x 3": Convolution(1, 1, 8, 16, (17, 19), (3, 3), ONES, ONES, AROUND),
    "strides": Convolution(1, 1, 8, 16, (17, 40), (3, 3), TWOS, ONES, AROUND),
    "a stem": Convolution(1, 1, 3, 9, (40, 43), (7, 7), TWOS, ONES, (3, 3, 3, 3)),
    "depthwise": Convolution(1, 20, 1, 1, (17, 35), (3, 3), ONES, ONES, AROUND),
    "few pixels": Convolution(1, 1, 32, 40, (3, 3), (3, 3), ONES, ONES, AROUND),
    "a line": Convolution(2, 1, 8, 12, (50,), (5,), (1,), (1,), (2, 2)),
}


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, target: str, dtype: str) -> None:
    case = CONVOLUTIONS[name]
    filters = case.groups * case.filters
    data = random_narrow(1, (case.batch, case.groups * case.channels, *case.image), dtype)
    weight = random_narrow(2, (filters, case.channels, *case.kernel), dtype)
    bias = random_narrow(3, (filters,), dtype)
    want = reference(case, *(x.astype("float64") for x in (data, weight, bias)))
    attributes = {"strides": case.strides, "dilations": case.dilations, "pads": case.pads}
    attributes = {name: list(numbers) for name, numbers in attributes.items()}
    wide = [x.astype("float32") for x in (data, weight, bias)]
    group = fused("Conv", wide, want.shape, {**attributes, "group": case.groups}, 2)
    check_once(narrowed(group, dtype), [data, weight, bias], want, dtype, target)


@pytest.mark.parametrize("dtype", UNIT)
def test_transposed_convolution(dtype: str) -> None:
    data, weight = random_narrow(1, (2, 6, 7, 9), dtype), random_narrow(2, (6, 5, 2, 2), dtype)
    one, other = (x.astype("float64") for x in (data, weight))
    want = numpy.einsum("nchw,coij->nohiwj", one, other).reshape(2, 5, 14, 18)
    attributes = {"strides": [2, 2], "dilations": [1, 1], "pads": [0, 0, 0, 0], "group": 1}
    wide = [x.astype("float32") for x in (data, weight)]
    group = fused("ConvTranspose", wide, want.shape, {**attributes, "finite": True}, 1)
    check_once(narrowed(group, dtype), [data, weight], want, dtype, "cpu")


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize(("rows", "narrow"), [(1, True), (8, True), (9, False), (64, False)])
def test_weights_stay_in_16_bits_where_their_bytes_take_longest(
    dtype: str, rows: int, narrow: bool
) -> None:
    arrays = [random_array(1, (rows, 32)), random_array(2, (32, 48))]
    group = narrowed(fused("MatMul", arrays, (rows, 48), {}, 1), dtype)
    source = template_kernel(group, parse_cpu("cpu"))
    assert source is not None
    assert source.packings[1].startswith(WIDEN) is not narrow


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("dtype", UNIT)
def test_special_numbers(dtype: str, rows: int) -> None:
    """Results that overflow are infinite, subnormal numbers count, and NaN stays."""
    own = numpy_dtype(dtype)
    largest = {"float16": 65504.0, "bfloat16": 3.3895314e38}[dtype]
    tiny = {"float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype]
    numbers = numpy.array([largest, -largest, numpy.inf, numpy.nan, tiny, 3 * tiny, -0.0, 1.0])
    a = numpy.tile(numpy.ones((1, 1)), (rows, 1)).astype(own)
    b = numbers.reshape(1, -1).astype(own)
    wide = [x.astype("float32") for x in (a, b)]
    group = narrowed(fused("MatMul", wide, (rows, b.shape[1]), {}, 1), dtype)
    once = one_result(group, [a, b])
    numpy.testing.assert_array_equal(once, numpy.tile(b.astype("float32"), (rows, 1)))
    doubled = one_result(group, [a + a, b])
    with numpy.errstate(over="ignore"):
        want = (2 * b.astype("float64")).astype("float32").astype(own)
    numpy.testing.assert_array_equal(doubled, numpy.tile(want.astype("float32"), (rows, 1)))


def one_result(group: Group, arrays: Sequence[Array]) -> Array:
    """The result of a group's kernel."""
    target = parse_cpu("cpu")
    source = template_kernel(group, target)
    assert source is not None
    (result,) = run_guarded(compile_scheduled(group, source, target), group, arrays, after=True)
    return result.astype("float32")
