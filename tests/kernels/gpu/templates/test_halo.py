"""Convolutions whose image is copied once for all taps, against float64."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import KernelError
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.gemm.candidates import candidates, is_modelled
from compiler.kernels.gpu.templates.gemm.config import Tile, shared_bytes
from compiler.kernels.group import Group
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER
from tests.kernels.gpu.of_template import gemm_kernel, gemm_problems
from tests.kernels.gpu.templates.test_blocked_contraction import BOUNDS, DTYPES, error_of, group_of
from tests.tools import needs_nvrtc

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

SHAPES = ((32, 32, 16, 16), (64, 32, 32, 16), (32, 128, 32, 32), (16, 64, 16, 16))


def same_group(precision: str, batch: int, channels: int, rows: int, image: tuple[int, ...],
               window: tuple[int, ...], dilation: int = 1, groups: int = 1) -> Group:  # fmt: skip
    """A convolution of as many results as pixels, in channel blocks."""
    dtype = DTYPES.get(precision, "float32")
    block = 4 if dtype == "float32" else 8
    reach = [(k - 1) * dilation for k in window]
    pads = [r // 2 for r in reach] + [r - r // 2 for r in reach]
    attributes = {"pads": pads, "dilations": [dilation] * len(window), "group": groups}
    shapes = ((batch, channels, *image), (rows, channels // groups, *window), (batch, rows, *image))
    return group_of("Conv", *shapes, attributes, (block, block), dtype)


@emulated
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["tf32", "fp16", "bf16"]),
    st.integers(1, 3),
    st.integers(1, 2),
    st.tuples(st.integers(1, 11), st.integers(1, 11)).filter(lambda image: image != (1, 1)),
    st.tuples(st.integers(1, 5), st.integers(2, 7)),
    st.integers(1, 2),
    st.sampled_from(SHAPES),
    st.integers(1, 4),
    st.integers(2, 6),
)
def test_any_size(precision: str, batch: int, steps: int, image: tuple[int, int],
                  window: tuple[int, int], dilation: int, shape: tuple[int, int, int, int],
                  slices: int, stages: int):  # fmt: skip
    channels = steps * (32 if precision == "tf32" else 64)
    group = same_group(precision, batch, channels, 24, image, window, dilation)
    taps = window[0] * window[1]
    slices = min(slices, taps * steps // 2)
    stages = max(3, min(stages, taps + 1))
    tile = Tile(*shape, slices, stages, halo=True)
    assert error_of(group, f"cuda:sm_90:{precision}", tile) < BOUNDS[precision]


def test_images_of_one_pixel_are_refused():
    group = same_group("tf32", 2, 32, 24, (1, 1), (1, 2), 1)
    with pytest.raises(KernelError):
        error_of(group, "cuda:sm_90:tf32", Tile(32, 32, 16, 16, 1, 3, halo=True))


@emulated
@pytest.mark.parametrize("image", [(9, 8), (3, 4, 5)])
def test_groups_volumes_and_a_second_launch(image: tuple[int, ...]):
    group = same_group("tf32", 2, 64, 48, image, (3,) * len(image), groups=2)
    tile = Tile(32, 32, 16, 16, 3, halo=True)
    for target in ("cuda:sm_90:tf32", "cuda:sm_80:tf32"):
        assert error_of(group, target, tile) < BOUNDS["tf32"]


@pytest.mark.parametrize(("change", "target"), [
    ({"window": (1, 1)}, "cuda:sm_90:tf32"), ({"channels": 36}, "cuda:sm_90:tf32"),
    ({}, "cuda:sm_90:fp32"),
])  # fmt: skip
def test_others_are_refused(change: dict[str, object], target: str):
    sizes: dict[str, Any] = {"batch": 1, "channels": 32, "rows": 16, "image": (8, 8)}
    sizes |= {"window": (3, 3), **change}
    group = same_group("tf32", **sizes)
    with pytest.raises(KernelError, match="cannot keep the halo"):
        gemm_kernel(group, parse_gpu(target), Tile(32, 32, 16, 16, 1, halo=True))


def test_only_measurements_choose_them():
    target = parse_gpu("cuda:sm_90:tf32")
    (problem,) = gemm_problems(same_group("tf32", 1, 64, 64, (56, 56), (3, 3)), target)
    patches = [tile for tile in candidates(problem, target) if tile.halo]
    assert patches
    assert not any(is_modelled(tile) for tile in patches)
    assert all(shared_bytes(problem, tile, target) <= target.shared_bytes for tile in patches)


@needs_nvrtc
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_nothing_spills(precision: str):
    group = same_group(precision, 1, 256, 256, (19, 19), (3, 3))
    target = parse_gpu(f"cuda:sm_90:{precision}")
    for tile in (Tile(64, 64, 32, 32, 4, 6), Tile(128, 128, 64, 32, 2, 4)):
        patch = replace(tile, halo=True)
        kernel = gemm_kernel(group, target, patch)
        assert kernel is not None
        code = compile_cubin(complete_text(kernel.text), target)
        (found,) = check_resources(code, kernel.launches, target).values()
        assert found.stack_bytes == 0
