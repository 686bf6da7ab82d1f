"""Weights that a run selects from, in 16 bits."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.dataflow import WeightOp
from compiler.ir.types import dtype_of
from tests.apply_passes import graph_of
from tests.graphs import GraphBuilder
from tests.passes.graph.test_reduce_precision import CUDA, reduced
from tests.strategies import Model


@pytest.mark.parametrize("selects", ["Gather", "GatherND"])
def test_weights_that_a_run_selects_are_stored_as_what_they_multiply(selects: str):
    """As the experts that a router chooses for a token: their bytes take the time."""
    b = GraphBuilder()
    x, chosen = b.input("x", (4, 16)), b.input("chosen", (4, 1), "int64")
    table = b.weight(np.random.default_rng(5).standard_normal((8, 16, 24)).astype(np.float32))
    kind: dict[str, Any] = {"axis": 0} if selects == "Gather" else {"batch_dims": 0}
    shape = (4, 1, 16, 24) if selects == "Gather" else (4, 16, 24)
    matrices = b.op(selects, table, chosen, shape=shape, **kind)
    terms = "td,tkdh->th" if selects == "Gather" else "td,tdh->th"
    y = b.op("Einsum", b.op("Tanh", x), matrices, shape=(4, 24), equation=terms)
    draw = np.random.default_rng(6)
    inputs: dict[str, NDArray[Any]] = {"x": draw.standard_normal((4, 16)).astype(np.float32),
              "chosen": draw.integers(0, 8, (4, 1))}  # fmt: skip
    model = Model(b.finish(y), b.weights, inputs)
    exact = interpret(model.module, model.weights, inputs)
    set_target(model.module, CUDA)
    reduced(model, "float16")
    (weight,) = [op for op in graph_of(model).body.block.ops if isinstance(op, WeightOp)]
    assert dtype_of(weight.output.type) == "float16"
    for name, array in interpret(model.module, model.weights, inputs).items():
        np.testing.assert_allclose(array, exact[name], atol=5e-3 * np.abs(exact[name]).max())
