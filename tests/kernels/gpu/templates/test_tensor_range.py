"""Dynamic quantisations on the emulator give onnxruntime's bits."""

from dataclasses import replace

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.kernels.gpu.templates.tensor_range.emit import Config, Problem
from compiler.kernels.gpu.templates.tensor_range.template import TensorRange
from compiler.kernels.group import Group, Node, extract_group
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.target import parse_gpu
from tests.frontend import checks
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import estimated, kernel_in, problem_in
from tests.lowered import import_lowered

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
TARGET = parse_gpu("cuda:sm_90:fp16")
QUANTISE = "(uint8[{0}] y, float s, uint8 z) {{ y, s, z = DynamicQuantizeLinear(x) }}"


def model_of(elements: int) -> str:
    """The text of a quantisation of a vector."""
    return f"g (float[{elements}] x) => {QUANTISE.format(elements)}"


def group_of(text: str, *more: str) -> Group:
    """The group of a model that has a range, after more passes."""
    module = import_lowered(checks.parse(text)).module
    set_target(module, str(TARGET))
    passes = ["canonicalize", "fuse-ranges", "fuse-operators", "reduce-precision", *more]
    Runner().run(module, parse(",".join(passes)))
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    groups = [extract_group(group) for group in graph.groups]
    (found,) = [g for g in groups if any(op.type == "ReduceMin" for op in g.operators)]
    return found


def problem_of(group: Group) -> Problem:
    """The range of a group."""
    problem = problem_in("tensor_range", group, TARGET)
    assert problem is not None
    return problem


def check(x: Array, config: Config | None = None, offset: int = 0) -> None:
    """Compare a vector's bytes, scale and zero point with onnxruntime's."""
    text = model_of(x.size)
    group = group_of(text)
    kernel = kernel_in("tensor_range", group, TARGET, config)
    assert kernel is not None
    found = run_twice(kernel, group, [x], offset)
    expected = checks.run(checks.parse(text), {"x": x})
    by_shape = {(a.dtype, a.shape): a for a in found}
    for array in expected:
        numpy.testing.assert_array_equal(by_shape[array.dtype, array.shape], array)


EXTREMES = {
    "positive": numpy.linspace(0.5, 3, 77, dtype="f4"),
    "negative": -numpy.linspace(0.5, 3, 77, dtype="f4"),
    "constant": numpy.full(50, 3.25, "f4"),
    "negative constant": numpy.full(50, -1e-3, "f4"),
    "one element": numpy.array([-2.5], "f4"),
    "tiny": numpy.linspace(-1e-30, 3e-30, 40, dtype="f4"),
    "halves": (numpy.arange(-128, 128, dtype="f4") + numpy.float32(0.5)) / 2,
}


@emulated
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str):
    check(EXTREMES[name])


@emulated
def test_zeros_have_a_scale_of_one():
    group = group_of(model_of(40))
    kernel = kernel_in("tensor_range", group, TARGET)
    assert kernel is not None
    found = run_twice(kernel, group, [numpy.zeros(40, "f4")])
    (scale,) = (a for a in found if a.dtype == numpy.float32)
    assert scale == 1


@emulated
@settings(max_examples=4, deadline=None)
@given(st.integers(1, 3000), st.integers(0, 3), st.integers(0, 99), st.sampled_from([0, 4]))
@example(1025, 1, 0, 0)
def test_any_length(elements: int, choice: int, seed: int, offset: int):
    random = numpy.random.default_rng(seed)
    x = random.normal(random.integers(-30, 30), 10, elements).astype("f4")
    configs = [None, Config(1024, 3, 1), Config(32, 1, 94), Config(64, 5, 10)]
    check(x, configs[choice], offset)


def followed() -> tuple[Group, list[Array], Array]:
    """A group that reads 16 bits and gives the numbers of its integers; its input and result."""
    text = """g (float[6,50] x) => (float[6,50] y) {
     r = Relu(x)  q, s, z = DynamicQuantizeLinear(r)  i = Cast<to=6>(q)  o = Cast<to=6>(z)
     d = Sub(i, o)  f = Cast<to=1>(d)  y = Mul(f, s) }"""
    group = group_of(text)
    assert group.reads[0].dtype == "float16"
    x = numpy.random.default_rng(7).standard_normal((6, 50)).astype("f2")
    (expected,) = checks.run(checks.parse(text), {"x": x.astype("f4")})
    return group, [numpy.maximum(x, numpy.float16(0))], expected


