"""Convolutions by warpgroups of images in channel blocks, and bfloat16, against float64."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.errors import KernelError
from compiler.kernels import database
from compiler.kernels.building.cuda_kernel import compile_kernel
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.templates.gemm.candidates import diverse
from compiler.kernels.gpu.templates.gemm.config import WGMMA_SHAPES, Tile
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import Group
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.gpu.of_template import estimated_tile, gemm_kernel
from tests.kernels.gpu.templates.test_blocked_contraction import BOUNDS, DTYPES, error_of, group_of

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TYPES = {"tf32": "float32", **DTYPES}
BLOCKS = {"tf32": 4, "fp16": 8, "bf16": 8}
SHAPES = [(rows, columns) for rows, columns in WGMMA_SHAPES if 2 * rows % columns == 0]


def wide(rows: int, columns: int, slices: int = 1, stages: int = 4) -> Tile:
    """A wide tile."""
    return Tile(rows, columns, 16, columns, slices, stages, wgmma=True)


def convolution(
    precision: str,
    image: tuple[int, ...],
    weight: tuple[int, ...],
    blocked: bool = True,
    **attributes: Any,
) -> Group:
    """A convolution with bias, residual and Relu of an image in channel blocks."""
    rank = len(image) - 2
    pads = attributes.setdefault("pads", [0] * (2 * rank))
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    plane = [
        (n + pads[i] + pads[i + rank] - (k - 1) * dilations[i] - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(image[2:], weight[2:], strict=True))
    ]
    block, result = BLOCKS[precision], (image[0], weight[0], *plane)
    blocks = block, block if blocked and weight[0] % block == 0 else 0
    return group_of("Conv", image, weight, result, attributes, blocks, TYPES[precision])


def error(precision: str, group: Group, tile: Tile) -> float:
    """The error of the emulated kernel of a wide tile, relative to the result's norm."""
    target = f"cuda:sm_90:{precision}"
    kernel = gemm_kernel(group, parse_gpu(target), tile)
    assert kernel is not None
    assert "wgmma_gemm<Problem>" in kernel.text
    return error_of(group, target, tile)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
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


@emulated
@pytest.mark.parametrize("precision", DTYPES)
def test_elements_of_two_bytes(precision: str):
    group = convolution(precision, (1, 72, 5, 6), (72, 72, 3, 3), pads=[1] * 4)
    assert error(precision, group, wide(64, 32, 2)) < BOUNDS[precision]


@emulated
def test_truncation_shrinks_no_sum():
    group = convolution("tf32", (1, 64, 5, 5), (64, 64, 3, 3), pads=[1] * 4)
    narrow = error_of(group, "cuda:sm_90:tf32", Tile(32, 32, 16, 16, 1))
    assert error("tf32", group, wide(64, 32)) < 1.1 * narrow


@emulated
@pytest.mark.parametrize("attributes", [
    {"strides": [2, 2]}, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
])  # fmt: skip
def test_transposed(attributes: dict[str, Any]):
    size, blocks = 3 if "pads" in attributes else 2, (4, 4)
    shapes = (2, 20, 5, 5), (20, 12, size, size), (2, 12, 10, 10)
    group = group_of("ConvTranspose", *shapes, attributes, blocks)
    assert error("tf32", group, wide(64, 32)) < BOUNDS["tf32"]


def filled_slices(k: int, step: int, wanted: int) -> int:
    """At most the wanted number of split-K slices, each of which has a k-step."""
    steps = -(-k // step)
    return next(n for n in range(wanted, 0, -1) if -(-steps // n) * (n - 1) < steps)


@emulated
@settings(max_examples=4, deadline=None)
@given(
    precision=st.sampled_from(sorted(TYPES)), batch=st.integers(1, 2), blocks=st.integers(1, 9),
    rows=st.integers(1, 70), plane=st.tuples(*[st.integers(1, 9)] * 2),
    kernel=st.tuples(*[st.integers(1, 4)] * 2), strides=st.tuples(*[st.integers(1, 3)] * 2),
    dilations=st.tuples(*[st.integers(1, 2)] * 2), pads=st.tuples(*[st.integers(0, 5)] * 4),
    shape=st.sampled_from(SHAPES), wanted=st.integers(1, 3),
    blocked=st.booleans(),
)  # fmt: skip
def test_any_convolution(
    precision: str, batch: int, blocks: int, rows: int, plane: tuple[int, int],
    kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int],
    pads: tuple[int, int, int, int], shape: tuple[int, int], wanted: int, blocked: bool,
):  # fmt: skip
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    assume(all(plane[i] + pads[i] + pads[i + 2] >= reach[i] for i in range(2)))
    channels = blocks * BLOCKS[precision]
    group = convolution(
        precision, (batch, channels, *plane), (rows, channels, *kernel), blocked,
        strides=list(strides), dilations=list(dilations), pads=list(pads),
    )  # fmt: skip
    assume(sum(value.elements for value in group.writes) >= 16)  # a norm near 0 says nothing
    slices = filled_slices(channels * kernel[0] * kernel[1], 8 * BLOCKS[precision], wanted)
    assert error(precision, group, wide(*shape, slices)) < BOUNDS[precision]


def problem_of(group: Group) -> Problem:
    """The problem of a group's convolution."""
    problem = read_problem(group, next(op for op in group.operators if op.type == "Conv"))
    assert problem is not None
    return problem


@pytest.mark.parametrize(("groups", "tile"), [
    (2, wide(64, 32)), (1, wide(64, 96)), (1, wide(64, 32, 6)), (1, wide(64, 32, 9)),
], ids=["groups", "columns of many threads", "a share without a step", "two launches"])  # fmt: skip
def test_refused(groups: int, tile: Tile):
    shape = 64 * groups, 32 // groups, 3, 3
    group = convolution("tf32", (1, 32, 7, 7), shape, group=groups)
    with pytest.raises(KernelError, match="without wgmma"):
        gemm_kernel(group, parse_gpu("cuda:sm_90:tf32"), tile)


@pytest.mark.parametrize("precision", TYPES)
def test_estimates_choose_them_for_large_images(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))
    group = convolution(precision, (4, 256, 28, 28), (256, 256, 3, 3), pads=[1] * 4)
    target, problem = parse_gpu(f"cuda:sm_90:{precision}"), problem_of(group)
    found = diverse(problem, target, 24)
    assert sum(tile.wgmma for tile in found) >= 6
    assert not any(tile.prefetch for tile in found)
    assert found[0] == estimated_tile(problem, target)
    kernel = gemm_kernel(group, target)
    assert kernel is not None
    assert "wgmma_gemm" in kernel.text
    assert "grid_dependency_wait" not in kernel.text


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize(("rows", "columns"), [(64, 32), (128, 128)])
def test_compiles_without_spills(precision: str, rows: int, columns: int):
    group = convolution(precision, (1, 96, 14, 14), (128, 96, 3, 3), pads=[1] * 4)
    target = parse_gpu(f"cuda:sm_90:{precision}")
    for tile in (wide(rows, columns), replace(wide(rows, columns, 2), prefetch=True, release=True)):
        kernel = gemm_kernel(group, target, tile)
        assert kernel is not None
        (found,) = read_resources(compile_kernel(group, kernel, target).code).values()
        assert found.stack_bytes == 0
        assert found.registers <= 128
