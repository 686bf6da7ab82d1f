"""Tensors that would be no faster, but wrong, in 16 bits."""

import numpy as np
import pytest
from onnx import parser

from compiler.frontend.importing import import_model
from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.dataflow import GroupOp
from compiler.ir.types import dtype_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.graphs import GraphBuilder
from tests.strategies import Model


@pytest.mark.parametrize(
    ("shape", "follows", "kept"),
    [((1, 1), "Neg", True), ((2, 1), "Neg", False), ((2, 1), "Cast", True)],
    ids=["one element", "two elements", "to integers"],
)
def test_scales_and_what_becomes_integers_stay(shape: tuple[int, ...], follows: str, kept: bool):
    b = GraphBuilder()
    scale = b.op("Relu", b.input("x", shape), shape=shape)
    if follows == "Cast":
        result = b.op("Cast", scale, shape=shape, dtype="int32", to=6)
    else:
        result = b.op("Neg", scale, shape=shape)
    model = Model(b.finish(result), b.weights, {"x": np.full(shape, 4099, np.float32)})
    exact = interpret(model.module, model.weights, model.inputs)
    passes = "fuse-operators{max-ops=1},reduce-precision{storage=float16}"
    Runner().run(model.module, parse(passes))
    (found,) = interpret(model.module, model.weights, model.inputs).values()
    (wanted,) = exact.values()
    assert np.array_equal(found, wanted) == kept


def stored(*results: str) -> dict[str, str]:
    """The type in which each operator of a model stores its result in fp16."""
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[4,32] x, float[32,4] w) => ({", ".join(f"float[4,N] {r}" for r in results)}) {{
          last = Constant <value_ints = [1]> ()
          a = Neg (x)  b = Exp (x)
          low = ReduceMin <keepdims = 1> (a, last)  high = ReduceMax <keepdims = 1> (b, last)
          s = Add (low, low)  t = Add (high, high)
          p = MatMul (a, w)
        }}"""
    )
    module = import_model(model).module
    set_target(module, "cuda:sm_90:fp16")
    Runner().run(module, parse("fuse-operators{max-ops=1},reduce-precision"))
    types: dict[str, str] = {}
    for op in module.walk():
        if isinstance(op, GroupOp):
            (own,) = (inner.type_name for inner in op.operators if inner.type_name != "Cast")
            types[own] = dtype_of(op.outputs[0].type)
    return types


def test_extremes_are_stored_as_what_they_are_of():
    types = stored("s", "t")
    assert types["ReduceMin"] == "float16"
    assert types["ReduceMax"] == "float32"


def test_a_contraction_reads_both_operands_as_one_type():
    assert stored("p")["Neg"] == "float32"
    assert stored("s")["Neg"] == "float16"
