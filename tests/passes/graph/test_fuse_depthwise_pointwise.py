"""Which depthwise and pointwise convolutions become one kernel, and that the results stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

import compiler
from compiler.errors import PipelineError
from compiler.frontend.export import export_model
from compiler.frontend.interpreter import interpret
from compiler.graph.signature import signature
from compiler.graph.targets import set_target
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse
from compiler.passes.runner import Runner
from tests.apply_passes import graph_of, nodes_of, run
from tests.graphs import GraphBuilder
from tests.kernels.gpu.emulator import COMPILER
from tests.strategies import Array, Model, dataflow_graphs

CHANNELS, ROWS, SIZE = 4, 3, 6
JOIN = "fuse-operators,fuse-depthwise-pointwise{policy=always}"


def whole(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small whole numbers, so that any order of sums gives the same bits."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


class Cell:
    """A graph of separable convolutions, built step by step."""

    def __init__(self) -> None:
        self.build = GraphBuilder()
        self.image = self.build.input("x", (1, CHANNELS, SIZE, SIZE))

    def fresh(self) -> int:
        """A seed, as equal convolutions would become one."""
        return 10 + len(self.build.weights)

    def depthwise(self, value: SSAValue, bias: bool = False, group: int = CHANNELS) -> SSAValue:
        """A depthwise convolution of 3 x 3."""
        members = CHANNELS // group
        given = [value, self.build.weight(whole((CHANNELS, members, 3, 3), self.fresh()))]
        given += [self.build.weight(whole((CHANNELS,), 2))] if bias else []
        shape = (1, CHANNELS, SIZE, SIZE)
        return self.build.op("Conv", *given, shape=shape, group=group, pads=[1] * 4)

    def pointwise(self, value: SSAValue, size: int = 1, stride: int = 1) -> SSAValue:
        """A pointwise convolution, or one of another kernel size."""
        weight = self.build.weight(whole((ROWS, CHANNELS, size, size), 3))
        side = (SIZE - size) // stride + 1
        shape = (1, ROWS, side, side)
        return self.build.op("Conv", value, weight, shape=shape, strides=[stride] * 2)

    def relu(self, value: SSAValue) -> SSAValue:
        """The positive part."""
        return self.build.op("Relu", value)

    def model(self, *outputs: SSAValue, target: str = "cuda:sm_90:tf32") -> Model:
        """The model, for a target."""
        module = self.build.finish(*outputs)
        set_target(module, target)
        inputs = {"x": whole((1, CHANNELS, SIZE, SIZE), 4)}
        return Model(module, self.build.weights, inputs)


def kernels(model: Model, pipeline: str = JOIN) -> list[list[str]]:
    """The operators of each group; all names must be fresh, and a second run change nothing."""
    graph = run(model, pipeline)
    assert all(g.kernel is not None and g.kernel.data == signature(g) for g in graph.groups)
    text = str(model.module)
    Runner().run(model.module, parse("fuse-depthwise-pointwise{policy=always}"))
    assert str(model.module) == text
    return nodes_of(graph)


def pair(target: str = "cuda:sm_90:tf32") -> Model:
    """Both convolutions and nothing else."""
    cell = Cell()
    return cell.model(cell.pointwise(cell.depthwise(cell.image)), target=target)


@pytest.mark.parametrize(("target", "expected"), [
    ("cuda:sm_90:tf32", 1), ("cuda:sm_80:fp16", 1), ("emu:sm_90:fp32", 1), ("cpu:x86-64-v3", 2),
    ("emu:gfx90a:fp32", 2),
])  # fmt: skip
def test_a_pair_is_one_kernel_where_there_is_such(target: str, expected: int):
    assert len(kernels(pair(target))) == expected


def test_what_follows_comes_along():
    cell = Cell()
    sums = cell.pointwise(cell.depthwise(cell.image))
    other = cell.build.input("y", (1, ROWS, SIZE, SIZE))
    model = cell.model(cell.relu(cell.build.op("Add", sums, other)))
    model.inputs["y"] = whole((1, ROWS, SIZE, SIZE), 5)
    assert kernels(model) == [["Conv", "Conv", "Add", "Relu"]]


def test_a_relu_for_several_is_computed_by_each():
    cell = Cell()
    before = cell.relu(cell.image)
    parts = [cell.pointwise(cell.depthwise(before)) for _ in range(3)]
    model = cell.model(*parts)
    assert kernels(model) == [["Relu", "Conv", "Conv"]] * 3


def test_a_relu_that_others_use_stays():
    cell = Cell()
    before = cell.relu(cell.image)
    model = cell.model(cell.pointwise(cell.depthwise(before)), before)
    assert kernels(model) == [["Relu"], ["Relu", "Conv", "Conv"]]


def test_chains():
    """As in NASNet: the Relu between is in the first pair's group, as a convolution's epilogue."""
    cell = Cell()
    cell_rows = cell.build.weight(whole((CHANNELS, CHANNELS, 1, 1), 6))
    shape = (1, CHANNELS, SIZE, SIZE)
    first = cell.build.op("Conv", cell.depthwise(cell.relu(cell.image)), cell_rows, shape=shape)
    model = cell.model(cell.pointwise(cell.depthwise(cell.relu(first))))
    assert kernels(model) == [["Relu", "Conv", "Conv", "Relu"], ["Conv", "Conv"]]


def refused(what: str) -> Model:
    """A pair that differs from `pair` in one thing."""
    cell = Cell()
    deep = cell.depthwise(cell.image, what == "bias", 2 if what == "members" else CHANNELS)
    if what == "relu between":
        deep = cell.relu(deep)
    if what == "computed weight":
        weight = cell.build.input("w", (ROWS, CHANNELS, 1, 1))
        last = cell.build.op("Conv", deep, weight, shape=(1, ROWS, SIZE, SIZE))
    else:
        last = cell.pointwise(deep, 3 if what == "window" else 1, 2 if what == "stride" else 1)
    model = cell.model(last, *([deep] if what == "output" else []))
    if what == "computed weight":
        model.inputs["w"] = whole((ROWS, CHANNELS, 1, 1), 7)
    return model


@pytest.mark.parametrize(
    "what",
    ["bias", "members", "relu between", "computed weight", "window", "stride", "output"],
)
def test_what_stays_apart(what: str):
    assert len(kernels(refused(what))) == 2


@pytest.mark.parametrize(
    ("rows", "policy", "expected"),
    [(128, "cost", 1), (512, "cost", 2), (512, "always", 1), (128, "never", 2)],
)
def test_the_policy_leaves_what_does_not_pay(rows: int, policy: str, expected: int):
    build, shape = GraphBuilder(), (1, 512, 28, 28)
    window = build.weight(np.ones((512, 1, 7, 7), np.float32))
    x = build.input("x", shape)
    deep = build.op("Conv", x, window, shape=shape, group=512, pads=[3] * 4)
    weight = build.weight(np.ones((rows, 512, 1, 1), np.float32))
    module = build.finish(build.op("Conv", deep, weight, shape=(1, rows, 28, 28)))
    set_target(module, "cuda:sm_90:tf32")
    Runner().run(module, parse(f"fuse-operators,fuse-depthwise-pointwise{{policy={policy}}}"))
    assert len(list(graph_of(Model(module, {}, {})).groups)) == expected


def test_unknown_policies_are_refused():
    with pytest.raises(PipelineError, match="unknown policy"):
        run(pair(), "fuse-operators,fuse-depthwise-pointwise{policy=often}")


@settings(max_examples=15, deadline=None)
@given(dataflow_graphs(max_operators=20), st.booleans())
def test_any_graph(model: Model, prologues: bool):
    set_target(model.module, "cuda:sm_90:tf32")
    run(
        model,
        f"fuse-operators{{contraction-prologue={str(prologues).lower()}}},fuse-depthwise-pointwise{{policy=always}}",
    )


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
def test_a_model_runs_on_the_emulator():
    """A cell of two pairs, of which the second reads what the first one and a sum have made."""
    cell, shape = Cell(), (1, CHANNELS, SIZE, SIZE)
    before = cell.relu(cell.image)
    square = cell.build.weight(whole((CHANNELS, CHANNELS, 1, 1), 6))
    inner = cell.build.op("Conv", cell.depthwise(before), square, shape=shape)
    inner = cell.relu(cell.build.op("Add", inner, cell.image))
    model = cell.model(
        cell.pointwise(cell.depthwise(inner)), cell.pointwise(cell.depthwise(before))
    )
    expected = interpret(model.module, model.weights, model.inputs)
    pipeline = DEFAULT_PIPELINE.replace("depthwise-pointwise", "depthwise-pointwise{policy=cost}")
    proto = export_model(model.module, model.weights)
    module = compiler.compile(proto, target="emu", precision="fp32", pipeline=pipeline)
    assert len(module.schedule.tasks) == 3
    for name, array in module.run(model.inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5)
