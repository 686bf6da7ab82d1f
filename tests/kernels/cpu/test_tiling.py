"""Tile choices: they fit the registers, cover the work and follow from the cost."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution
from compiler.kernels.cpu.core import ONE_PIPE, Core
from compiler.kernels.cpu.tiling import (
    MAX_BLOCKS,
    MOST_IDLE,
    SCRATCH_BYTES,
    STREAM_BYTES,
    STREAM_ROWS,
    Tile,
    channel_tiles,
    flat_tiles,
    image_tiles,
    matmul_tiles,
    register_tiles,
    shareable_tiles,
    split_blocks,
    streamed_slots,
)

AVX512, AVX2, SSE, NEON = Core(32, 16), Core(16, 8), Core(16, 4), Core(32, 4)
TARGETS = [AVX512, AVX2, SSE, NEON]
sizes = st.integers(1, 70)


def convolution(channels: int, filters: int, image: tuple[int, int], kernel: int) -> Convolution:
    """A convolution of stride one that keeps the image's size."""
    pad = (kernel - 1) // 2
    pair = (kernel, kernel)
    return Convolution(1, 1, channels, filters, image, pair, (1, 1), (1, 1), (pad, pad), image)


@pytest.mark.parametrize("core", TARGETS, ids=str)
def test_tiles_leave_registers_for_operands(core: Core) -> None:
    tiles = register_tiles(core)
    assert all(r * v + min(r, v) + 1 < core.registers for r, v in tiles)
    assert {(1, 1), (6, 2)} <= set(tiles)
    assert set(register_tiles(core, kept_rows=True)) < set(tiles)


@given(sizes, sizes, st.tuples(sizes, sizes), st.sampled_from([1, 3, 5]), st.sampled_from(TARGETS))
def test_chunks_cover_the_rows_of_a_convolution(
    channels: int, filters: int, image: tuple[int, int], kernel: int, core: Core
) -> None:
    conv = convolution(channels, filters, image, kernel)
    tile, slots = image_tiles(conv, core)[0]
    assert (tile.rows, tile.vectors) in register_tiles(core)
    covered = tile.steps * tile.vectors * core.lanes
    assert covered >= (tile.span - 1) * conv.planes.pitch + image[1]
    assert slots >= conv.multiplications / core.lanes


@given(sizes, sizes, st.tuples(sizes, sizes), st.sampled_from(TARGETS))
def test_tiles_of_pointwise_convolutions(
    channels: int, filters: int, image: tuple[int, int], core: Core
) -> None:
    conv = convolution(channels, filters, image, 1)
    for tile, slots in (
        flat_tiles(conv, core)[0],
        channel_tiles(conv, core, prod(image))[0],
        matmul_tiles(prod(image), filters, channels, core, packed=True)[0],
    ):
        assert (tile.rows, tile.vectors) in register_tiles(core)
        assert slots >= conv.multiplications / core.lanes


@given(sizes, st.integers(1, 100_000), st.sampled_from(TARGETS))
def test_sums_of_rows_of_any_length_fit_the_stack(filters: int, width: int, core: Core) -> None:
    tile, _ = image_tiles(convolution(3, filters, (1, width), 3), core)[0]
    sums = tile.rows * tile.steps * tile.vectors * core.lanes
    assert sums * 4 <= SCRATCH_BYTES


def test_full_vectors_are_preferred() -> None:
    wide, _ = flat_tiles(convolution(64, 64, (56, 56), 1), AVX512)[0]
    assert wide.rows * wide.vectors >= 20
    small = convolution(512, 2048, (7, 7), 1)
    channels, flat = channel_tiles(small, AVX512, 49), flat_tiles(small, AVX512)
    assert channels[0][1] < flat[0][1]


def test_tiles_load_less_than_they_multiply() -> None:
    """An image of many channels comes from the second-level cache for every tile of channels."""
    wide, narrow = convolution(256, 512, (28, 28), 1), convolution(128, 128, (38, 38), 3)
    for tile, _ in (image_tiles(wide, AVX512)[0], image_tiles(narrow, AVX512)[0]):
        loads = AVX512.loads.scalar * tile.rows + AVX512.crossing * tile.vectors
        assert loads < 0.75 * tile.rows * tile.vectors


def test_loads_cost_what_the_core_says() -> None:
    half = Core(32, 16, loads=ONE_PIPE)
    depth = 4096
    for rows, vectors in ((2, 12), (1, 20)):
        dear, cheap = (
            dict(
                ((t.rows, t.vectors), slots)
                for t, slots in matmul_tiles(14, 320, depth, core, True)
            )
            for core in (AVX512, half)
        )
        assert dear[rows, vectors] > cheap[rows, vectors]
    assert AVX2.crossing == 1.5
    assert AVX512.streamed(AVX512.near_bytes) < AVX512.streamed(AVX512.near_bytes + 1)


@given(st.floats(0, 1e9), st.lists(st.integers(1, 300), min_size=1, max_size=3))
def test_blocks_are_few_and_none_is_empty(slots: float, extents: list[int]) -> None:
    blocks = split_blocks(slots, *extents)
    assert prod(blocks) <= 4 * MAX_BLOCKS
    for count, extent in zip(blocks, extents, strict=True):
        assert (count - 1) * ceil_div(extent, count) < extent


@pytest.mark.parametrize("columns", [960, 1024, 1280, 1536, 2400])
def test_two_or_four_cores_share_the_panels_of_few_rows_evenly(columns: int) -> None:
    ways = matmul_tiles(1, columns, 320, AVX512, packed=True)
    shared = shareable_tiles(ways, columns, AVX512)
    assert shared
    assert [way for way in ways if way in shared] == shared
    for tile, _ in shared:
        panels = ceil_div(columns, tile.vectors * AVX512.lanes)
        assert all(team * ceil_div(panels, team) <= MOST_IDLE * panels for team in (2, 4))
    alone = [(Tile(1, 20), 1.0)]
    assert shareable_tiles(alone, 960, AVX512) == alone


def test_a_matmul_of_few_rows_has_small_blocks() -> None:
    assert split_blocks(streamed_slots(1, 8 * STREAM_BYTES), 1, 4, 1) == (1, 4, 1)
    assert split_blocks(streamed_slots(STREAM_ROWS, 2 * STREAM_BYTES), 1, 8, 2) == (1, 2, 1)
    assert split_blocks(streamed_slots(1, STREAM_BYTES), 1, 8, 1) == (1, 1, 1)
    assert streamed_slots(STREAM_ROWS + 1, 8 * STREAM_BYTES) == 0
