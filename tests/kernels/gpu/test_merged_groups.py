"""Groups of few channels merged for tensor cores: on the emulator against float64, and the choice
between them and plain multiply-adds."""

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper, parser

from compiler.autotune.kernels.prepare import groups_of
from compiler.kernels import database
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.building.select import measurable
from compiler.kernels.database import Database
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.group import Group
from compiler.target.target import GpuTarget, parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import (
    entry,
    estimated,
    estimated_tile,
    gemm_kernel,
    gemm_problems,
    kernel_in,
    key_text,
    problem_in,
)
from tests.kernels.gpu.templates.test_grouped import (
    BLOCKS,
    Shape,
    convolution,
    draw_inputs,
    reference,
)

TARGET = parse_gpu("cuda:sm_90:tf32")
BOUNDS = {"float32": 1e-3, "float16": 1e-3, "bfloat16": 8e-3}
RESNEXT = Shape(256, (28, 28), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 16, 8, 8)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's database, and none in the package."""
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))


def merged(group: Group, target: GpuTarget = TARGET) -> list[Problem]:
    """The problems of a group with merged groups of its convolution."""
    return [problem for problem in gemm_problems(group, target) if problem.merged > 1]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Shape, str]:
    """Small convolutions in groups that can be merged."""
    rank, dtype = draw(st.sampled_from([2, 2, 2, 1, 3])), draw(st.sampled_from(sorted(BLOCKS)))

    def axes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(least, most)) for _ in range(rank))

    members, filters = draw(st.sampled_from([2, 3, 4, 8, 16])), draw(st.integers(1, 3))
    channels = members * draw(st.sampled_from([4, 8, 12, 16]))
    shape = Shape(channels, axes(1, 6), axes(1, 3), axes(1, 3), axes(1, 2), axes(0, 3) + axes(0, 3),
                  draw(st.integers(1, 2)), members, 4 * filters)  # fmt: skip
    assume(channels % BLOCKS[dtype] == 0)
    return (shape if min(shape.output) > 0 else replace(shape, pads=(4,) * (2 * rank))), dtype


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@settings(max_examples=8, deadline=None)
@given(cases(), st.booleans(), st.integers(0, 1 << 20))
def test_any_merged_groups_are_right(case: tuple[Shape, str], blocked: bool, choice: int):
    shape, dtype = case
    outputs = shape.groups * shape.filters
    group = convolution(shape, dtype, BLOCKS[dtype] * (blocked and outputs % BLOCKS[dtype] == 0))
    problems = merged(group)
    assume(problems)
    problem = problems[choice % len(problems)]
    tiles = [t for t in candidates(problem, TARGET) if t.threads <= 128 and not t.wgmma]
    tile, inputs = tiles[choice % len(tiles)], draw_inputs(group)
    kernel = gemm_kernel(group, TARGET, tile, problem=problem)
    assert kernel is not None
    assert kernel.flops == 2 * shape.members * prod(shape.kernel) * group.writes[0].elements
    (result,) = run_twice(kernel, group, inputs)
    expected = reference(shape, inputs)
    error = numpy.linalg.norm(result.astype("float64") - expected) / numpy.linalg.norm(expected)
    assert error < BOUNDS[dtype]


@pytest.mark.parametrize(
    ("dtype", "members", "found"),
    [
        ("float32", 2, [8, 16]),
        ("float32", 4, [4, 8]),
        ("float32", 8, [2, 4]),
        ("float32", 16, [2]),
        ("float32", 32, []),
        ("float16", 4, [4, 16]),
        ("float16", 8, [2, 8]),
        ("float16", 16, [4]),
        ("float16", 32, [2]),
        ("float16", 1, []),
    ],
)
def test_how_many_groups_are_merged(dtype: str, members: int, found: list[int]):
    """Those that fill the rows of a tile, and those that fill a step."""
    shape = replace(RESNEXT, channels=32 * members, members=members, filters=members)
    group = convolution(shape, dtype)
    assert [problem.merged for problem in merged(group)] == found
    assert merged(replace(group, weights=(False,) * 4)) == []
    assert merged(convolution(shape, dtype, plain=True)) == []
    exact = parse_gpu("cuda:sm_90:fp32")
    assert [p.merged for p in merged(group, exact)] == (found if dtype == "float16" else [])


