"""Which scatters are put in order, that they share it, and that sums stay the same."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.export import export_model
from compiler.frontend.interpreter import interpret
from compiler.graph.fusion.scattered_rows import MOST_SLOTS
from compiler.graph.targets import set_target
from compiler.ir.dataflow import OperatorOp, WeightOp
from compiler.kernels.gpu.templates.scatter_order.template import MOST_BUCKET_SLOTS, MOST_BUCKETS
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.tools.reference import run_onnxruntime
from tests.graphs import GraphBuilder
from tests.strategies import Model


@dataclass(frozen=True)
class Layers:
    """Layers that each add the rows of edges to those of nodes, by indices from both ends."""

    nodes: int
    edges: int
    width: tuple[int, ...] = (3,)
    elements: bool = False
    reduction: str = "add"
    dtype: str = "float32"
    constant: bool = False
    layers: int = 2

    def model(self) -> Model:
        """The layers one after another, with a Relu each."""
        b, rng = GraphBuilder(), np.random.default_rng(self.edges)
        named: Any = rng.integers(-self.nodes, self.nodes, self.edges)
        inputs: dict[str, Any] = {
            "x": rng.uniform(-1, 1, (self.nodes, *self.width)).astype(self.dtype)
        }
        inputs["named"] = named
        x = b.input("x", inputs["x"].shape, self.dtype)
        indices = b.input("named", named.shape, "int64")
        if self.constant:
            indices = b.weight(named)
        zeros = b.weight(np.zeros((self.nodes, *self.width), np.dtype(self.dtype)))
        ones = (1,) * (len(self.width) if self.elements else 1)
        each = (self.edges, *self.width)
        for _ in range(self.layers):
            rows = b.op("Gather", x, indices, shape=each, axis=0)
            shape = (self.edges, *ones)
            at = b.op("Reshape", indices, b.constant(shape, "int64"), shape=shape)
            kind = "ScatterElements" if self.elements else "ScatterND"
            if self.elements:
                at = b.op("Expand", at, b.constant(each, "int64"), shape=each)
            axis: dict[str, Any] = {"axis": 0} if self.elements else {}
            operands = zeros, at, rows
            x = b.op(kind, *operands, shape=inputs["x"].shape, reduction=self.reduction, **axis)
            x = b.op("Relu", x)
        return Model(b.finish(x), b.weights, inputs)


def ordered(model: Model, target: str = "cuda:sm_90:fp32") -> list[str]:
    """The sorts, sums and scatters that the pass leaves of a model, whose results stay close."""
    expected = interpret(model.module, model.weights, model.inputs)
    set_target(model.module, target)
    Runner().run(model.module, parse("order-scatters"))
    once = str(model.module)
    Runner().run(model.module, parse("order-scatters"))
    assert str(model.module) == once
    found = interpret(model.module, model.weights, model.inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
    operators = [op.type_name for op in model.module.walk() if isinstance(op, OperatorOp)]
    return [name for name in operators if name.startswith(("Scatter", "Segment"))]


WHOLE = ["ScatterOrder", "SegmentReduce", "SegmentReduce"]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 30),
    st.sampled_from([(), (1,), (3,), (2, 4)]),
    st.booleans(),
    st.sampled_from(["add", "mul", "max", "min"]),
)
def test_layers_share_one_order(
    nodes: int, edges: int, width: tuple[int, ...], elements: bool, reduction: str
):
    model = Layers(nodes, edges, width, elements and bool(width), reduction).model()
    assert ordered(model) == WHOLE
    exported = export_model(model.module, model.weights)
    expected = interpret(model.module, model.weights, model.inputs)
    found = run_onnxruntime(exported, model.inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def test_the_order_of_constant_indices_is_a_weight():
    model = Layers(5, 20, constant=True).model()
    assert ordered(model) == WHOLE[1:]
    keys = [op.key.data for op in model.module.walk() if isinstance(op, WeightOp)]
    assert sum('"operator": "starts"' in key for key in keys) == 1


def test_other_numbers_of_slots_have_another_order():
    b = GraphBuilder()
    indices = b.input("i", (7, 1), "int64")
    updates = b.input("u", (7, 2))
    sums = [
        b.op("ScatterND", b.input(f"x{n}", (n, 2)), indices, updates, shape=(n, 2), reduction="add")
        for n in (3, 4)
    ]
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "i": rng.integers(0, 3, (7, 1)),
        "u": rng.uniform(-1, 1, (7, 2)).astype("f"),
    }
    arrays |= {f"x{n}": np.zeros((n, 2), "f") for n in (3, 4)}
    assert ordered(Model(b.finish(*sums), {}, arrays)).count("ScatterOrder") == 2


@pytest.mark.parametrize(
    "layers",
    [
        Layers(5, 20, reduction="none", layers=1),
        Layers(5, 20, dtype="float64"),
        Layers(5, 20, dtype="int32"),
    ],
    ids=str,
)
def test_other_scatters_stay(layers: Layers):
    assert {*ordered(layers.model())} == {"ScatterND"}


def test_a_cpu_keeps_the_scatters():
    assert {*ordered(Layers(5, 20).model(), "cpu")} == {"ScatterND"}


def test_single_elements_and_deeper_indices_stay():
    b = GraphBuilder()
    x, u = b.input("x", (4, 3)), b.input("u", (4, 3))
    element = b.op(
        "ScatterElements", x, b.input("i", (4, 3), "int64"), u, reduction="add", axis=0,
        shape=(4, 3),
    )  # fmt: skip
    tuples, numbers = b.input("t", (5, 2), "int64"), b.input("n", (5,))
    deep = b.op("ScatterND", x, tuples, numbers, shape=(4, 3), reduction="add")
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {n: rng.uniform(-1, 1, (4, 3)).astype("f") for n in ("x", "u")}
    arrays |= {"i": rng.integers(0, 4, (4, 3)), "t": rng.integers(0, 3, (5, 2))}
    arrays["n"] = rng.uniform(-1, 1, 5).astype("f")
    assert ordered(Model(b.finish(element, deep), {}, arrays)) == ["ScatterElements", "ScatterND"]


@pytest.mark.parametrize("constant", [False, True])
def test_too_many_rows_to_sort_by_are_left_to_the_scatter(constant: bool):
    assert MOST_SLOTS == MOST_BUCKETS * MOST_BUCKET_SLOTS
    layers = Layers(MOST_SLOTS + 1, 3, width=(1,), layers=1, constant=constant)
    assert ordered(layers.model()) == (["SegmentReduce"] if constant else ["ScatterND"])
