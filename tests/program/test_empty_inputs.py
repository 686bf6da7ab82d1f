"""Tensors without elements: batches of none, and updates of nothing."""

import numpy as np
import onnx
import pytest

import compiler
from compiler.errors import ShapeError
from tests.frontend.checks import parse
from tests.program.checks import assert_equal, check, compiled, model_of, reference

RANDOM = np.random.default_rng(0)
SUMS = {
    "MatMul(a, b)": "float[4, 0] a, float[0, 8] b",
    'Einsum<equation = "ij,jk">(a, b)': "float[4, 0] a, float[0, 8] b",
    'Einsum<equation = "ij,i->i">(a, b)': "float[4, 0] a, float[4] b",
    "Gemm<transA = 1, transB = 1>(a, b)": "float[0, 4] a, float[8, 0] b",
    "Conv(a, b)": "float[2, 0, 8, 8] a, float[5, 0, 3, 3] b",
    "ConvTranspose(a, b)": "float[2, 0, 8, 8] a, float[0, 5, 3, 3] b",
}
"""The operands of which sums have no terms, by operator."""


def test_convolutions_of_a_batch_of_none():
    text = """g (float[n, 4, 6, 6] x, float[4, 4, 3, 3] w, float[4, 2, 3, 3] v, float[4] bias) =>
        (float[n, 4, a, b] p, float[n, 4, c, d] q, float[n, 4, e, f] r) {
            p = Conv<pads = [1, 1, 1, 1]>(x, w)
            q = Conv<group = 2>(x, v)
            r = ConvTranspose<group = 2, strides = [2, 2]>(x, v, bias)
        }"""
    module = compiled(text)
    for batch in (0, 2):
        shapes = {"x": (batch, 4, 6, 6), "w": (4, 4, 3, 3), "v": (4, 2, 3, 3), "bias": (4,)}
        inputs = {name: RANDOM.standard_normal(shape) for name, shape in shapes.items()}
        check(module, model_of(text), {name: x.astype(np.float32) for name, x in inputs.items()})


def test_a_scatter_of_no_updates_is_a_copy():
    model = model_of(
        """g (float[7, 3] x, int64[0, 3] i, float[0, 3] u) => (float[7, 3] y) {
            y = ScatterElements<axis = 0, reduction = "add">(x, i, u)
        }"""
    )
    x = RANDOM.standard_normal((7, 3)).astype(np.float32)
    inputs = {"x": x, "i": np.zeros((0, 3), np.int64), "u": np.zeros((0, 3), np.float32)}
    found = compiler.compile(model, dynamic=False).run(inputs)
    assert_equal(found["y"], reference(model, inputs)["y"])


def zeros_for(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Inputs of fixed sizes."""
    given: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        given[info.name] = np.zeros([size.dim_value for size in kind.shape.dim], dtype)
    return given


@pytest.mark.parametrize("target", ["cpu", "emu"])
@pytest.mark.parametrize("operator", SUMS)
def test_sums_of_no_terms_are_zero(operator: str, target: str):
    """Integers show what is left in a register: as a float it is often next to zero."""
    text = f"s = {operator} c = Cast<to = 6>(s) n = Neg(c) y = ReduceMax<keepdims = 0>(n)"
    model = parse(f"g ({SUMS[operator]}) => (int32 y) {{ {text} }}")
    assert compiler.compile(model, target=target).run(zeros_for(model))["y"] == 0


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_results_of_no_elements(target: str):
    model = parse(
        """g (float[0, 16] x, int64[0, 2] i, float[0, 4, 8, 8] image, float[3, 0, 4] steps)
            => (float[0, 2, 24] p, float[0, 16] q, float[0, 6, 6, 6] r, float[3, 1, 0, 5] s) {
            chosen = Gather<axis = 0>(matrices, i)
            p = Einsum<equation = "td,tkdh->tkh">(x, chosen)
            q = Softmax(x)
            r = Conv(image, filter)
            s = LSTM<hidden_size = 5>(steps, input, own)
        }""",
        matrices=np.ones((8, 16, 24), np.float32),
        filter=np.ones((6, 4, 3, 3), np.float32),
        input=np.ones((1, 20, 4), np.float32),
        own=np.ones((1, 20, 5), np.float32),
    )
    found = compiler.compile(model, target=target).run(zeros_for(model))
    shapes = {name: result.shape for name, result in found.items()}
    assert shapes == {"p": (0, 2, 24), "q": (0, 16), "r": (0, 6, 6, 6), "s": (3, 1, 0, 5)}


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_a_recurrence_of_no_features(target: str):
    """It computes what it does of zeros."""
    own = np.full((1, 20, 5), 0.25, np.float32)
    bias = np.full((1, 40), 0.5, np.float32)
    none, single = (
        parse(
            f"""g (float[3, 2, {width}] x) => (float[3, 1, 2, 5] y) {{
                y = LSTM<hidden_size = 5>(x, w, own, bias) }}""",
            w=np.ones((1, 20, width), np.float32),
            own=own,
            bias=bias,
        )
        for width in (0, 1)
    )
    found = compiler.compile(none, target=target).run(zeros_for(none))["y"]
    expected = reference(single, zeros_for(single))["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-3 if target == "emu" else 1e-6)


@pytest.mark.parametrize("size", [0, "n"])
@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        ("GlobalAveragePool(t)", r"its input \[2, 1, 0\] has no pixels"),
        ("DFT<axis = 1>(x)", r"axis 1 of the input of shape \[2, 0, 1\] has no elements"),
    ],
)
def test_what_needs_elements_is_refused(operator: str, reason: str, size: int | str):
    text = f"t = Transpose<perm = [0, 2, 1]>(x) y = {operator}"
    model = parse(f"g (float[2, {size}, 1] x) => (float[a, b, c] y) {{ {text} }}")
    with pytest.raises(ShapeError, match=reason):
        compiler.compile(model).run({"x": np.zeros((2, 0, 1), np.float32)})
