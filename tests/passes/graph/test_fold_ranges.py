"""Which kernels find the range of what they compute, and that results stay the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.frontend.export import export_model
from compiler.frontend.importing.model import Imported
from compiler.frontend.interpreter import interpret
from compiler.graph.fusion.ranges import LEAST_ELEMENTS, MOST_PARTS, range_parts
from compiler.graph.targets import set_target
from compiler.ir.edit import graphs_of
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner, verify
from tests.apply_passes import nodes_of
from tests.frontend import checks
from tests.lowered import import_lowered

BEFORE = "canonicalize,fuse-ranges,fuse-operators,reduce-precision"
QUANTISE = "(uint8[30,60] q, float s, uint8 z) {{ {} q, s, z = DynamicQuantizeLinear(r) }}"
TEXTS = {
    "elementwise": "r = Tanh(x)",
    "view": "h = Tanh(x)  v = Reshape(h, rows)  r = Reshape(v, shape)",
    "matmul": "h = MatMul(x, w)  r = Relu(h)",
    "sum": "h = Softmax(x)  r = Relu(h)",
    "input": "r = Identity(x)",
}
FOLDED = ("elementwise", "view", "matmul")
X = np.random.default_rng(2).standard_normal((30, 60)).astype("f4")


def imported(text: str, target: str) -> Imported:
    """A model that quantises a tensor, with groups that are kernels."""
    weights = {
        "w": np.random.default_rng(0).standard_normal((60, 60)).astype("f4"),
        "rows": np.array([10, 180]),
        "shape": np.array([30, 60]),
    }
    model = checks.parse(f"g (float[30,60] x) => {QUANTISE.format(text)}", 21, **weights)
    found = import_lowered(model)
    set_target(found.module, target)
    Runner().run(found.module, parse(BEFORE))
    return found


@pytest.mark.parametrize("target", ["cuda:sm_90:fp16", "cuda:sm_80:fp32", "cpu"])
@pytest.mark.parametrize("name", TEXTS)
def test_producers_write_ranges_and_results_stay(name: str, target: str):
    model = imported(TEXTS[name], target)
    expected = interpret(model.module, model.weights, {"x": X})
    Runner().run(model.module, parse("fold-ranges"))
    (graph,) = graphs_of(model.module)
    writers = [group for group in nodes_of(graph) if "PartialRanges" in group]
    assert len(writers) == (name in FOLDED and target != "cpu")
    found = interpret(model.module, model.weights, {"x": X})
    for one, other in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_dump_runs_in_onnxruntime():
    model = imported(TEXTS["matmul"], "cuda:sm_90:fp32")
    Runner().run(model.module, parse("fold-ranges"))
    found = checks.run(export_model(model.module, model.weights), {"x": X})
    expected = interpret(model.module, model.weights, {"x": X})
    for one, other in zip(found, expected.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1)


def test_a_second_time_changes_nothing():
    model = imported(TEXTS["view"], "cuda:sm_90:fp16")
    Runner().run(model.module, parse("fold-ranges"))
    once = str(model.module)
    Runner().run(model.module, parse("fold-ranges"))
    assert str(model.module) == once
    verify(model.module)


@given(st.integers(1, 1 << 27), st.sampled_from([["Tanh", "Reshape"], ["MatMul", "Relu"]]))
def test_parts_are_a_power_of_two(elements: int, types: list[str]):
    count = range_parts(elements, types)
    assert (count == 0) == (elements < LEAST_ELEMENTS)
    assert count & (count - 1) == 0
    assert count <= MOST_PARTS


@pytest.mark.parametrize(
    ("types", "folds"),
    [
        (["MatMul", "Add", "Relu"], True),
        (["Tanh", "Reshape"], True),
        (["LayerNormalization", "Cast"], True),
        (["MatMul", "Mul", "Softmax", "MatMul", "Transpose"], True),
        (["MatMul", "LayerNormalization"], False),
        (["MaxPool"], False),
        (["Transpose"], False),
        (["TopK"], False),
    ],
)
def test_kinds_of_kernels(types: list[str], folds: bool):
    assert (range_parts(1 << 16, types) > 0) is folds
