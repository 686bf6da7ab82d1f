"""Batch normalisation and per-channel constants are folded into the weights before them."""

import numpy as np
import onnx
import pytest

from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from tests.frontend.checks import assert_close, check, counts, operators, parse, run, types

GENERATOR = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    """Random float32 numbers."""
    return GENERATOR.standard_normal(shape).astype(np.float32)


def statistics(channels: int) -> dict[str, np.ndarray]:
    """Scale, bias, mean and a positive variance."""
    return {
        "s": normal(channels),
        "b": normal(channels),
        "m": normal(channels),
        "v": np.abs(normal(channels)) + 0.1,
    }


@pytest.mark.parametrize("opset", [7, 9, 14, 15, 21])
def test_batch_normalization_folds_into_a_convolution(opset: int):
    model = parse(
        """g (float[1,4,8,8] x) => (float[1,6,8,8] y) {
            [conv] c = Conv<pads=[1,1,1,1], group=2>(x, w)
            [norm] y = BatchNormalization<epsilon=0.01>(c, s, b, m, v)
        }""",
        opset,
        w=normal(6, 2, 3, 3),
        **statistics(6),
    )
    (conv,) = operators(check(model))
    assert (conv.type_name, conv.node_name) == ("Conv", "conv")
    assert len(conv.inputs) == 3


def test_batch_normalization_folds_into_a_grouped_transposed_convolution():
    model = parse(
        """g (float[1,4,5,5] x) => (float[1,6,11,11] y) {
            c = ConvTranspose<strides=[2,2], group=2>(x, w, o)
            y = BatchNormalization(c, s, b, m, v)
        }""",
        w=normal(4, 3, 3, 3),
        o=normal(6),
        **statistics(6),
    )
    assert types(check(model)) == ["ConvTranspose"]


@pytest.mark.parametrize("transposed", [0, 1])
def test_batch_normalization_folds_into_a_gemm(transposed: int):
    model = parse(
        f"""g (float[3,4] x) => (float[3,6] y) {{
            c = Gemm<alpha=0.5, beta=2.0, transB={transposed}>(x, w, o)
            y = BatchNormalization(c, s, b, m, v)
        }}""",
        w=normal(6, 4) if transposed else normal(4, 6),
        o=normal(6),
        **statistics(6),
    )
    assert types(check(model)) == ["Gemm"]


def test_mul_and_add_by_channel_fold_too():
    model = parse(
        """g (float[1,4,6,6] x) => (float[1,5,6,6] y) {
            c = Conv(x, w)
            a = Mul(c, s)
            d = Add(t, a)
            e = Sub(d, u)
            y = Div(e, r)
        }""",
        w=normal(5, 4, 1, 1),
        s=normal(5, 1, 1),
        t=normal(1, 5, 1, 1),
        u=np.float32(0.3),
        r=np.array([2.0], np.float32),
    )
    assert types(check(model)) == ["Conv"]


def test_two_uses_of_a_convolution_keep_the_normalization_apart():
    model = parse(
        """g (float[1,4,6,6] x) => (float[1,5,6,6] y, float[1,5,6,6] z) {
            c = Conv(x, w)
            [norm] y = BatchNormalization(c, s, b, m, v)
            z = Relu(c)
        }""",
        w=normal(5, 4, 1, 1),
        **statistics(5),
    )
    imported = check(model)
    assert counts(imported) == {"Conv": 1, "Mul": 1, "Add": 1, "Relu": 1}
    names = {op.type_name: op.node_name for op in operators(imported)}
    assert names["Add"] == "norm"
    assert names["Mul"] == "norm/Mul"


def test_a_convolution_that_is_an_output_keeps_its_weights():
    model = parse(
        """g (float[1,4,6,6] x) => (float[1,5,6,6] c, float[1,5,6,6] y) {
            c = Conv(x, w)
            y = Mul(c, s)
        }""",
        w=normal(5, 4, 1, 1),
        s=normal(5, 1, 1),
    )
    assert types(check(model)) == ["Conv", "Mul"]


def test_a_shared_weight_is_folded_for_one_convolution_only():
    model = parse(
        """g (float[1,4,6,6] x) => (float[1,4,6,6] y) {
            c = Conv(x, w)
            n = Mul(c, s)
            y = Conv(n, w)
        }""",
        w=normal(4, 4, 1, 1),
        s=normal(4, 1, 1),
    )
    imported = check(model)
    assert types(imported) == ["Conv", "Conv"]
    assert len(imported.weights) == 3


def test_a_chain_without_a_convolution_collapses():
    model = parse(
        """g (float[2,3,4,4] x) => (float[2,3,4,4] y) {
            r = Relu(x)
            n = BatchNormalization(r, s, b, m, v)
            p = Mul(n, k)
            y = Add(p, l)
        }""",
        k=normal(3, 1, 1),
        l=normal(3, 1, 1),
        **statistics(3),
    )
    assert types(check(model)) == ["Relu", "Mul", "Add"]


