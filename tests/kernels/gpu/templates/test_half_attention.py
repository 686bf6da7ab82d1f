"""Attention of models in 16 bits is one kernel, whatever precision is asked for."""

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import compiler
from compiler.kernels.building.select import best
from compiler.target.target import parse_gpu
from tests.kernels.gpu.templates.test_attention import BOUNDS, emulated
from tests.kernels.gpu.templates.test_attention_operands import attentions

FORMS = {
    "plain": "weights = Softmax <axis = -1> (raw)",
    "scaled": """
        scores = Mul (raw, scale)
        weights = Softmax <axis = -1> (scores)
    """,
    "places": """
        scores = Add (places, raw)
        weights = Softmax <axis = -1> (scores)
    """,
    "a softmax in float32": """
        scores = Mul (raw, scale)
        wide = Cast <to = 1> (scores)
        shares = Softmax <axis = -1> (wide)
        weights = CastLike (shares, q)
    """,
    "left out": """
        scores = Where (kept, raw, lowest)
        weights = Softmax <axis = -1> (scores)
    """,
}
"""How scores become weights."""

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
halves ({dtype}[2,2,9,16] q0, {dtype}[2,2,11,16] k0, {dtype}[2,2,11,16] v0)
    => ({dtype}[2,2,9,16] y)
{{
    q = Neg (q0)
    k = Neg (k0)
    v = Neg (v0)
    columns = Transpose <perm = [0,1,3,2]> (k)
    raw = MatMul (q, columns)
    {form}
    seen = MatMul (weights, v)
    y = Mul (seen, scale)
}}
"""

DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
PLACES = np.random.default_rng(5).standard_normal((1, 2, 9, 11))
KEPT = np.random.default_rng(6).random((9, 11)) < 0.8
LIKE = {"float16": "fp16", "bfloat16": "bf16"}


def model(form: str, dtype: str) -> ModelProto:
    """Attention with inputs and constants of a type, and the form's mask or scale."""
    found = parser.parse_model(MODEL.format(form=FORMS[form], dtype=dtype))
    numbers = {"places": PLACES, "scale": np.array(0.5), "lowest": np.array(-1e4)}
    arrays = {name: array.astype(DTYPES[dtype]) for name, array in numbers.items()}
    for name, array in {**arrays, "kept": KEPT}.items():
        if name in {value for node in found.graph.node for value in node.input}:
            found.graph.initializer.append(numpy_helper.from_array(array, name))
    return found


def expected(form: str, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The result in float64."""
    scores = q @ k.swapaxes(2, 3)
    if form == "places":
        scores = scores + PLACES
    elif form == "left out":
        scores = np.where(KEPT, scores, -1e4)
    elif form != "plain":
        scores = scores / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return -(weights / weights.sum(-1, keepdims=True) @ v) / 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_kernel_in_the_models_precision(form: str, dtype: str):
    (group,) = attentions(model(form, dtype), "tf32")
    assert [op.type for op in group.operators].count("MatMul") == 2
    found = best(group, parse_gpu("cuda:sm_90:tf32"))
    assert found is not None
    assert found.candidate.problem.precision == LIKE[dtype]
    assert found.candidate.problem.chunks
    assert not found.candidate.problem.rounded


@emulated
@pytest.mark.parametrize(
    ("form", "dtype", "precision"),
    [
        ("places", "float16", "fp32"),
        ("a softmax in float32", "bfloat16", "tf32"),
        ("left out", "float16", "fp16"),
    ],
)
def test_results(form: str, dtype: str, precision: str):
    chance = np.random.default_rng(7)
    shapes = {"q0": (2, 2, 9, 16), "k0": (2, 2, 11, 16), "v0": (2, 2, 11, 16)}
    inputs = {n: chance.standard_normal(s).astype(DTYPES[dtype]) for n, s in shapes.items()}
    wanted = expected(form, *(array.astype("float64") for array in inputs.values()))
    module = compiler.compile(model(form, dtype), target="emu", precision=precision)
    found = module.run(inputs)["y"].astype("float64")
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert error < 2 * BOUNDS[LIKE[dtype]]
