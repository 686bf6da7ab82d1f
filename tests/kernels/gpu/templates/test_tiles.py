"""The choice of tiles."""

import numpy
import pytest

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.candidates import STAGES, candidates
from compiler.kernels.gpu.templates.gemm.config import shared_bytes
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.of_template import estimated_tile
from tests.kernels.harness import single


def matmul(rows: int, columns: int, depth: int) -> Problem:
    """The problem of a MatMul."""
    inputs = [numpy.zeros((rows, depth), "float32"), numpy.zeros((depth, columns), "float32")]
    group, _ = single("MatMul", inputs, [TensorInfo("float32", (rows, columns))])
    problem = read_problem(group, group.operators[0])
    assert problem is not None
    return problem


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
def test_candidates_fit_the_device(arch: str):
    target, problem = parse_gpu(f"cuda:{arch}"), matmul(128, 768, 3072)
    tiles = list(candidates(problem, target))
    assert all(shared_bytes(problem, tile, target) <= target.shared_bytes for tile in tiles)
    assert all(STAGES[0] <= tile.stages <= STAGES[1] for tile in tiles)
    assert any(tile.has_cluster(target) for tile in tiles) == (arch == "sm_90")
    assert not any(tile.has_cluster(target) for tile in tiles if tile.split_k in (1, 16))


@pytest.mark.parametrize("shape", [(128, 768, 768), (512, 100, 4608), (256, 361, 2304)])
def test_long_sums_are_shared_so_that_one_wave_fills_the_device(shape: tuple[int, int, int]):
    target = parse_gpu("cuda:sm_90")
    tile = estimated_tile(matmul(*shape), target)
    tiles = ceil_div(shape[0], tile.rows) * ceil_div(shape[1], tile.columns)
    assert tile.split_k > 1
    assert target.device.sms / 2 <= tiles * tile.split_k <= target.device.sms
