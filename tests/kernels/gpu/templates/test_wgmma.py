"""Wide tiles: where warpgroups multiply, where they are refused, and their results."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import KernelError
from compiler.kernels.gpu.templates.gemm.config import CO_RESIDENT, WGMMA_SHAPES, Tile
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Order, run
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.gpu.templates.test_contraction import BOUNDS, draw
from tests.kernels.harness import single

WIDE = Tile(64, 64, 16, 64, 2, 4, wgmma=True)


def matmul(target: str, tile: Tile):
    """The kernel of a MatMul by a constant matrix."""
    inputs = [draw(70, 256), draw(256, 96)]
    group, _ = single("MatMul", inputs, [TensorInfo("float32", (70, 96))], weights=(1,))
    return gemm_kernel(group, parse_gpu(target), tile)


def test_warpgroups_multiply_on_hopper():
    kernel = matmul("cuda:sm_90:tf32", WIDE)
    assert kernel is not None
    assert "wgmma_gemm<Problem>" in kernel.text
    assert kernel.launches[0].block == (128, 1, 1)


@pytest.mark.parametrize("target", ["cuda:sm_80:tf32", "cuda:sm_90:fp16", "cuda:sm_90:fp32"])
def test_other_targets_refuse(target: str):
    with pytest.raises(KernelError, match="without wgmma"):
        matmul(target, WIDE)


def test_refuses_columns_without_an_instruction():
    with pytest.raises(KernelError, match="without wgmma"):
        matmul("cuda:sm_90:tf32", Tile(64, 48, 16, 48, 1, 4, wgmma=True))


def transposed_matmul(dtype: str, m: int, n: int, k: int, weight: bool) -> Group:
    """relu(x y^T + bias), computed in float32; `dtype` is that of x, y and the result."""
    stored = TensorInfo(dtype, (m, k)), TensorInfo(dtype, (n, k)), TensorInfo("float32", (n,))
    wide = [TensorInfo("float32", shape) for shape in ((m, k), (n, k), (m, n), (m, n))]
    operators = (
        Node("Cast", {"to": 1}, (0,), (3,)),
        Node("Cast", {"to": 1}, (1,), (4,)),
        Node("Gemm", {"transB": 1}, (3, 4, 2), (5,)),
        Node("Relu", {}, (5,), (6,)),
        Node("Cast", {"to": 1 if dtype == "float32" else 10}, (6,), (7,)),
    )
    values = (*stored, *wide, TensorInfo(dtype, (m, n)))
    return Group("wide", values, 3, (False, weight, True), {}, operators, (7,))


def error(dtype: str, size: tuple[int, int, int], tile: Tile, weight: bool = True,
          offset: int = 0, order: Order | None = None) -> float:  # fmt: skip
    """The error of the emulated kernel relative to the result's norm."""
    m, n, k = size
    group = transposed_matmul(dtype, m, n, k, weight)
    kernel = gemm_kernel(group, parse_gpu("cuda:sm_90:tf32"), tile)
    assert kernel is not None
    assert ("wgmma_gemm<Problem>" in kernel.text) is tile.wgmma
    x, y, bias = draw(m, k).astype(dtype), draw(n, k).astype(dtype), draw(n)
    (found,) = run(kernel, group, [x, y, bias], offset, order or Order())
    expected = numpy.maximum(x.astype("float64") @ y.T.astype("float64") + bias, 0)
    return float(numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected))


emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
BOUND = {"float32": BOUNDS["tf32"], "float16": BOUNDS["fp16"]}


@emulated
@pytest.mark.parametrize("weight", [True, False])
def test_truncation_shrinks_no_sum(weight: bool):
    """Neither of activations and weights nor of activations alone: narrow tiles round all."""
    size, narrow = (70, 96, 256), Tile(32, 32, 16, 16, 1)
    rounded = error("float32", size, narrow, weight)
    assert error("float32", size, WIDE, weight) < 1.1 * rounded


@emulated
@settings(max_examples=4, deadline=None)
@given(
    st.sampled_from(sorted(BOUND)),
    st.tuples(st.integers(5, 140), st.integers(2, 140), st.integers(2, 400)),
    st.sampled_from(WGMMA_SHAPES), st.sampled_from([1, 2, 3]), st.sampled_from([CO_RESIDENT, 4]),
    st.booleans(), st.booleans(), st.integers(0, 9), st.sampled_from([32, 64]),
)  # fmt: skip
def test_any_matmul_is_right(
    dtype: str, size: tuple[int, int, int], shape: tuple[int, int], shares: int, stages: int,
    weight: bool, odd: bool, seed: int, warp: int,
):  # fmt: skip
    steps = -(-size[2] // (32 if dtype == "float32" else 64))
    shares = min(shares, steps)
    if -(-steps // shares) * (shares - 1) >= steps:
        shares = 1
    tile = Tile(*shape, 16, shape[1], shares, stages, wgmma=True)
    offset = odd * numpy.dtype(dtype).itemsize
    assert error(dtype, size, tile, weight, offset, Order(seed, warp)) < BOUND[dtype]


@emulated
@pytest.mark.parametrize("shape", [shape for shape in WGMMA_SHAPES if max(shape) > 128])
def test_large_tiles(shape: tuple[int, int]):
    tile = Tile(*shape, 16, shape[1], 1, 4, wgmma=True)
    assert error("float16", (300, 264, 200), tile) < BOUND["float16"]


@emulated
@pytest.mark.parametrize("dtype", sorted(BOUND))
@pytest.mark.parametrize("seed", range(3))
def test_several_blocks_a_processor(dtype: str, seed: int):
    """With the fewest stages, each is filled again as soon as that is safe."""
    tile = Tile(128, 128, 16, 128, 1, CO_RESIDENT, wgmma=True)
    assert error(dtype, (200, 140, 500), tile, order=Order(seed)) < BOUND[dtype]


@emulated
@pytest.mark.parametrize(
    ("dtype", "columns", "size"), [("float32", 64, (70, 96, 256)), ("float16", 96, (64, 100, 192))]
)
def test_split_k(dtype: str, columns: int, size: tuple[int, int, int]):
    tile = Tile(64, columns, 16, columns, 2, 4, wgmma=True)
    assert error(dtype, size, tile) < BOUND[dtype]
