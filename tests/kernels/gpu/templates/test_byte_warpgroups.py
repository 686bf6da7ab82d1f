"""GEMMs and convolutions of bytes by WGMMA on the emulator, against exact integers."""

from dataclasses import replace

import numpy
import pytest

from compiler.kernels.building.select import best
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.byte_gemm.template import ByteGemm
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run
from tests.kernels.gpu.templates.test_byte_gemm import (
    CONVOLUTIONS,
    SIGNS,
    TARGET,
    Case,
    check,
    group_of,
    problem_of,
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def wide(rows: int, columns: int, split_k: int = 1, stages: int = 4) -> Tile:
    """A tile of warpgroups."""
    return Tile(rows, columns, 16, columns, split_k, stages, wgmma=True)


@pytest.mark.parametrize("types", SIGNS)
def test_signs(types: tuple[str, str]):
    check(Case((70, 200), (200, 40), types, 3), wide(64, 32))
    check(Case((1, 32, 5, 7), (72, 32, 1, 1), types, 3, blocks=(16, 0)), wide(64, 32))


@pytest.mark.parametrize("name", ["window", "scattered", "strided"])
def test_windows(name: str):
    x, w, attributes = CONVOLUTIONS[name]
    case = Case(x, (80, *w[1:]), result="uint8", attributes=attributes, blocks=(16, 16))
    check(case, wide(64, 64))
    check(replace(case, blocks=(16, 0)), wide(128, 32))


@pytest.mark.parametrize("split_k", [2, 3])
def test_a_cluster_adds_integers(split_k: int):
    check(Case((65, 700), (700, 41), zero=3, result="uint8"), wide(64, 32, split_k), twice=True)
    case = Case((1, 128, 6, 5), (80, 128, 3, 3), result="uint8", blocks=(16, 16),
                attributes={"pads": [1] * 4})  # fmt: skip
    check(case, wide(64, 32, split_k), twice=True)


@pytest.mark.parametrize("shape", [(64, 96), (128, 256), (256, 64)])
def test_tiles(shape: tuple[int, int]):
    check(Case((258, 260), (260, 264), zero=3, result="uint8"), wide(*shape))


def test_weights_are_prefetched():
    tile = replace(wide(64, 32), prefetch=True, release=True)
    check(Case((70, 256), (256, 40)), tile, twice=True)


def test_sums_wrap_around_as_int32():
    depth = 33_100
    case = Case((64, depth), (depth, 8), ("uint8", "uint8"))
    group = group_of(case, (64, 8))
    problem, inputs = problem_of(group), [numpy.full_like(v, 255) for v in case.inputs[:2]]
    assert problem is not None
    (result,) = run(ByteGemm().emit(group, problem, wide(64, 32), TARGET), group, inputs)
    exact = numpy.full((64, 8), 255 * 255 * depth, "int64")
    assert exact[0, 0] > 2**31
    numpy.testing.assert_array_equal(result, exact.astype("int32"))


@pytest.mark.parametrize("types", SIGNS)
def test_one_is_selected_and_keeps_its_sums_in_registers(types: tuple[str, str]):
    case = Case((128, 768), (768, 768), types, result="uint8")
    selected = best(group_of(case, (128, 768)), TARGET)
    assert selected is not None
    assert selected.config.wgmma
    cubin = compile_cubin(complete_text(selected.emit().text), TARGET)
    assert [need.stack_bytes for need in read_resources(cubin).values()] == [0]


@pytest.mark.parametrize("target", ["cuda:sm_80:fp16", "cuda:sm_100:fp16"])
def test_only_hopper_has_them(target: str):
    problem = problem_of(group_of(Case((128, 768), (768, 768)), (128, 768)))
    assert problem is not None
    assert any(tile.wgmma for tile in candidates(problem, TARGET))
    assert not any(tile.wgmma for tile in candidates(problem, parse_gpu(target)))


def test_float8s_have_none():
    problem = problem_of(group_of(Case((128, 768), (768, 768)), (128, 768)))
    assert problem is not None
    floats = replace(problem, dtype="float8")
    assert not any(tile.wgmma for tile in candidates(floats, TARGET))
