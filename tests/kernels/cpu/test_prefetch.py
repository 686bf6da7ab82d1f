"""Prefetches: of the results of pointwise convolutions, and of weights beyond the cache."""

import re
from math import isqrt

import pytest

from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_cpu
from tests.kernels.template_cases import template_kernel

SHAPE = (1, 8, 20, 20)


def residual(kernel: int, added: tuple[int, ...]) -> Group:
    """A convolution with a bias of each channel, and the addition of a tensor."""
    image, sums = TensorInfo("float32", (1, 4, 20, 20)), TensorInfo("float32", SHAPE)
    weight = TensorInfo("float32", (8, 4, kernel, kernel))
    values = (image, weight, TensorInfo("float32", (8,)), TensorInfo("float32", added), sums, sums)
    operators = (
        Node("Conv", {"pads": [kernel // 2] * 4}, (0, 1, 2), (4,)),
        Node("Add", {}, (4, 3), (5,)),
    )
    return Group("residual", values, 4, (False, True, True, False), {}, operators, (5,))


@pytest.mark.parametrize(
    ("kernel", "added", "expected"),
    [(1, SHAPE, {"read3", "write0"}), (1, (8, 1, 1), {"write0"}), (3, SHAPE, set[str]())],
)
def test_prefetched_are_the_tensors_of_the_results_shape(
    kernel: int, added: tuple[int, ...], expected: set[str]
) -> None:
    scheduled = template_kernel(residual(kernel, added), parse_cpu("cpu:x86-64-v3"))
    assert scheduled is not None
    found = re.findall(r"T\.prefetch\(T\.address_of\((\w+)\[", str(scheduled.function))
    assert set(found) == expected


def prefetched_reads(type: str, *shapes: tuple[int, ...]) -> set[str]:
    """The reads that an operator over weights prefetches, given the shapes of all its values."""
    values = tuple(TensorInfo("float32", shape) for shape in shapes)
    operator = Node(type, {}, (0, 1), (2,))
    group = Group("weights", values, 2, (False, True), {}, (operator,), (2,))
    scheduled = template_kernel(group, parse_cpu("cpu:x86-64-v3"))
    assert scheduled is not None
    found = re.findall(r"T\.prefetch\(T\.address_of\((\w+)\[", str(scheduled.function))
    return set(found) - {"write0"}


@pytest.mark.parametrize(
    ("rows", "depth", "expected"),
    [(36, 2048, {"read1"}), (36, 64, set[str]()), (1, 2048, set[str]())],
)
def test_weights_beyond_the_cache_are_prefetched_where_several_tiles_read_them(
    rows: int, depth: int, expected: set[str]
) -> None:
    """Both in a GEMM and in a convolution of a small image."""
    filters, side = 512, isqrt(rows)
    product = prefetched_reads("MatMul", (rows, depth), (depth, filters), (rows, filters))
    assert product == expected
    image, results = (1, depth, side, side), (1, filters, side, side)
    assert prefetched_reads("Conv", image, (filters, depth, 1, 1), results) == expected


@pytest.mark.parametrize(("rows", "expected"), [(3, set[str]()), (4, {"read1"})])
def test_a_single_tile_of_some_rows_prefetches_the_next_panel(
    rows: int, expected: set[str]
) -> None:
    assert prefetched_reads("MatMul", (rows, 2048), (2048, 512), (rows, 512)) == expected


@pytest.mark.parametrize(("channels", "expected"), [(256, {"read0"}), (16, set[str]())])
def test_the_next_chunk_of_a_large_image_is_prefetched(channels: int, expected: set[str]) -> None:
    image, results = (1, channels, 75, 75), (1, 64, 75, 75)
    assert prefetched_reads("Conv", image, (64, channels, 1, 1), results) == expected
