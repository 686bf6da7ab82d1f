"""Normalisations of groups of channels on the emulator against float64."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.group_norm.problem import Config, Problem
from compiler.kernels.gpu.templates.group_norm.template import GroupNorm
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.tools import needs_nvrtc

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
assert _lowerings
TARGET = parse_gpu("cuda:sm_90:fp16")
NUMBERS = {"float32": 1, "float16": 10}
BOUNDS = {"float32": 2e-6, "float16": 1e-3}
EPSILON = 1e-3
HALF, FLOAT = TensorInfo("float16", (), 8), TensorInfo("float32", (), 4)
PLAIN = TensorInfo("float32", ())


@dataclass(frozen=True)
class Case:
    """silu(normalisation of x) + y; tensors are stored as those of no shape say."""

    shape: tuple[int, ...]
    groups: int
    image: TensorInfo = HALF
    result: TensorInfo = HALF
    computed: bool = False

    def group(self) -> Group:
        """The group; where x is computed, it is a sum of two reads."""
        wide = TensorInfo("float32", self.shape)
        vector = TensorInfo("float32", self.shape[1:2])
        image = replace(self.image, shape=self.shape)
        type = "InstanceNormalization" if self.groups == self.shape[1] else "GroupNormalization"
        attributes = {"epsilon": EPSILON, "num_groups": self.groups}
        if type == "InstanceNormalization":
            del attributes["num_groups"]
        operators = (
            Node("Cast", {"to": 1}, (0,), (4,)),
            Node("Add", {}, (4, 3), (5,)),
            Node(type, attributes, (5 if self.computed else 4, 1, 2), (6,)),
            Node("Sigmoid", {}, (6,), (7,)),
            Node("Mul", {}, (6, 7), (8,)),
            Node("Add", {}, (8, 3), (9,)),
            Node("Cast", {"to": NUMBERS[self.result.dtype]}, (9,), (10,)),
        )
        kept = [op for op in operators if self.computed or op.outputs != (5,)]
        reads = (image, vector, vector, replace(FLOAT, shape=self.shape, block=self.result.block))
        if self.result.block == 8:
            reads = (*reads[:3], replace(HALF, dtype="float32", shape=self.shape))
        values = (*reads, *[wide] * 6, replace(self.result, shape=self.shape))
        return Group("norm", values, 4, (False, True, True, False), {}, tuple(kept), (10,))

    def inputs(self) -> list[numpy.ndarray]:
        """Normal numbers; an image that is far from zero."""
        rng, group = numpy.random.default_rng(1), self.group()
        arrays = [rng.standard_normal(t.shape).astype(t.dtype) for t in group.reads]
        return [arrays[0] + arrays[0].dtype.type(4), *arrays[1:]]

    def expected(self, inputs: Sequence[numpy.ndarray]) -> numpy.ndarray:
        """The result in float64."""
        x, scale, bias, y = (array.astype("float64") for array in inputs)
        rows = (x + y if self.computed else x).reshape(self.shape[0], self.groups, -1)
        rows = rows - rows.mean(2, keepdims=True)
        rows /= numpy.sqrt((rows * rows).mean(2, keepdims=True) + EPSILON)
        wide = (1, -1, *(1 for _ in self.shape[2:]))
        z = rows.reshape(self.shape) * scale.reshape(wide) + bias.reshape(wide)
        return z / (1 + numpy.exp(-z)) + y


def problem_of(case: Case) -> Problem:
    """The problem of a case's group."""
    problem = problem_in("group_norm", case.group(), TARGET)
    assert problem is not None
    return problem


def check(case: Case, config: Config, offset: int = 0) -> None:
    """Compare a kernel with float64."""
    group, inputs = case.group(), case.inputs()
    kernel = kernel_in("group_norm", group, TARGET, config)
    assert kernel is not None
    (found,) = run_twice(kernel, group, inputs, offset)
    expected = case.expected(inputs)
    error = numpy.linalg.norm(found - expected)
    assert error <= BOUNDS[case.result.dtype] * numpy.linalg.norm(expected)


CASES = {
    "groups across blocks": (Case((2, 40, 5, 7), 4), Config(160, 2, True)),
    "in two launches": (Case((1, 40, 5, 7), 4), Config(160, 2)),
    "whole blocks": (Case((1, 16, 9, 9), 2), Config(64)),
    "a group in blocks that differ": (Case((1, 16, 9, 9), 1), Config(32, 4, True)),
    "channels": (Case((1, 24, 6, 5), 24), Config(32)),
    "rows of pixels": (Case((2, 12, 5, 7), 3, PLAIN, PLAIN), Config(64, 2, True)),
    "vectors of pixels": (Case((1, 12, 8, 8), 3, PLAIN, PLAIN), Config(64)),
    "to blocks": (Case((1, 24, 8, 5), 2, replace(HALF, block=0)), Config(96)),
    "from blocks": (Case((1, 24, 50), 4, FLOAT, PLAIN), Config(96)),
    "other blocks": (Case((1, 24, 8, 5), 3, FLOAT, HALF), Config(32)),
    "computed": (Case((1, 12, 4, 4), 3, PLAIN, PLAIN, True), Config(32)),
}


@emulated
@pytest.mark.parametrize("name", CASES)
def test_normalized(name: str):
    check(*CASES[name])


@emulated
def test_vectors_that_are_not_aligned():
    case, config = CASES["vectors of pixels"]
    check(case, config, 4)


@emulated
@settings(max_examples=5, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(1, 90)),
    st.booleans(),
    st.integers(0, 20),
)
def test_any_shape(sizes: tuple[int, int, int, int], blocked: bool, choice: int):
    batch, groups, size, pixels = sizes
    channels = groups * size * (8 if blocked else 1)
    stored = HALF if blocked else PLAIN
    case = Case((batch, channels, pixels), groups * (8 if choice % 2 and blocked else 1), stored)
    case = replace(case, result=stored)
    configs = list(GroupNorm().configs(problem_of(case), TARGET))
    check(case, configs[choice % len(configs)])


def test_few_large_groups_are_divided():
    problem = problem_of(Case((1, 320, 32, 32), 32))
    assert problem.span == 40  # four groups of ten channels are five blocks
    chosen = min(
        GroupNorm().configs(problem, TARGET),
        key=lambda config: GroupNorm().estimate_ns(problem, config, TARGET),
    )
    assert chosen.blocks > 1


def test_no_cluster_before_hopper():
    problem, older = problem_of(Case((1, 320, 32, 32), 32)), parse_gpu("cuda:sm_80:fp16")
    assert not any(config.cluster for config in GroupNorm().configs(problem, older))


def test_groups_of_any_size_have_configs():
    huge = problem_of(Case((1, 64, 256, 256), 1, PLAIN, PLAIN))
    assert {config.launches for config in GroupNorm().configs(huge, TARGET)} == {2}


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nothing_spills(architecture: str):
    target, case = parse_gpu(f"cuda:{architecture}:fp16"), Case((1, 960, 32, 32), 32)
    group, template = case.group(), GroupNorm()
    (problem,) = template.match(group, target)
    config = min(
        template.configs(problem, target),
        key=lambda config: template.estimate_ns(problem, config, target),
    )
    cubin = compile_cubin(complete_text(template.emit(group, problem, config, target).text), target)
    assert not any(used.stack_bytes for used in read_resources(cubin).values())
