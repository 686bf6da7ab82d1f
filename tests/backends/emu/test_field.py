"""Networks of the field, the first nodes of larger ones, on the emulator against onnxruntime."""

import numpy as np
import onnx
import pytest

import compiler
from compiler.tools.reference import run_onnxruntime
from examples import field, light
from tests.backends.emu import reduced
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.gpu_kernels_prepare import BOUNDS

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

NODES = {
    "cached_step": 40,
    "chunked_scan": 40,
    "dgcnn": 24,
    "dit": 40,
    "gathered_experts": 14,
    "graph_attention": 28,
    "hyena": 30,
    "instant_ngp": 40,
    "kalman": 60,
    "log_mel": 20,
    "nafnet": 10,
    "selective_scan": 32,
    "switch_experts": 40,
    "vq_vae": 20,
}
"""How many nodes are kept of networks of kinds that the zoo lacks."""
QUICK = ("instant_ngp",)
"""The network that takes seconds."""


ROUNDED = ("instant_ngp", "log_mel", "vq_vae")
"""Networks that 16 bits round too much: places among 273 cells, logarithms of a least power, the
nearest of codes."""

CASES = [
    pytest.param(name, precision, marks=() if name in QUICK else pytest.mark.deep)
    for name in NODES
    for precision in ("tf32", "fp16")
    if precision == "tf32" or name not in ROUNDED
]


def first_nodes(name: str) -> onnx.ModelProto:
    """The first nodes of a network; the results of the last of them are outputs."""
    model = onnx.load_model_from_string(field.path(name).read_bytes())
    model.graph.name = name
    if NODES[name] < len(model.graph.node):
        reduced.cut(model, NODES[name])
    light.refill(model)
    return model


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_first_nodes(name: str, precision: str):
    model = first_nodes(name)
    inputs = field.random_inputs(model, seed=1)
    expected = run_onnxruntime(model, inputs)
    results = compiler.compile(model, target="emu", precision=precision, budget=0).run(inputs)
    for key, array in expected.items():
        if array.dtype.kind == "f":
            error = np.linalg.norm(results[key] - array) / (np.linalg.norm(array) or 1)
            assert error < 4 * BOUNDS[precision], key
        else:
            assert np.mean(results[key] != array) < BOUNDS[precision], key