@emulated
def test_in_16_bits_and_further_results():
    group, inputs, expected = followed()
    kernel = kernel_in("tensor_range", group, TARGET, Config(64, 2, 3))
    assert kernel is not None
    (found,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_array_equal(found, expected)


PARTED = """g (float[40,70] x) => (uint8[40,70] y, float s, uint8 z) {
 h = Relu(x)  r = Neg(h)  y, s, z = DynamicQuantizeLinear(r) }"""


def parted() -> tuple[Group, list[Array], list[Array]]:
    """A group that reads the extremes of parts, two of them empty; its inputs and results."""
    group = group_of(PARTED, "fold-ranges")
    r = numpy.random.default_rng(4).standard_normal((40, 70)).astype("f2")
    count = group.reads[1].elements
    parts = numpy.array_split(r.reshape(-1), count - 2)
    lows, highs = ([extreme(part) for part in parts] for extreme in (numpy.min, numpy.max))
    inputs = [r, numpy.array([*lows, *[numpy.inf] * 2], "f4")]
    inputs.append(numpy.array([*highs, *[-numpy.inf] * 2], "f4"))
    whole = "g (float[40,70] r) => (uint8[40,70] y, float s, uint8 z) {"
    text = whole + PARTED[PARTED.index(" y, s, z =") :]
    return group, inputs, checks.run(checks.parse(text), {"r": r.astype("f4")})


@emulated
@pytest.mark.parametrize("config", [None, Config(64, 44, 1), Config(128, 3, 8)])
def test_extremes_of_parts_take_one_launch(config: Config | None):
    group, inputs, expected = parted()
    kernel = kernel_in("tensor_range", group, TARGET, config)
    assert kernel is not None
    assert len(kernel.launches) == 1
    found = {(a.dtype, a.shape): a for a in run_twice(kernel, group, inputs)}
    for array in expected:
        numpy.testing.assert_array_equal(found[array.dtype, array.shape], array)


def summed() -> tuple[Group, list[Array], Array]:
    """A group that adds up the rows of its integers; its input and the sums."""
    text = """g (float[30,90] x) => (int32[30,1] t) <int64[1] axis = {1}> {
     q, s, z = DynamicQuantizeLinear(x)  i = Cast<to=6>(q)  t = ReduceSum(i, axis) }"""
    group = group_of(text)
    x = numpy.random.default_rng(7).standard_normal((30, 90)).astype("f4")
    (expected,) = checks.run(checks.parse(text), {"x": x})
    return group, [x], expected


@emulated
@pytest.mark.parametrize("config", [None, Config(32, 3, 30), Config(128, 1, 30)])
def test_sums_of_rows(config: Config | None):
    group, inputs, expected = summed()
    kernel = kernel_in("tensor_range", group, TARGET, config)
    assert kernel is not None
    (found,) = run_twice(kernel, group, inputs)
    numpy.testing.assert_array_equal(found, expected)


def test_groups_with_other_operators_do_not_match():
    group = group_of(model_of(40))
    twice = Node("Neg", {}, (0,), (len(group.values),))
    value = replace(group.values[0])
    wider = replace(group, values=(*group.values, value), operators=(*group.operators, twice))
    assert problem_in("tensor_range", group, TARGET) is not None
    assert problem_in("tensor_range", wider, TARGET) is None


def test_short_tensors_have_one_launch_and_long_ones_many_blocks():
    launches = {
        elements: estimated("tensor_range", problem_of(group_of(model_of(elements))), TARGET)
        for elements in (700, 100_000)
    }
    assert launches[700].launches(problem_of(group_of(model_of(700)))) == 1
    assert launches[100_000].blocks > 64


def test_every_config_has_all_elements():
    problem = problem_of(group_of(model_of(5000)))
    for config in TensorRange().configs(problem, TARGET):
        most = config.threads * config.items * config.blocks
        assert most - config.threads * config.items < 5000 <= most
