"""Tensors that would be no faster, but wrong, in 16 bits."""

import numpy as np
import pytest

from compiler.frontend.interpreter import interpret
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