@pytest.mark.parametrize("fastest", [0, 1, 2, 3])
def test_the_fastest_measured_kernel_is_taken(fastest: int):
    """FMAs, tiles of single groups, and tiles of merged ones."""
    group = convolution(RESNEXT)
    grouped, problems = problem_in("grouped_conv", group, TARGET), gemm_problems(group, TARGET)
    assert grouped is not None
    assert [problem.merged for problem in problems] == [1, 2, 4]
    times = [5e3, 6e3, 7e3, 8e3]
    times[fastest] = 1e3
    work = estimated("grouped_conv", grouped, TARGET)
    measured = [entry("grouped_conv", grouped, work, times[0])]
    for problem, time in zip(problems, times[1:], strict=True):
        measured.append(entry("gemm", problem, estimated_tile(problem, TARGET), time))
    database.save(database.user_file("sm_90"), Database(measured, "sm_90/132"))
    text = generate(group, TARGET).text
    assert ("convolve_groups" in text) == (fastest == 0)
    if fastest:
        assert f" M = {8 * problems[fastest - 1].merged};" in text


def test_every_kernel_is_offered_to_be_measured():
    group = convolution(RESNEXT)
    found = {candidate.key: candidate for candidate in measurable(group, TARGET)}
    assert [candidate.template.name for candidate in found.values()] == [
        "grouped_conv",
        *["gemm"] * 3,
    ]
    for problem in gemm_problems(group, TARGET):
        own = found[key_text("gemm", problem, TARGET)]
        for config in own.shortlist(3):
            assert f" M = {problem.m};" in own.emit(config).text


NETWORK = """<ir_version: 10, opset_import: ["" : 20]>
    net (float[2,16,7,6] x) => (float[2,16,7,6] y) {
      a = Conv (x, v) b = Relu (a)
      c = Conv <group=4, pads=[1,1,1,1]> (b, w) d = Relu (c)
      y = Conv (d, v)
    }"""


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_groups_of_four_channels_are_read_in_16_bits(precision: str):
    """Two share a block; tiles of merged groups and FMAs give the same."""
    model, random = parser.parse_model(NETWORK), numpy.random.default_rng(2)
    for name, dims in (("v", (16, 16, 1, 1)), ("w", (16, 4, 3, 3))):
        weight = random.standard_normal(dims).astype("float32")
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    target = parse_gpu(f"cuda:sm_90:{precision}")
    groups = [group for group, _ in groups_of(model, target)]
    (group,) = (g for g in groups if any(op.attributes.get("group") == 4 for op in g.operators))
    dtype = group.reads[0].dtype
    assert dtype in ("float16", "bfloat16")
    assert [info.block for info in (group.reads[0], group.writes[0])] == [8, 8]
    (problem,) = gemm_problems(group, target)
    assert (problem.merged, problem.dtype) == (4, dtype)
    shape = Shape(16, (7, 6), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 2, 4, 4)
    inputs = draw_inputs(group)
    nothing = numpy.zeros((16,)), numpy.zeros(group.writes[0].shape)
    expected = reference(shape, [*inputs, *nothing])
    work = estimated("grouped_conv", problem_in("grouped_conv", group, target), target)
    tiles = gemm_kernel(group, target, estimated_tile(problem, target), problem=problem)
    for kernel in (tiles, kernel_in("grouped_conv", group, target, work)):
        assert kernel is not None
        (result,) = run_twice(kernel, group, inputs)
        error = numpy.linalg.norm(result.astype("float64") - expected)
        assert error < BOUNDS[dtype] * numpy.linalg.norm(expected)
