"""Convolutions by warpgroups: images in channel blocks and elements of two bytes, against float64."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import KernelError
from compiler.kernels.cuda.contraction import contraction_kernel
from compiler.kernels.cuda.problem import read_problem
from compiler.kernels.cuda.target import parse_cuda_target
from compiler.kernels.cuda.tiles import WIDE_COLUMNS, Tile
from compiler.kernels.group import Group
from tests.kernels.cuda.emulator import COMPILER
from tests.kernels.cuda.test_blocked_contraction import BOUNDS, DTYPES, error_of, group_of

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TYPES = {"tf32": "float32", **DTYPES}
BLOCKS = {"tf32": 4, "fp16": 8, "bf16": 8}
COLUMNS = [columns for columns in WIDE_COLUMNS if 128 % columns == 0]


def wide(rows: int, columns: int, shares: int = 1, stages: int = 4) -> Tile:
    """A wide tile."""
    return Tile(rows, columns, 16, columns, shares, stages, wide=True)


def convolution(
    precision: str,
    image: tuple[int, ...],
    weight: tuple[int, ...],
    blocked: bool = True,
    **given: Any,
) -> Group:
    """A convolution with bias, residual and Relu of an image in channel blocks."""
    rank = len(image) - 2
    pads = given.setdefault("pads", [0] * (2 * rank))
    strides, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    plane = [
        (n + pads[i] + pads[i + rank] - (k - 1) * dilations[i] - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(image[2:], weight[2:], strict=True))
    ]
    block, result = BLOCKS[precision], (image[0], weight[0], *plane)
    blocks = block, block if blocked and weight[0] % block == 0 else 0
    return group_of("Conv", image, weight, result, given, blocks, TYPES[precision])


def error(precision: str, group: Group, tile: Tile) -> float:
    """The error of the emulated kernel of a wide tile, relative to the result's norm."""
    target = f"cuda:sm_90:{precision}"
    kernel = contraction_kernel(group, parse_cuda_target(target), tile)
    assert kernel is not None
    assert "contract_wide<Problem>" in kernel.text
    return error_of(group, target, tile)


CASES = {
    "pointwise": ((2, 24, 5, 7), (72, 24, 1, 1), {}),
    "strided": ((1, 40, 9, 9), (64, 40, 1, 1), {"strides": [2, 2]}),
    "window": ((1, 64, 7, 7), (80, 64, 3, 3), {"pads": [1] * 4}),
    "few-channels": ((2, 8, 6, 5), (40, 8, 5, 3), {"pads": [2, 1, 2, 1]}),
    "padding-wider": ((1, 32, 2, 2), (8, 32, 3, 3), {"pads": [5, 4, 3, 6]}),
    "one-row": ((1, 8, 3, 3), (1, 8, 1, 1), {}),
    "taps-beyond-a-mask": ((1, 8, 9, 9), (16, 8, 9, 8), {"pads": [4] * 4}),
    "volume": ((1, 8, 3, 4, 5), (24, 8, 1, 2, 2), {"dilations": [1, 2, 1]}),
}


@emulated
@pytest.mark.parametrize("name", CASES)
def test_tf32(name: str):
    image, weight, attributes = CASES[name]
    group = convolution("tf32", image, weight, **attributes)
    assert error("tf32", group, wide(64, 32)) < BOUNDS["tf32"]
