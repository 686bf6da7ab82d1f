"""Sums of many terms: the error of each contraction stays near that of NumPy's pairwise sums.

Terms are positive, so that n terms added in order have an error of about sqrt(n) roundings.
"""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

import compiler
from compiler.kernels.long_sums import LEAST_RUN, LONG_SUM, divided_axis, run_of
from tests.frontend.checks import parse

Array = np.ndarray

ROUNDING = 2.0**-24
"""The relative error of one operation in float32."""

LONGEST = 2_000_000
"""The most terms of a result that a test draws."""


def lengths(seed: int, count: int = 3) -> list[int]:
    """Numbers of terms over decades, some just beyond what one accumulator adds."""
    generator = np.random.default_rng(seed)
    drawn = 10 ** generator.uniform(2, np.log10(LONGEST), count)
    return [LONG_SUM, LONG_SUM + 1, *(int(n) for n in drawn)]


def bound(terms: int) -> float:
    """The error that roundings in a run and in the sums of runs may add up to, at random."""
    run = run_of(terms)
    return 1.5 * ROUNDING * (sqrt(run) + sqrt(terms / run))


def uniform(generator: np.random.Generator, *shape: int) -> Array:
    """Positive random numbers."""
    return generator.random(shape, dtype=np.float32)


def run(text: str, inputs: dict[str, Array], target: str = "cpu", **weights: Array) -> Array:
    """The first result of a model."""
    module = compiler.compile(parse(text, 18, **weights), target=target, budget=0)
    return next(iter(module.run(inputs).values()))


Contraction = Callable[[np.random.Generator, int], tuple[Array, Array]]
"""The result of n terms and the exact one."""


