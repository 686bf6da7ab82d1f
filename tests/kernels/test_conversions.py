"""Floats that become integers which cannot hold them: one rule in NumPy and on every target.

Rows are long enough for vector instructions, which make other integers of such floats than scalar
ones do.
"""

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.net.evaluation.rounding import cast_array
from compiler.tensors.dtypes import INTEGERS
from tests.frontend.checks import parse
from tests.frontend.interpreter.comparison import evaluate
from tests.net.test_specs import bounds_of_integers
from tests.operator_cases import Case

Array = np.ndarray
FLOATS = {"float16": "float16", "bfloat16": "bfloat16", "float32": "float", "float64": "double"}
TARGETS = ["cpu", "cpu:x86-64-v2", "cpu:x86-64-v3", "emu"]
WIDE = ["uint32", "int32", "uint64", "int64"]


def run(text: str, inputs: dict[str, Array], target: str) -> dict[str, Array]:
    """The results of a model."""
    return dict(compiler.compile(parse(text, 18), target=target, budget=0).run(inputs))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", FLOATS)
def test_casts_of_numbers_out_of_range(source: str, target: str):
    """As on x86: by way of int32 or int64, of which what does not fit becomes the least."""
    x = np.tile(bounds_of_integers(source), 5)
    shape, names = f"[{len(x)}]", sorted(INTEGERS)
    outputs = ", ".join(f"{name}{shape} {name}_y" for name in names)
    types = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in names}
    nodes = "\n".join(f"{name}_y = Cast<to={types[name]}>(x)" for name in names)
    results = run(f"g ({FLOATS[source]}{shape} x) => ({outputs}) {{ {nodes} }}", {"x": x}, target)
    for name in names:
        wanted = cast_array(x, np.dtype(name))
        np.testing.assert_array_equal(results[f"{name}_y"], wanted, err_msg=name)


@pytest.mark.parametrize(
    ("number", "least", "dtype"),
    [(-3.5, 253, "uint8"), (300.0, 44, "uint8"), (np.nan, 0, "int16"), (np.nan, -(2**31), "int32"),
     (-2147483648.5, -(2**31), "int32"), (2.0**31, -(2**31), "int32"), (-3.0, 2**32 - 3, "uint32"),
     (2.0**32, 0, "uint32"), (2.0**63, 2**63, "uint64"), (-1.0, 2**64 - 1, "uint64"),
     (2.0**64, 2**63, "uint64"), (np.inf, -(2**63), "int64")],
)  # fmt: skip
def test_the_rule(number: float, least: int, dtype: str):
    assert int(cast_array(np.array(number), np.dtype(dtype))) == least


def hidden() -> dict[str, tuple[str, Case]]:
    """Models of one operator that makes integers of floats on the way, with its use."""
    made: dict[str, tuple[str, Case]] = {}
    for dtype in WIDE:
        generator = np.random.default_rng(len(made))
        data = generator.choice(bounds_of_integers(dtype), (40, 6))
        for name in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
            text = f"""g ({dtype}[40,6] x) => ({dtype}[40,1] y) {{
                a = Constant<value_ints=[1]>() y = {name}(x, a) }}"""
            made[f"{name}_{dtype}"] = text, Case(name, [data, np.array([1])])
        a, b, c = (
            generator.choice(bounds_of_integers(dtype), s) for s in ((40, 3), (3, 20), (20,))
        )
        for alpha, beta in ((-0.5, 1.0), (0.25, -1.5), (-1.0, 2.0)):
            text = f"""g ({dtype}[40,3] a, {dtype}[3,20] b, {dtype}[20] c) => ({dtype}[40,20] y) {{
                y = Gemm<alpha={alpha}, beta={beta}>(a, b, c) }}"""
            use = Case("Gemm", [a, b, c], {"alpha": alpha, "beta": beta})
            made[f"Gemm_{alpha}_{beta}_{dtype}"] = text, use
    return made


HIDDEN = hidden()


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_casts_of_many_rows(name: str):
    text, use = HIDDEN[name]
    names = ("a", "b", "c") if use.op_type == "Gemm" else ("x",)
    inputs = dict(zip(names, use.inputs, strict=False))
    with np.errstate(all="ignore"):
        (wanted,) = evaluate(use)
    result = run(text, {k: v for k, v in inputs.items() if v is not None}, "cpu")["y"]
    np.testing.assert_array_equal(result, wanted)
