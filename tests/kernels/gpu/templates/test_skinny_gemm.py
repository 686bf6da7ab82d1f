"""GEMMs of a few rows by constant weights on tensor cores, on the emulator."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.packing import apply_packing
from compiler.kernels.building.select import best
from compiler.kernels.gpu.templates.skinny_gemm.config import SkinnyConfig, candidates
from compiler.kernels.gpu.templates.skinny_gemm.problem import SkinnyProblem
from compiler.kernels.gpu.templates.skinny_gemm.template import SkinnyGemm
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import GpuTarget, parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import BY_NAME, kernel_in, problem_in
from tests.kernels.gpu.templates.test_contraction import draw
from tests.kernels.gpu.templates.test_prefetched_weights import Chain, worst
from tests.kernels.harness import Array, single
from tests.kernels.template_cases import expected, fused

HALF, TF32 = parse_gpu("cuda:sm_90:fp16"), parse_gpu("cuda:sm_90:tf32")
AMPERE = parse_gpu("cuda:sm_80:tf32")
BOUNDS = {"fp16": 2e-6, "bf16": 2e-6, "tf32": 1e-3}
"""Relative errors of the norm: 16-bit operands are multiplied exactly."""

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def halves(sizes: Sequence[int], transposed: bool = False) -> tuple[Group, list[Array], Array]:
    """A Gemm of float16 matrices (rows, depth, columns), its inputs and its exact result."""
    rows, depth, columns = sizes
    shapes = (rows, depth), (columns, depth) if transposed else (depth, columns)
    arrays = [draw(*shape, seed=i).astype("float16") for i, shape in enumerate(shapes)]
    stored = [TensorInfo("float16", shape) for shape in shapes]
    values = [*stored, *(TensorInfo("float32", shape) for shape in (*shapes, (rows, columns)))]
    operators = [Node("Cast", {"to": 1}, (i,), (2 + i,)) for i in range(2)]
    operators += [Node("Gemm", {"transB": int(transposed)}, (2, 3), (4,))]
    group = Group("halves", tuple(values), 2, (False, True), {}, tuple(operators), (4,))
    left, right = (array.astype("float64") for array in arrays)
    return group, arrays, left @ (right.T if transposed else right)


def floats(rows: int, depth: int, columns: int) -> tuple[Group, list[Array], Array]:
    """A MatMul of float32 matrices."""
    arrays = [draw(rows, depth), draw(depth, columns)]
    info = TensorInfo("float32", (rows, columns))
    group, inputs = single("MatMul", arrays, [info], weights=(1,))
    return group, inputs, inputs[0].astype("float64") @ inputs[1]


def skinny(group: Group, target: GpuTarget, config: SkinnyConfig | None = None) -> KernelSource:
    """The kernel of a config, or of the one that is chosen."""
    kernel = kernel_in("skinny_gemm", group, target, config)
    assert kernel is not None
    return kernel


def error(result: Array, wanted: Array) -> float:
    """The relative error of the norm."""
    return float(numpy.linalg.norm(result - wanted) / numpy.linalg.norm(wanted))


@emulated
@settings(max_examples=8, deadline=None)
@given(
    st.tuples(st.integers(1, 32), st.integers(1, 260), st.integers(1, 70)),
    st.booleans(),
    st.integers(0, 99),
    st.sampled_from([0, 16]),
)
def test_any_matrices_of_16_bits(
    sizes: tuple[int, int, int], transposed: bool, choice: int, offset: int
):
    group, inputs, wanted = halves(sizes, transposed)
    configs = [*candidates(problem_in("skinny_gemm", group, HALF), HALF)]
    kernel = skinny(group, HALF, configs[choice % len(configs)])
    (result,) = run_twice(kernel, group, inputs, offset)
    assert error(result, wanted) < BOUNDS["fp16"]


@emulated
@pytest.mark.parametrize(
    "config",
    [
        SkinnyConfig(1, 4, 1, 4),  # all weights are loaded at once
        SkinnyConfig(2, 4, 1, 2),  # several turns of stages
        SkinnyConfig(4, 8, 4, 2),  # a cluster whose last block has fewer chunks
        SkinnyConfig(2, 16, 1, 2, prefetch=False),
    ],
)
def test_every_division_of_the_work(config: SkinnyConfig):
    group, inputs, wanted = halves((11, 1000, 72))
    (result,) = run_twice(skinny(group, HALF, config), group, inputs)
    assert error(result, wanted) < BOUNDS["fp16"]


@emulated
@pytest.mark.parametrize("target", [TF32, AMPERE])
@pytest.mark.parametrize("sizes", [(1, 90, 40), (9, 203, 33)])
def test_floats_are_rounded_to_tf32(target: GpuTarget, sizes: tuple[int, int, int]):
    group, inputs, wanted = floats(*sizes)
    kernel = skinny(group, target)
    assert kernel.packings[1].endswith("round:10")
    (result,) = run_twice(kernel, group, inputs)
    assert error(result, wanted) < BOUNDS["tf32"]


@emulated
def test_the_epilogue_is_fused():
    operands = [draw(3, 96), draw(96, 20)]
    result = operands[0].astype("float64") @ operands[1]
    addend = draw(3, 20, seed=5)
    group = fused("MatMul", operands, result.shape, {}, 1, False, True)
    found = run_twice(skinny(group, TF32), group, [*operands, addend])
    for got, wanted in zip(found, expected(result, addend), strict=True):
        assert error(got, wanted) < BOUNDS["tf32"]


@emulated
def test_rows_are_not_read_before_they_are_written():
    group, inputs, wanted = floats(3, 200, 40)
    kernel = skinny(group, TF32, SkinnyConfig(1, 4, 1, 2, release=True))
    assert worst(Chain(group, inputs, kernel), wanted) < BOUNDS["tf32"]


@emulated
def test_rows_that_are_read_too_early_are_seen():
    group, inputs, wanted = floats(3, 200, 40)
    kernel = skinny(group, TF32, SkinnyConfig(1, 4, 1, 2))
    late = "static __device__ __forceinline__ void release() { grid_dependency_wait(); }"
    text = re.sub(r"void wait\(\) \{[^}]*\}", "void wait() {}", kernel.text)
    text = re.sub(r"static __device__ __forceinline__ void release\(\) \{[^}]*\}", late, text)
    assert worst(Chain(group, inputs, replace(kernel, text=text)), wanted) > BOUNDS["tf32"]


def test_weights_are_packed_in_the_order_of_fragments():
    group, (_, weights), _ = halves((1, 70, 20))
    packing = skinny(group, HALF, SkinnyConfig(1, 4, 1, 2)).packings[1]
    packed = apply_packing(weights, packing).reshape(2, 3, 2, 32, 4, 2)
    for tile, chunk, f, lane, register, e in [(0, 1, 1, 13, 1, 1), (1, 0, 0, 2, 2, 0)]:
        k = chunk * 32 + lane % 4 * 8 + f * 4 + register // 2 * 2 + e
        column = tile * 16 + register % 2 * 8 + lane // 4
        assert packed[tile, chunk, f, lane, register, e] == weights[k, column]
    assert not packed[1, :, :, 16:].any()  # columns that the matrix does not have


def problem_of(rows: int, depth: int, columns: int, target: GpuTarget = HALF) -> SkinnyProblem:
    """A problem of float16 matrices."""
    return problem_in("skinny_gemm", halves((rows, depth, columns))[0], target)


@pytest.mark.parametrize(("rows", "columns"), [(1, 256), (1, 4096), (4, 1024), (16, 1024)])
def test_most_multiprocessors_load_weights(rows: int, columns: int):
    problem, template = problem_of(rows, 1024, columns), BY_NAME["skinny_gemm"]
    configs = template.configs(problem, HALF)
    chosen = min(configs, key=lambda config: template.estimate_ns(problem, config, HALF))
    tiles = columns // 16
    assert chosen.blocks(problem) >= min(tiles, HALF.device.sms) / 2


def test_a_config_of_the_database_may_overlap_otherwise():
    template, problem = SkinnyGemm(), problem_of(1, 512, 256)
    configs = [*template.configs(problem, HALF)]
    variants = template.variants(problem, configs[0], HALF)
    assert len(variants) == 3
    assert all(template.allows(problem, config, HALF, configs) for config in variants)
    assert not template.allows(problem, SkinnyConfig(3, 4, 1, 2), HALF, configs)


@pytest.mark.parametrize("columns", [768, 2048, 32000])
def test_few_rows_are_read_at_the_bandwidth_of_memory(columns: int):
    found = best(halves((4, 64, columns))[0], HALF)
    assert found is not None
    assert found.template.name == "skinny_gemm"


@pytest.mark.parametrize(
    ("target", "weight", "rows"),
    [
        ("cuda:sm_90:fp32", True, 2),  # exact multiplications
        ("cuda:sm_90:tf32", False, 2),  # computed weights cannot be packed
        ("hip:gfx90a:fp32", True, 2),
        ("cuda:sm_90:tf32", True, 33),
    ],
)
def test_other_matrices_are_left_to_other_kernels(target: str, weight: bool, rows: int):
    info = TensorInfo("float32", (rows, 48))
    arrays = [draw(rows, 64), draw(64, 48)]
    group, _ = single("MatMul", arrays, [info], weights=(1,) if weight else ())
    assert problem_in("skinny_gemm", group, parse_gpu(target)) is None