def matmul(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    rows, columns = (1, 1) if n > 300_000 else (5, 9)
    x, y = uniform(generator, rows, n), uniform(generator, n, columns)
    text = f"""g (float[{rows},{n}] x, float[{n},{columns}] y) => (float[{rows},{columns}] z) {{
        z = MatMul(x, y) }}"""
    return run(text, {"x": x, "y": y}), x.astype(float) @ y


def gemm_of_a_weight(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    n = min(n, 200_000)
    x, y = uniform(generator, 3, n), uniform(generator, 7, n)
    text = f"g (float[3,{n}] x) => (float[3,7] z) {{ z = Gemm<transB=1>(x, y) }}"
    return run(text, {"x": x}, y=y), x.astype(float) @ y.T


def einsum(equation: str) -> Contraction:
    def compute(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
        left, right = equation.partition("->")[0].split(",")
        sizes = {"i": n, "j": n} if len(left) == 1 else {"i": n // 4, "j": 4}
        x, y = (uniform(generator, *(sizes[a] for a in term)) for term in (left, right))
        exact = np.einsum(equation, x.astype(float), y.astype(float), optimize=True)
        shapes = [",".join(map(str, a.shape)) for a in (x, y, exact)]
        result = f"float[{shapes[2]}] z" if exact.ndim else "float z"
        text = f"""g (float[{shapes[0]}] x, float[{shapes[1]}] y) => ({result}) {{
            z = Einsum<equation = "{equation}">(x, y) }}"""
        return run(text, {"x": x, "y": y}), exact

    return compute


def convolution(kernel: int, image: int, filters: int) -> Contraction:
    def compute(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
        channels = -(-min(n, 100_000) // kernel**2)
        x = uniform(generator, 1, channels, image, image)
        w = uniform(generator, filters, channels, kernel, kernel)
        text = f"""g (float[1,{channels},{image},{image}] x) => (float[1,{filters},h,v] z) {{
            z = Conv<strides=[2, 2]>(x, w) }}"""  # strides of one may have Winograd's errors
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))
        windows = windows[:, :, ::2, ::2].astype(float)
        exact = np.einsum("nchwij,fcij->nfhw", windows, w.astype(float), optimize=True)
        return run(text, {"x": x}, w=w), exact

    return compute


def convolution_of_one_tap_after_another(generator: np.random.Generator, n: int):
    n = min(n, 300_000)
    x, w = uniform(generator, 1, 1, n), uniform(generator, 3, 1, n)
    text = f"g (float[1,1,{n}] x) => (float[1,3,1] z) {{ z = Conv(x, w) }}"
    return run(text, {"x": x}, w=w), (w[:, 0].astype(float) @ x[0, 0])[None, :, None]


def transposed_convolution(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    n = min(n, 100_000)
    x, w = uniform(generator, 1, n, 3), uniform(generator, n, 2, 1)
    text = f"g (float[1,{n},3] x) => (float[1,2,3] z) {{ z = ConvTranspose(x, w) }}"
    return run(text, {"x": x}, w=w), np.einsum("ncx,cf->nfx", x.astype(float), w[..., 0])


def column_sums(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    x = uniform(generator, n, 3)
    text = f"g (float[{n},3] x) => (float[1,3] z) {{ z = ReduceSum(x, axes) }}"
    return run(text, {"x": x}, axes=np.array([0])), x.sum(0, dtype=float, keepdims=True)


def row_means(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    x = uniform(generator, 2, n)
    text = f"g (float[2,{n}] x) => (float[2,1] z) {{ z = ReduceMean(x, axes) }}"
    return run(text, {"x": x}, axes=np.array([1])), x.mean(1, dtype=float, keepdims=True)


def pooled(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    x = uniform(generator, 1, 2, n)
    text = f"g (float[1,2,{n}] x) => (float[1,2,1] z) {{ z = AveragePool<kernel_shape=[{n}]>(x) }}"
    return run(text, {"x": x}), x.mean(2, dtype=float, keepdims=True)


def attention(generator: np.random.Generator, n: int) -> tuple[Array, Array]:
    n = min(n, 200_000)
    q, k, v = (uniform(generator, size, 8) for size in (8, n, n))
    text = f"""g (float[1,1,8,8] q, float[1,1,8,{n}] k, float[1,1,{n},8] v) => (float[1,1,8,8] z) {{
        s = MatMul(q, k) p = Softmax<axis=-1>(s) z = MatMul(p, v) }}"""
    scores = np.exp(q.astype(float) @ k.T.astype(float))
    exact = scores @ v / scores.sum(1, keepdims=True)
    inputs = {"q": q, "k": np.ascontiguousarray(k.T), "v": v}
    return run(text, {name: a[None, None] for name, a in inputs.items()}), exact[None, None]


CONTRACTIONS: list[Contraction] = [
    matmul,
    gemm_of_a_weight,
    einsum("i,i->"),
    einsum("ij,ij->"),
    einsum("ij,ij->j"),
    einsum("i,j->"),
    convolution(1, 5, 6),
    convolution(3, 4, 70),
    convolution(3, 9, 5),
    convolution_of_one_tap_after_another,
    transposed_convolution,
    column_sums,
    row_means,
    pooled,
    attention,
]


@pytest.mark.parametrize("number", range(len(CONTRACTIONS)))
def test_the_error_grows_slowly_with_the_number_of_terms(number: int):
    for terms in lengths(number):
        result, exact = CONTRACTIONS[number](np.random.default_rng(terms), terms)
        assert result.shape == exact.shape
        error = np.abs(result / exact - 1).max()
        assert error <= bound(terms) + 8 * ROUNDING, terms


@pytest.mark.parametrize("terms", [6_000, 70_001, 1_500_000])
def test_numpys_pairwise_sums_are_not_far_better(terms: int):
    generator = np.random.default_rng(terms)
    x, y = uniform(generator, 1, terms), uniform(generator, terms, 1)
    text = f"g (float[1,{terms}] x, float[{terms},1] y) => (float[1,1] z) {{ z = MatMul(x, y) }}"
    exact = float(x[0].astype(float) @ y[:, 0])
    pairwise = abs(float((x[0] * y[:, 0]).sum()) / exact - 1)
    error = abs(float(run(text, {"x": x, "y": y})[0, 0]) / exact - 1)
    assert error <= 8 * max(pairwise, 2 * ROUNDING)


def test_ones_are_counted_beyond_the_digits_of_a_float32():
    n = (1 << 24) + 1000
    ones = np.ones((1, n), np.float32)
    text = f"g (float[1,{n}] x, float[{n},1] y) => (float[1,1] z) {{ z = MatMul(x, y) }}"
    assert run(text, {"x": ones, "y": ones.reshape(n, 1)}) == n


@pytest.mark.parametrize("packed", [True, False])
def test_columns_that_are_no_whole_vectors(packed: bool):
    """The last vector of a panel begins inside the one before it, whose sums it must not repeat."""
    generator = np.random.default_rng(3)
    n = 2 * LONG_SUM
    for rows, columns in ((3, 17), (14, 33), (9, 100)):
        x, y = uniform(generator, rows, n), uniform(generator, n, columns)
        head = f"float[{rows},{n}] x" + ("" if packed else f", float[{n},{columns}] y")
        text = f"g ({head}) => (float[{rows},{columns}] z) {{ z = MatMul(x, y) }}"
        result = run(text, {"x": x}, y=y) if packed else run(text, {"x": x, "y": y})
        np.testing.assert_allclose(result, x.astype(float) @ y, rtol=bound(n))


def test_generated_cuda_code_sums_in_runs():
    generator = np.random.default_rng(5)
    n = 20_011
    x, y = uniform(generator, n, 3), uniform(generator, n, 3)
    text = f"""g (float[{n},3] x, float[{n},3] y) => (float[3] z) {{
        z = Einsum<equation = "ij,ij->j">(x, y) }}"""
    result = run(text, {"x": x, "y": y}, "emu")
    exact = (x.astype(float) * y).sum(0)
    assert np.abs(result / exact - 1).max() <= bound(n)


def test_integers_wrap_around_as_before():
    generator = np.random.default_rng(7)
    n = 2 * LONG_SUM
    x, y = (
        generator.integers(-(2**31), 2**31, shape).astype(np.int32) for shape in ((2, n), (n, 3))
    )
    text = f"g (int32[2,{n}] x, int32[{n},3] y) => (int32[2,3] z) {{ z = MatMul(x, y) }}"
    assert np.array_equal(run(text, {"x": x, "y": y}), x @ y)


@pytest.mark.parametrize("extents", [(5000,), (4999,), (3, 2000), (7, 11, 13, 17), (100_003, 2)])
def test_runs_cover_all_terms(extents: tuple[int, ...]):
    run_length = run_of(int(np.prod(extents)))
    axis, part = divided_axis(extents, run_length)
    inner = int(np.prod(extents[axis + 1 :]))
    assert 1 <= part <= extents[axis]
    assert run_length <= part * inner < 2 * run_length + inner


def test_short_sums_have_one_run():
    assert run_of(LONG_SUM) == LONG_SUM
    assert run_of(LONG_SUM + 1) == LEAST_RUN
    assert run_of(40_000_000) == 6325


EQUAL = np.float32(0.1)
"""A number whose sums are rounded the same way for long: errors of equal terms do not cancel."""


def equal_terms(operator: str, n: int, target: str, axis: int) -> tuple[Array, Array]:
    """A reduction or scan of n equal terms, and its exact result."""
    shape = (3, n) if axis == 1 else (n, 3)
    x, value, constants = np.full(shape, EQUAL), float(EQUAL), {"axes": np.array([axis])}
    node, exact = (
        f"{operator}(x, axes)",
        {
            "ReduceMean": np.array(value),
            "ReduceL2": np.array(value * sqrt(n)),
            "CumSum": np.cumsum(np.full(shape, value), axis),
        }.get(operator, np.array(n * value)),
    )
    if operator == "CumSum":
        constants = {"axes": np.array(axis)}
    elif operator == "GlobalAveragePool":
        x, node, exact, constants = x[None], "GlobalAveragePool(x)", np.array(value), {}
    elif operator == "Softmax":  # one term is 1, the others are a tenth
        x[:] = np.log(EQUAL)
        x[:, 0] = 0
        wide = np.exp(x.astype(float))
        node, exact, constants = "Softmax<axis=1>(x)", wide / wide.sum(1, keepdims=True), {}
    sizes, open_sizes = (",".join(map(str, s)) for s in (x.shape, "abc"[: x.ndim]))
    text = f"g (float[{sizes}] x) => (float[{open_sizes}] z) {{ z = {node} }}"
    return run(text, {"x": x}, target, **constants), exact


@pytest.mark.parametrize(
    ("operator", "n", "target", "axis"),
    [
        ("ReduceSum", 1_000_003, "cpu", 1),
        ("ReduceSum", 1_000_000, "cpu", 0),
        ("ReduceL1", 400_000, "cpu", 1),
        ("ReduceMean", 1_000_000, "cpu", 1),
        ("ReduceL2", 500_009, "cpu", 1),
        ("ReduceL2", 60_000, "cpu", 0),
        ("Softmax", 400_000, "cpu", 1),
        ("GlobalAveragePool", 700_000, "cpu", 1),
        ("CumSum", 300_000, "cpu", 1),
        ("CumSum", 300_000, "cpu", 0),
        ("ReduceSum", 200_003, "emu", 1),
        ("ReduceMean", 50_000, "emu", 0),
        ("CumSum", 50_000, "emu", 1),
    ],
)
def test_equal_terms_do_not_drift(operator: str, n: int, target: str, axis: int):
    result, exact = equal_terms(operator, n, target, axis)
    assert np.abs(result / exact - 1).max() <= 128 * ROUNDING
