"""Cases where ONNX's text, its shape inference and onnxruntime do not agree."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.errors import ModelError, ShapeError
from tests.frontend.checks import parse

TARGETS = ("cpu", "emu")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bij,bjk->bik", [(1, 2, 3), (5, 3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (1, 3, 4)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("i,i->i", [(1,), (4,)]),
        ("...i,...i", [(1, 4), (3, 1)]),
        ("bij,bjk,b->ik", [(1, 2, 1), (5, 3, 4), (1,)]),
    ],
)
def test_a_letter_of_size_one_is_broadcast(
    equation: str, shapes: list[tuple[int, ...]], target: str
):
    arrays = [np.random.default_rng(i).normal(size=s).astype("f4") for i, s in enumerate(shapes)]
    expected = np.einsum(equation, *arrays)
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = ", ".join(f"float{list(a.shape)} {n}" for n, a in zip(names, arrays, strict=True))
    text = f"g ({inputs}) => (float{list(expected.shape)} y) {{"
    model = parse(text + f' y = Einsum<equation = "{equation}">({", ".join(names)}) }}')
    module = compiler.compile(model, target=target)
    found = module.run(dict(zip(names, arrays, strict=True)))["y"]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (5,), ()])
def test_a_gemm_with_beta_zero_does_not_read_c(shape: tuple[int, ...], known: bool, target: str):
    random = np.random.default_rng(0)
    a, b = (random.normal(size=s).astype("f4") for s in ((3, 4), (4, 5)))
    c = random.choice([np.nan, np.inf, -np.inf], shape).astype("f4")
    weights = {"c": c} if known else {}
    given = "" if known else f", float{list(shape)} c" if shape else ", float c"
    text = f"g (float[3,4] a, float[4,5] b{given}) => (float[3,5] y) {{"
    model = parse(text + " y = Gemm<alpha = 2.0, beta = 0.0>(a, b, c) }", **weights)
    feeds = {"a": a, "b": b} | ({} if known else {"c": c})
    found = compiler.compile(model, target=target).run(feeds)["y"]
    np.testing.assert_allclose(found, 2 * (a @ b), 1e-5, 1e-5)


@pytest.mark.parametrize("target", [None, *TARGETS])
@pytest.mark.parametrize(
    ("dtype", "factors"),
    [
        ("int32", (0.5, 1.0)),
        ("int64", (1.5, 0.5)),
        ("uint32", (1.0, 0.25)),
        ("uint64", (3.0, 2.0)),
        ("int64", (0.0, 0.5)),
    ],
)
def test_a_gemm_of_integers_is_truncated_once(
    factors: tuple[float, float], dtype: str, target: str | None
):
    """onnxruntime has no such Gemm; without a target it is folded."""
    random = np.random.default_rng(3)
    arrays = [random.integers(0, 100, s).astype(dtype) for s in ((5, 3), (3, 4), (4,))]
    names = dict(zip("abc", arrays, strict=True))
    node = "Gemm<alpha = {}, beta = {}>".format(*factors)
    inputs = f"{dtype}[5,3] a, {dtype}[3,4] b, {dtype}[4] c"
    text = f"g ({inputs}) => ({dtype}[5,4] y) {{ y = {node}(a, b, c) }}"
    evaluator: Any = ReferenceEvaluator(parse(text))
    (wanted,) = evaluator.run(None, names)
    if target is None:
        text = f"g ({dtype}[5,4] x) => ({dtype}[5,4] y) {{ g = {node}(a, b, c) y = Add(x, g) }}"
        zero = np.zeros((5, 4), dtype)
        found = compiler.compile(parse(text, **names), budget=0).run({"x": zero})["y"]
    else:
        found = compiler.compile(parse(text), target=target, budget=0).run(names)["y"]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("known", [False, True])
def test_whole_factors_of_integers_wrap_around(known: bool):
    """A factor beyond the type, and a result of more digits than float64 has."""
    a, b = np.array([[3]], np.int32), np.array([[2**62 + 1]], np.int64)
    values = {"a": a, "b": b, "c": np.array([[3]], np.int64)}
    if known:
        inputs, weights = "int32[1,1] p, int64[1,1] q", values
    else:
        inputs, weights = "int32[1,1] p, int64[1,1] q, int32[1,1] a, int64[1,1] b, int64[1,1] c", {}
    text = f"""g ({inputs}) => (int32[1,1] y, int64[1,1] z) {{
        s = Gemm<alpha = 10000000000.0>(a, a)  t = Gemm<alpha = 3.0>(b, c)
        y = Add(p, s)  z = Add(q, t) }}"""
    zeros = {"p": np.zeros((1, 1), np.int32), "q": np.zeros((1, 1), np.int64)}
    feeds = zeros if known else {**zeros, **values}
    found = compiler.compile(parse(text, **weights), budget=0).run(feeds)
    exact = 9 * 10**10, 9 * (2**62 + 1)
    for array, number in zip(found.values(), exact, strict=True):
        assert (int(array[0, 0]) - number) % 2 ** (8 * array.dtype.itemsize) == 0


def test_a_gemm_of_constants_with_beta_zero():
    a, c = np.eye(3, dtype="f4"), np.full((3, 3), np.nan, np.float32)
    text = "g (float[3,3] x) => (float[3,3] y) { g = Gemm<beta = 0.0>(a, a, c) y = Add(x, g) }"
    found = compiler.compile(parse(text, a=a, c=c)).run({"x": a})["y"]
    np.testing.assert_array_equal(found, 2 * a)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(), (7,), (2, 600)])
def test_zeros_are_quantised_by_a_scale_of_one(shape: tuple[int, ...], target: str):
    size = str(list(shape)) if shape else ""
    text = f"g (float{size} x) => (uint8{size} q, float s, uint8 z, float{size} d) {{"
    model = parse(text + " q, s, z = DynamicQuantizeLinear(x) d = Div(x, s) }")
    found = compiler.compile(model, target=target).run({"x": np.zeros(shape, "f4")})
    assert found["s"] == 1
    assert found["z"] == 0
    assert found["s"].shape == ()
    assert not found["q"].any()
    assert not found["d"].any()
    assert found["q"].dtype == np.uint8
    assert found["q"].shape == shape


def test_a_matmul_of_two_vectors_of_bytes_is_a_scalar():
    one = {"s": np.array([0.05], "f4"), "z": np.array([3], np.uint8)}
    text = "g (uint8[3] a, uint8[3] b) => (uint8 y) { y = QLinearMatMul(a, s, z, b, s, z, s, z) }"
    a, b = np.array([10, 20, 200], np.uint8), np.array([1, 100, 7], np.uint8)
    found = compiler.compile(parse(text, **one)).run({"a": a, "b": b})["y"]
    total = float((a.astype(int) - 3) @ (b.astype(int) - 3))
    limits = ml_dtypes.iinfo("uint8")
    assert found == np.clip(np.rint(total * 0.05) + 3, limits.min, limits.max)
    assert found.shape == ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", ["3", "n"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op_type", ["Mean", "Sum"])
def test_a_sum_of_several_narrow_floats_is_rounded_once(
    op_type: str, dtype: str, shape: str, target: str
):
    kind = f"{dtype}[{shape}]"
    text = f"g ({kind} x, {kind} w, {kind} z) => ({kind} y) {{ y = {op_type}(x, w, z) }}"
    values = [[212, 40000, 1], [0, 40000, 2048], [0, -40000, 1]]
    feeds = {
        name: np.array(row).astype(np.dtype(dtype)) for name, row in zip("xwz", values, strict=True)
    }
    wide = np.sum([array.astype("f8") for array in feeds.values()], axis=0)
    expected = (wide / 3 if op_type == "Mean" else wide).astype(np.dtype(dtype))
    found = compiler.compile(parse(text), target=target).run(feeds)["y"]
    np.testing.assert_array_equal(found.astype("f8"), expected.astype("f8"))


@pytest.mark.parametrize("keepdims", [0, 1])
def test_an_axis_without_elements_is_split_into_nothing(keepdims: int):
    text = "g (float[a, 2] x) => (seq(float[b, 2]) y)"
    model = parse(f"{text} {{ y = SplitToSequence<axis = 0, keepdims = {keepdims}>(x) }}")
    assert compiler.compile(model).run({"x": np.zeros((0, 2), "f4")})["y"] == []


def test_padding_no_axes_changes_nothing():
    text = """g (float[a, b] x) => (float[a, b] y) {
        none = Constant<value_ints = [0]>()
        first = Constant<value_ints = [0]>()
        nothing = Slice(none, first, first)
        y = Pad(x, nothing, , nothing)
    }"""
    x = np.ones((2, 3), "f4")
    np.testing.assert_array_equal(compiler.compile(parse(text)).run({"x": x})["y"], x)


def test_an_attention_has_no_scale_without_a_root():
    """By the text Q and K are multiplied by it: of a negative one every result would be NaN."""
    head = "float[1, 2, 3, 4] q, float[1, 2, 5, 4] k, float[1, 2, 5, 4] v"
    text = f"g ({head}) => (float[1, 2, 3, 4] y) {{ y = Attention<scale = -1.0>(q, k, v) }}"
    model = parse_model(f'<ir_version: 11, opset_import: ["": 23]> {text}')
    with pytest.raises(ModelError, match=r"its scale is -1\.0, of which Q and K"):
        compiler.compile(model)


def test_an_attention_has_a_value_for_each_key():
    """Also where as many values as keys are left after the past is put before them."""
    head = "float[1, 2, 3, 4] q, float[1, 2, 5, 4] k, float[1, 2, 1, 4] v"
    head += ", float[1, 2, 1, 4] past_k, float[1, 2, 5, 4] past_v"
    node = "y, present_k, present_v = Attention(q, k, v, , past_k, past_v)"
    text = f"g ({head}) => (float[1, 2, 3, 4] y) {{ {node} }}"
    model = parse_model(f'<ir_version: 11, opset_import: ["": 23]> {text}')
    with pytest.raises(ShapeError, match=r"its keys .* and values .* differ in number"):
        compiler.compile(model)


def test_an_attention_has_operands_of_one_rank():
    head = "float[1, 2, 3, 4] q, float[1, 2, 5, 4] k, float[1, 5, 8] v"
    text = f"g ({head}) => (float[1, 2, 3, 4] y) {{ y = Attention(q, k, v) }}"
    model = parse_model(f'<ir_version: 11, opset_import: ["": 23]> {text}')
    with pytest.raises(ShapeError, match=r"its Q, K and V have \[4, 4, 3\] axes"):
        compiler.compile(model)
