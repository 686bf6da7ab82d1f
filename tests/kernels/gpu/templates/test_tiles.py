"""The choice of tiles."""

import numpy
import pytest

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.gpu.templates.gemm.candidates import STAGES, candidates
from compiler.kernels.gpu.templates.gemm.config import Tile, concurrent_blocks, shared_bytes
from compiler.kernels.gpu.templates.gemm.estimate import estimate
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


@pytest.mark.parametrize("split", [1, 2, 3, 4, 6, 8, 16])
def test_blocks_at_once_are_whole_clusters(split: int):
    tile, target = Tile(64, 64, 16, 64, split, 4, wgmma=True), parse_gpu("cuda:sm_90")
    blocks = concurrent_blocks(tile, target)
    assert 0.7 * target.device.sms <= blocks <= target.device.sms
    assert blocks == target.device.sms or (split > 1 and blocks % split == 0)
    older = parse_gpu("cuda:sm_80")
    assert concurrent_blocks(tile, older) == older.device.sms


@pytest.mark.parametrize("wgmma", [True, False])
@pytest.mark.parametrize("split", [3, 4])
def test_one_cluster_more_than_fits_takes_another_wave(wgmma: bool, split: int):
    warp = (16, 128) if wgmma else (32, 64)
    tile, target = Tile(64, 128, *warp, split, 6, wgmma=wgmma), parse_gpu("cuda:sm_90:tf32")
    fitting = concurrent_blocks(tile, target) // split
    depth = 96 * split * 8
    times = [
        estimate(matmul(64 * rows, 128, depth), tile, target) for rows in (fitting, fitting + 1)
    ]
    assert times[1] > 1.3 * times[0]
