"""Squeeze-and-excitation on the emulator against float64."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy
import pytest

from compiler.graph.fusion.squeeze_excite import find_squeeze_excites, fits_one_kernel
from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.squeeze_excite import template as emit
from compiler.kernels.gpu.templates.squeeze_excite.problem import Config, stages_of
from compiler.kernels.gpu.templates.squeeze_excite.template import SqueezeExcite
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in
from tests.tools import needs_nvrtc

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
assert _lowerings
TARGET = parse_gpu("cuda:sm_90:fp16")
HALF, PLAIN = TensorInfo("float16", (), 8), TensorInfo("float32", ())
BOUNDS = {"float32": 2e-6, "float16": 1e-3}
NUMBERS = {"float32": 1, "float16": 10}


@dataclass(frozen=True)
class Case:
    """x * sigmoid(w2 silu(w1 mean(x) + b1) + b2); tensors are stored as those of no shape say."""

    shape: tuple[int, ...]
    hidden: int
    image: TensorInfo = HALF
    result: TensorInfo = HALF
    pool: str = "GlobalAveragePool"

    def group(self) -> Group:
        """The group that the pass makes, after boundary casts."""
        batch, channels, *pixels = self.shape
        ones = tuple(1 for _ in pixels)
        wide, image = (replace(t, shape=self.shape) for t in (PLAIN, self.image))
        mean, inner = (replace(PLAIN, shape=(batch, n, *ones)) for n in (channels, self.hidden))
        weights = (
            replace(PLAIN, shape=(self.hidden, channels, *ones)),
            replace(PLAIN, shape=(self.hidden,)),
            replace(PLAIN, shape=(channels, self.hidden, *ones)),
            replace(PLAIN, shape=(channels,)),
        )
        operators = (
            Node("Cast", {"to": 1}, (0,), (5,)),
            Node(self.pool, {}, (5,), (6,)),
            Node("Conv", {}, (6, 1, 2), (7,)),
            Node("Sigmoid", {}, (7,), (8,)),
            Node("Mul", {}, (7, 8), (9,)),
            Node("Conv", {}, (9, 3, 4), (10,)),
            Node("Sigmoid", {}, (10,), (11,)),
            Node("Mul", {}, (11, 5), (12,)),
            Node("Cast", {"to": NUMBERS[self.result.dtype]}, (12,), (13,)),
        )
        values = (image, *weights, wide, mean, inner, inner, inner, mean, mean, wide)
        values = (*values, replace(self.result, shape=self.shape))
        return Group("se", values, 5, (False, *[True] * 4), {}, operators, (13,))

    def inputs(self) -> list[numpy.ndarray]:
        """Normal numbers."""
        rng = numpy.random.default_rng(1)
        arrays = [rng.standard_normal(t.shape).astype(t.dtype) for t in self.group().reads]
        return [arrays[0] + arrays[0].dtype.type(1), *arrays[1:]]

    def expected(self, inputs: Sequence[numpy.ndarray]) -> numpy.ndarray:
        """The result in float64."""
        x, first, bias, second, shift = (array.astype("float64") for array in inputs)
        mean = x.reshape(*self.shape[:2], -1).mean(2)
        hidden = mean @ first.reshape(first.shape[:2]).T + bias
        hidden /= 1 + numpy.exp(-hidden)
        gate = hidden @ second.reshape(second.shape[:2]).T + shift
        gate = 1 / (1 + numpy.exp(-gate))
        return x * gate.reshape(*gate.shape, *(1 for _ in self.shape[2:]))


CASES = {
    "parts of channels": (Case((2, 40, 5, 7), 6), Config(64, 4, 1)),
    "parts of pixels": (Case((1, 16, 9, 9), 4), Config(64, 1, 4)),
    "parts of both": (Case((1, 24, 7, 7), 5), Config(96, 2, 2)),
    "alone": (Case((1, 8, 3, 3), 40), Config(32, 1, 1)),
    "alone with several threads a row": (Case((1, 8, 3, 3), 10), Config(64, 1, 1)),
    "row-major": (Case((1, 6, 4, 8), 3, PLAIN, PLAIN), Config(64, 2, 2)),
    "odd rows": (Case((2, 6, 5, 7), 3, PLAIN, PLAIN), Config(64, 2, 1)),
    "to blocks": (Case((1, 16, 6, 4), 3, replace(HALF, block=0)), Config(64, 2, 1)),
    "from blocks": (Case((1, 16, 6, 4), 3, HALF, PLAIN), Config(64, 2, 1)),
    "a line": (Case((1, 16, 50), 3), Config(64, 2, 2)),
}


@emulated
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("offset", [0, 4])
def test_excited(name: str, offset: int):
    case, config = CASES[name]
    if offset and (case.image.block or case.result.block):
        pytest.skip("channel blocks are aligned")
    group, inputs = case.group(), case.inputs()
    kernel = kernel_in("squeeze_excite", group, TARGET, config)
    assert kernel is not None
    (found,) = run_twice(kernel, group, inputs, offset)
    expected = case.expected(inputs)
    error = numpy.linalg.norm(found - expected)
    assert error <= BOUNDS[case.result.dtype] * numpy.linalg.norm(expected)


@emulated
@pytest.mark.parametrize("name", ["parts of channels", "odd rows"])
@pytest.mark.parametrize("stages", [0, 1])
def test_weights_that_shared_memory_has_no_room_for(
    monkeypatch: pytest.MonkeyPatch, name: str, stages: int
):
    def given(*_: object) -> int:
        return stages

    monkeypatch.setattr(emit, "stages_of", given)
    case, config = CASES[name]
    group, inputs = case.group(), case.inputs()
    kernel = kernel_in("squeeze_excite", group, TARGET, config)
    assert kernel is not None
    (found,) = run_twice(kernel, group, inputs)
    expected = case.expected(inputs)
    error = numpy.linalg.norm(found - expected)
    assert error <= BOUNDS[case.result.dtype] * numpy.linalg.norm(expected)


def test_room_for_weights():
    (problem,) = SqueezeExcite().match(Case((1, 960, 7, 7), 240).group(), TARGET)
    counts = [stages_of(problem, Config(1024, parts, 1), TARGET) for parts in (4, 8)]
    assert counts == [0, 1]
    (problem,) = SqueezeExcite().match(Case((1, 672, 14, 14), 28).group(), TARGET)
    assert stages_of(problem, Config(1024, 8, 1), TARGET) == 2


@emulated
@pytest.mark.parametrize("choice", range(0, 24, 5))
def test_listed_configs(choice: int):
    case = Case((1, 40, 6, 6), 10)
    group, inputs = case.group(), case.inputs()
    (problem,) = SqueezeExcite().match(group, TARGET)
    configs = list(SqueezeExcite().configs(problem, TARGET))
    kernel = SqueezeExcite().emit(group, problem, configs[choice % len(configs)], TARGET)
    (found,) = run_twice(kernel, group, inputs)
    expected = case.expected(inputs)
    assert numpy.linalg.norm(found - expected) <= 1e-3 * numpy.linalg.norm(expected)


def test_another_reader_of_the_gate():
    group = Case((1, 16, 4, 4), 4).group()
    assert len(find_squeeze_excites(group)) == 1
    assert not find_squeeze_excites(replace(group, outputs=(13, 11)))


def test_another_image():
    group = Case((1, 16, 4, 4), 4).group()
    scaled = replace(group.operators[7], inputs=(11, 0))
    operators = (*group.operators[:7], scaled, group.operators[8])
    assert not find_squeeze_excites(replace(group, operators=operators))


def test_grouped_convolutions_and_windows():
    group = Case((1, 16, 4, 4), 4).group()
    grouped = replace(group.operators[2], attributes={"group": 2})
    operators = (*group.operators[:2], grouped, *group.operators[3:])
    assert not find_squeeze_excites(replace(group, operators=operators))


@pytest.mark.parametrize(("side", "fused"), [(56, True), (224, False)])
def test_large_images_are_left_to_several_kernels(side: int, fused: bool):
    group = Case((1, 64, side, side), 4).group()
    (found,) = find_squeeze_excites(group)
    assert fits_one_kernel(group, found) == fused


def test_the_pool_may_be_a_mean():
    group = Case((1, 16, 4, 4), 4, pool="ReduceMean").group()
    assert len(find_squeeze_excites(group)) == 1


@needs_nvrtc
def test_nothing_spills():
    group, template = Case((1, 672, 14, 14), 28).group(), SqueezeExcite()
    (problem,) = template.match(group, TARGET)
    config = min(
        template.configs(problem, TARGET),
        key=lambda config: template.estimate_ns(problem, config, TARGET),
    )
    cubin = compile_cubin(complete_text(template.emit(group, problem, config, TARGET).text), TARGET)
    assert not any(used.stack_bytes for used in read_resources(cubin).values())
