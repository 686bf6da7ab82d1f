"""Copies of less than 16 bytes: rows that these do not divide, and gathered pixels of two bytes."""

import itertools
from dataclasses import replace

import numpy
import pytest

from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.estimate import estimate, narrow_lines
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.group import Group
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import gemm_kernel, gemm_problems
from tests.kernels.gpu.templates.test_grouped import Shape, convolution, draw_inputs, reference
from tests.kernels.gpu.templates.test_wgmma import BOUND, error, transposed_matmul

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")
SMALL, LARGE = Tile(16, 64, 16, 16, 1), Tile(64, 64, 32, 32, 2)


def patches(channels: int, kernel: int, stride: int, pad: int = 0) -> Group:
    """A strided convolution of two plain images of 8 x 12 pixels of two bytes."""
    return convolution(strided(channels, kernel, stride, pad), "float16", 0, plain=True)


def strided(channels: int, kernel: int, stride: int, pad: int) -> Shape:
    """The shape of such a convolution, with 20 filters."""
    pads, pair = (pad,) * 4, (kernel, kernel)
    return Shape(channels, (8, 12), pair, (stride,) * 2, (1, 1), pads, 2, channels, 20)


GATHERED = {
    "runs of half a k-step": (32, 2, 2, 0),
    "runs of a quarter, with padding": (48, 3, 2, 1),
    "runs of 8 in many taps": (24, 3, 3, 1),
    "a tap per k-step": (64, 2, 2, 0),
    "padded channels": (30, 4, 4, 1),
    "many taps of few channels": (3, 5, 2, 2),
    "more than 64 taps": (16, 9, 2, 4),
}


@emulated
@pytest.mark.parametrize("tile", [SMALL, LARGE])
def test_gathered_pixels_of_two_bytes(tile: Tile):
    groups = [patches(*case) for case in GATHERED.values()]
    kernels = [gemm_kernel(group, TARGET, tile) for group in groups]
    for case, group, kernel in zip(GATHERED.values(), groups, kernels, strict=True):
        assert kernel is not None
        inputs = draw_inputs(group)
        (result,) = run_twice(kernel, group, inputs)
        expected = reference(strided(*case), inputs)
        assert numpy.linalg.norm(result - expected) < 2e-3 * numpy.linalg.norm(expected), case


@emulated
@pytest.mark.parametrize("depth", [196, 134, 99])
@pytest.mark.parametrize("tile", [Tile(64, 64, 16, 64, 1, 4, wgmma=True)])
def test_rows_of_other_lengths(depth: int, tile: Tile):
    assert error("float16", (70, 96, depth), tile) < BOUND["float16"]


def matmul(depth: int, weight: bool = True) -> Problem:
    """The problem of a MatMul by the rows of a matrix, of two bytes."""
    (problem,) = gemm_problems(transposed_matmul("float16", 96, 80, depth, weight), TARGET)
    return problem


def test_only_odd_rows_are_copied_by_single_elements():
    tile = Tile(64, 32, 16, 32, 1)
    assert [narrow_lines(matmul(depth), tile) for depth in (200, 196, 198)] == [0, 0, 0]
    assert narrow_lines(matmul(199), tile) == narrow_lines(matmul(199, False), tile) == 64 + 32


def test_single_elements_cost_time():
    (gathered,) = gemm_problems(patches(64, 2, 2), TARGET)
    assert narrow_lines(gathered, SMALL) == SMALL.columns
    for tile, (odd, even) in itertools.product((SMALL, LARGE), [(199, 200)]):
        slow, fast = (estimate(matmul(depth), tile, TARGET) for depth in (odd, even))
        assert slow > 1.2 * fast


def test_looking_up_taps_costs_time():
    (runs,) = gemm_problems(patches(64, 3, 2, 1), TARGET)
    scattered = replace(runs, gather=replace(runs.gather, tap_major=False))
    assert estimate(scattered, SMALL, TARGET) > 1.2 * estimate(runs, SMALL, TARGET)