def check_with(model: onnx.ModelProto, x: np.ndarray, operator_types: list[str]) -> None:
    """The operators after import, and the result for an input."""
    imported = import_model(model)
    assert types(imported) == operator_types
    again = export_model(imported.module, imported.weights)
    assert_close(run(again, {"x": x}), run(model, {"x": x}))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "first", "second"),
    [
        (np.float16, 300, 300),
        (np.float16, 1e-4, 1e-4),
        (np.float16, 1.1e-3, 1.1e-3),
        (np.float32, 1e30, 1e30),
        (np.float64, 1e300, 1e300),
    ],
)
def test_constants_that_overflow_their_type_are_not_folded(
    dtype: type[np.floating], first: float, second: float
):
    name = {"float16": "float16", "float32": "float", "float64": "double"}[np.dtype(dtype).name]
    model = parse(
        f"g ({name}[1,3] x) => ({name}[1,3] y) {{ a = Mul(x, s) y = Mul(a, t) }}",
        s=dtype(first),
        t=dtype(second),
    )
    check_with(model, np.array([[1 / first, 0, -1 / second]], dtype), ["Mul", "Mul"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
def test_weights_that_would_overflow_stay(operator: str):
    model = parse(
        f"""g (float[1,2,3,3] x) => (float[1,2,3,3] y) {{
            c = {operator}(x, w, b)
            d = Mul(c, s)
            e = Mul(d, t)
            y = Add(e, t)
        }}""",
        w=np.full((2, 2, 1, 1), 1e30, np.float32),
        b=np.zeros(2, np.float32),
        s=np.float32(1e10),
        t=np.float32(2),
    )
    x = np.full((1, 2, 3, 3), 1e-10, np.float32) * np.array([1, -1, 0], np.float32)
    check_with(model, x, [operator, "Mul", "Add"])


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "Gemm"])
def test_weights_that_would_lose_bits_stay(operator: str):
    """Products of 1.2e-6 have four bits as fp16's subnormal numbers."""
    shape, kernel = ("1,2,3,3", (2, 2, 1, 1)) if "Conv" in operator else ("3,2", (2, 2))
    model = parse(
        f"""g (float16[{shape}] x) => (float16[{shape}] y) {{
            c = {operator}(x, w)
            y = Mul(c, s)
        }}""",
        w=np.full(kernel, 1.1e-3, np.float16),
        s=np.float16(1.1e-3),
    )
    x = np.full([int(size) for size in shape.split(",")], 3e4, np.float16)
    check_with(model, x, [operator, "Mul"])


def test_single_weights_may_lose_bits_among_larger_ones():
    model = parse(
        """g (float16[1,2,3,3] x) => (float16[1,2,3,3] y) {
            c = Conv(x, w)
            y = Mul(c, s)
        }""",
        w=np.array([[1, 1e-5], [1e-5, 1]], np.float16)[:, :, None, None],
        s=np.float16(0.3),
    )
    check_with(model, normal(1, 2, 3, 3).astype(np.float16), ["Conv"])


@pytest.mark.filterwarnings("error")
def test_statistics_whose_shift_would_overflow_stay():
    one = np.ones(2, np.float16)
    model = parse(
        "g (float16[1,2,3] x) => (float16[1,2,3] y) { y = BatchNormalization(x, s, b, m, v) }",
        **{"s": one * 1000, "b": one, "m": one * 1000, "v": one},
    )
    x = np.array([[[1000, 1001, 999], [1010, 990, 1000]]], np.float16)
    check_with(model, x, ["BatchNormalization"])


def test_a_gemm_that_is_not_folded_keeps_beta():
    model = parse(
        """g (float[3,4] x) => (float[3,6] y) {
            c = Gemm<beta=2.0>(x, w, b)
            y = Mul(c, s)
        }""",
        w=normal(4, 6),
        b=np.full(6, 1e10, np.float32),
        s=np.float32(2e28),
    )
    assert types(check(model)) == ["Gemm", "Mul"]


def test_a_constant_that_varies_in_space_stays():
    model = parse(
        """g (float[1,4,6,6] x) => (float[1,5,6,6] y) {
            c = Conv(x, w)
            y = Mul(c, s)
        }""",
        w=normal(5, 4, 1, 1),
        s=normal(5, 6, 6),
    )
    assert types(check(model)) == ["Conv", "Mul"]


def test_a_mul_that_broadcasts_the_convolution_stays():
    model = parse(
        """g (float[1,4,1,1] x) => (float[1,5,6,6] y) {
            c = Conv(x, w)
            y = Add(c, s)
        }""",
        w=normal(5, 4, 1, 1),
        s=normal(5, 6, 6),
    )
    assert types(check(model)) == ["Conv", "Add"]


def test_normalization_by_activation_of_opset_7():
    values = {"s": normal(3, 4), "b": normal(3, 4), "m": normal(3, 4), "v": np.abs(normal(3, 4))}
    model = parse(
        "g (float[2,3,4] x) => (float[2,3,4] y) {"
        " y = BatchNormalization<spatial=0>(x, s, b, m, v) }",
        7,
        **values,
    )
    from compiler.frontend.interpreter import interpret

    imported = import_model(model)
    x = normal(2, 3, 4)
    factor = values["s"] / np.sqrt(values["v"] + 1e-5)
    expected = (x - values["m"]) * factor + values["b"]
    got = interpret(imported.module, imported.weights, {"x": x})["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
