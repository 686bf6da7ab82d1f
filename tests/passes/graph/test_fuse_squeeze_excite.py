"""Which operators become one squeeze-and-excitation, and that their results stay the same."""

import numpy as np
import pytest

from compiler.graph.targets import set_target
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.strategies import Model

WHOLE = ["ReduceMean", "Conv", "Relu", "Conv", "HardSigmoid", "Mul"]


def excited(target: str, side: int = 5, twice: bool = False) -> Model:
    """Channels scaled by a function of their means; `twice` with another reader of these."""
    b, rng = GraphBuilder(), np.random.default_rng(0)
    x = b.op("Relu", b.input("x", (1, 8, side, side)), shape=(1, 8, side, side))
    mean = b.op("ReduceMean", x, b.constant((2, 3), "int64"), shape=(1, 8, 1, 1), keepdims=1)
    weights = [b.weight(rng.standard_normal(s).astype("f")) for s in ((3, 8, 1, 1), (8, 3, 1, 1))]
    hidden = b.op("Relu", b.op("Conv", mean, weights[0], shape=(1, 3, 1, 1)), shape=(1, 3, 1, 1))
    gate = b.op("Conv", hidden, weights[1], shape=(1, 8, 1, 1))
    gate = b.op("HardSigmoid", gate, shape=(1, 8, 1, 1))
    results = [b.op("Mul", x, gate, shape=(1, 8, side, side))]
    results += [b.op("Tanh", mean, shape=(1, 8, 1, 1))] if twice else []
    inputs = {"x": rng.standard_normal((1, 8, side, side)).astype("f")}
    model = Model(b.finish(*results), b.weights, inputs)
    set_target(model.module, target)
    return model


def test_it_is_one_kernel():
    graph = run(excited("cuda:sm_90:fp16"), "fuse-squeeze-excite,fuse-operators")
    assert WHOLE in nodes_of(graph)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80:fp16", "hip:gfx90a:fp16"])
def test_targets_without_such_a_kernel(target: str):
    assert not nodes_of(run(excited(target), "fuse-squeeze-excite"))


def test_means_that_are_needed_elsewhere():
    assert not nodes_of(run(excited("cuda:sm_90:fp16", twice=True), "fuse-squeeze-excite"))


def test_large_images():
    assert not nodes_of(run(excited("cuda:sm_90:fp16", side=512), "fuse-squeeze-excite"))
