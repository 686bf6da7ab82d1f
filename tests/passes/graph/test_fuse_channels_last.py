"""Which Transposes a depthwise convolution does itself, and that the results stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.ir import SSAValue

import compiler
from compiler.frontend.export import export_model
from compiler.frontend.interpreter import interpret
from compiler.graph.signature import signature
from compiler.graph.targets import set_target
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.kernels.gpu.emulator import COMPILER
from tests.strategies import Array, Model, dataflow_graphs

BATCH, CHANNELS, HEIGHT, WIDTH = 2, 16, 5, 6
PIXELS = HEIGHT * WIDTH
TOKENS, IMAGE = (BATCH, PIXELS, CHANNELS), (BATCH, CHANNELS, HEIGHT, WIDTH)
FUSE = "fuse-operators,fuse-channels-last"
WHOLE = ["Transpose", "Reshape", "Conv", "Reshape", "Transpose"]


def whole(shape: tuple[int, ...], seed: int) -> Array:
    """Small whole numbers, so that any order of sums gives the same bits."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


class Tokens:
    """A graph of convolutions of tokens, built step by step."""

    def __init__(self) -> None:
        self.build = GraphBuilder()
        self.tokens = self.build.input("x", TOKENS)

    def reshape(self, value: SSAValue, *shape: int) -> SSAValue:
        """A value in another shape."""
        return self.build.op(
            "Reshape", value, self.build.constant(shape, "int64"), shape=shape, dtype="float32"
        )

    def image(self, perm: tuple[int, ...] = (0, 2, 1)) -> SSAValue:
        """The tokens as an image."""
        shape = tuple(TOKENS[axis] for axis in perm)
        return self.reshape(self.build.op("Transpose", self.tokens, shape=shape, perm=perm), *IMAGE)

    def convolved(self, image: SSAValue, group: int = CHANNELS, size: int = 3) -> SSAValue:
        """A convolution that keeps the size."""
        weight = self.build.weight(whole((CHANNELS, CHANNELS // group, size, size), 1))
        bias = self.build.weight(whole((CHANNELS,), 2))
        pads = [size // 2] * 4
        return self.build.op("Conv", image, weight, bias, shape=IMAGE, group=group, pads=pads)

    def flat(self, image: SSAValue) -> SSAValue:
        """An image as tokens."""
        rows = self.reshape(image, BATCH, CHANNELS, PIXELS)
        return self.build.op("Transpose", rows, shape=TOKENS, perm=(0, 2, 1))

    def model(self, *outputs: SSAValue, target: str = "cuda:sm_90:tf32") -> Model:
        """The model, for a target."""
        module = self.build.finish(*outputs)
        set_target(module, target)
        return Model(module, self.build.weights, {"x": whole(TOKENS, 3)})


def kernels(model: Model) -> list[list[str]]:
    """The operators of each group; all names must be fresh, and a second run change nothing."""
    graph = run(model, FUSE)
    assert all(g.kernel is not None and g.kernel.data == signature(g) for g in graph.groups)
    text = str(model.module)
    Runner().run(model.module, parse("fuse-channels-last"))
    assert str(model.module) == text
    return nodes_of(graph)


def around(target: str = "cuda:sm_90:tf32") -> Model:
    """Tokens to an image, convolved, and back; then a Relu."""
    net = Tokens()
    end = net.build.op("Relu", net.flat(net.convolved(net.image())))
    return net.model(end, target=target)


def test_both_transposes_are_done():
    assert kernels(around()) == [[*WHOLE, "Relu"]]


def test_a_cpu_has_no_such_kernel():
    assert len(kernels(around("cpu:x86-64-v3"))) > 2


def test_a_residual_that_is_transposed_as_well_comes_along():
    net = Tokens()
    image = net.image()
    total = net.build.op("Add", net.convolved(image), image)
    (found,) = kernels(net.model(net.flat(total)))
    assert found == [*WHOLE[:3], "Add", *WHOLE[3:]]


def test_several_convolutions_each_read_the_tokens():
    net = Tokens()
    image = net.image()
    ends = [net.flat(net.convolved(image, size=size)) for size in (3, 5)]
    assert kernels(net.model(*ends)) == [WHOLE, WHOLE]


def test_a_small_window_before_a_convolution_reads_tokens():
    net = Tokens()
    deep = net.convolved(net.convolved(net.image()))
    assert kernels(net.model(deep)) == [WHOLE[:3], ["Conv"]]


def refused(what: str) -> Model:
    """A convolution between Transposes that differs from `around` in one thing."""
    net = Tokens()
    image = net.reshape(net.tokens, *IMAGE) if what == "no transpose" else net.image()
    if what == "other axes":
        image = net.image((1, 2, 0))
    deep = net.convolved(
        image, CHANNELS // 2 if what == "members" else CHANNELS, 7 if what == "large" else 3
    )
    if what == "large":
        return net.model(net.convolved(deep))
    if what == "output":
        return net.model(deep)
    if what == "residual":
        other = net.build.op("Relu", net.reshape(net.tokens, *IMAGE))
        return net.model(net.flat(net.build.op("Add", deep, other)))
    return net.model(net.flat(deep))


@pytest.mark.parametrize(
    "what", ["no transpose", "other axes", "members", "large", "output", "residual"]
)
def test_what_stays_apart(what: str):
    assert not any({"Transpose", "Conv"} <= set(found) for found in kernels(refused(what)))


@settings(max_examples=10, deadline=None)
@given(dataflow_graphs(max_operators=20))
def test_any_graph(model: Model):
    set_target(model.module, "cuda:sm_90:tf32")
    run(model, FUSE)


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_a_model_runs_on_the_emulator(precision: str):
    """A residual inside and outside, and two convolutions between the Transposes."""
    net = Tokens()
    image = net.image()
    deep = net.build.op("Add", net.convolved(image), image)
    ends = (
        net.build.op("Relu", net.flat(deep)),
        net.flat(net.convolved(net.convolved(image), size=5)),
    )
    model = net.model(net.build.op("Add", ends[0], net.tokens), ends[1])
    expected = interpret(model.module, model.weights, model.inputs)
    proto = export_model(model.module, model.weights)
    module = compiler.compile(proto, target="emu", precision=precision)
    assert sum("convolve_channels" in k.source for k in module.kernels.values()) == 2
    for name, array in module.run(model.inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-3 if precision == "fp16" else 0)
