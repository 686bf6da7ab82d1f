"""Wide tiles: where warpgroups multiply, and where they are refused."""

import pytest

from compiler.errors import KernelError
from compiler.kernels.cuda.contraction import contraction_kernel
from compiler.kernels.cuda.target import parse_cuda_target
from compiler.kernels.cuda.tiles import Tile
from compiler.kernels.group import TensorInfo
from tests.kernels.cuda.test_contraction import draw
from tests.kernels.harness import single

WIDE = Tile(64, 64, 16, 64, 2, 4, wide=True)


def product(target: str, tile: Tile):
    """The kernel of a product by a constant matrix."""
    inputs = [draw(70, 256), draw(256, 96)]
    group, _ = single("MatMul", inputs, [TensorInfo("float32", (70, 96))], weights=(1,))
    return contraction_kernel(group, parse_cuda_target(target), tile)


def test_warpgroups_multiply_on_hopper():
    kernel = product("cuda:sm_90:tf32", WIDE)
    assert kernel is not None
    assert "contract_wide<Problem>" in kernel.text
    assert kernel.launches[0].block == (128, 1, 1)


@pytest.mark.parametrize("target", ["cuda:sm_80:tf32", "cuda:sm_90:fp16", "cuda:sm_90:fp32"])
def test_other_targets_refuse(target: str):
    with pytest.raises(KernelError, match="not wide"):
        product(target, WIDE)


def test_refuses_columns_without_an_instruction():
    with pytest.raises(KernelError, match="not wide"):
        product("cuda:sm_90:tf32", Tile(64, 48, 16, 48, 1, 4, wide=True))
