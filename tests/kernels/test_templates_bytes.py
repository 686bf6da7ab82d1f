"""Contractions of bytes by template, equal to the last integer."""

import ctypes
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.backends.cpu.build import CpuProgram
from compiler.graph.packing import apply_packing
from compiler.kernels.building.kernel import compile_scheduled
from compiler.kernels.group import TensorInfo
from compiler.net.evaluation.contractions import (
    evaluate_conv_integer,
    evaluate_matmul_integer,
)
from compiler.net.operators.canonical import known_node
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import parse_cpu
from tests.kernels.harness import POISON, Array, entry, single
from tests.kernels.template_cases import run_guarded, targets, template_kernel

bytes_of = st.sampled_from(["uint8", "int8"])
extents = st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 33, 70]))
EXTREMES = [-128, -127, -1, 0, 1, 127, 128, 254, 255]
EVALUATE = {"ConvInteger": evaluate_conv_integer, "MatMulInteger": evaluate_matmul_integer}


def random_bytes(seed: int, shape: tuple[int, ...], dtype: str, extreme: bool) -> Array:
    """Bytes of the whole range, or only those at its ends and around zero."""
    draw, limits = numpy.random.default_rng(seed), numpy.iinfo(dtype)
    if not extreme:
        return draw.integers(limits.min, limits.max + 1, shape).astype(dtype)
    ends = [number for number in EXTREMES if limits.min <= number <= limits.max]
    return draw.choice(ends, shape).astype(dtype)


def check(
    type: str,
    arrays: list[Array],
    attributes: dict[str, Any],
    target: str = "cpu",
    constant: bool = True,
) -> KernelSpec:
    """A template's kernel, compared with the interpreter, which computes in 64 bits."""
    expected = numpy.asarray(EVALUATE[type](known_node(type, arrays, attributes)))
    weights = [1] if constant else []
    result = TensorInfo("int32", expected.shape)
    group, reads = single(type, arrays, [result], attributes, weights=weights)
    machine = parse_cpu(target)
    scheduled = template_kernel(group, machine)
    assert scheduled is not None, "the template declined"
    spec = compile_scheduled(group, scheduled, machine)
    for after in (True, False):
        (found,) = run_guarded(spec, group, reads, after)
        numpy.testing.assert_array_equal(found, expected)
    return spec


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(1, 3), max_size=2),
    extents,
    extents,
    extents,
    bytes_of,
    targets,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_any_matmul(
    batch: list[int],
    rows: int,
    depth: int,
    columns: int,
    dtype: str,
    target: str,
    constant: bool,
    batched: bool,
    extreme: bool,
) -> None:
    a = random_bytes(1, (*batch, rows, depth), dtype, extreme)
    own = () if constant or not batched else tuple(batch)
    b = random_bytes(2, (*own, depth, columns), "int8", extreme)
    check("MatMulInteger", [a, b, zero_point(dtype, rows)], {}, target, constant)


def zero_point(dtype: str, seed: int) -> Array:
    """A zero point, which may be at the end of the range."""
    return random_bytes(seed, (), dtype, True)


@settings(max_examples=20, deadline=None)
@given(
    st.data(),
    st.integers(1, 2),
    st.integers(1, 3),
    extents,
    extents,
    bytes_of,
    targets,
    st.booleans(),
)
def test_any_convolution(
    data: st.DataObject,
    batch: int,
    groups: int,
    channels: int,
    filters: int,
    dtype: str,
    target: str,
    extreme: bool,
) -> None:
    rank = data.draw(st.integers(1, 2))
    kernel = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    attributes = {
        "group": groups,
        "strides": data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)),
        "dilations": data.draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank)),
        "pads": [data.draw(st.integers(0, k - 1)) for k in kernel * 2],
    }
    spatial = [2 * k + data.draw(st.integers(0, 20)) for k in kernel]
    x = random_bytes(1, (batch, groups * channels, *spatial), dtype, extreme)
    w = random_bytes(2, (groups * filters, channels, *kernel), "int8", extreme)
    check("ConvInteger", [x, w, zero_point(dtype, filters)], attributes, target)


@settings(max_examples=15, deadline=None)
@given(
    st.data(),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([1, 3, 8, 70, 130]),
    st.sampled_from([1, 5, 33, 64]),
    bytes_of,
    targets,
)
def test_any_convolution_of_one_tap(
    data: st.DataObject,
    batch: int,
    groups: int,
    channels: int,
    filters: int,
    dtype: str,
    target: str,
) -> None:
    spatial = data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=2))
    strides = [data.draw(st.integers(1, 2))] * 2
    pads = [data.draw(st.integers(0, 1))] * 4
    x = random_bytes(1, (batch, groups * channels, *spatial), dtype, False)
    w = random_bytes(2, (groups * filters, channels, 1, 1), "int8", False)
    attributes = {"group": groups, "strides": strides, "pads": pads}
    check("ConvInteger", [x, w, zero_point(dtype, filters)], attributes, target)


@pytest.mark.parametrize(("batch", "groups"), [(1, 1), (2, 2)])
def test_each_block_fills_a_panel_of_its_own(batch: int, groups: int) -> None:
    x = random_bytes(1, (batch, groups * 62, 60, 59), "uint8", False)
    w = random_bytes(2, (groups * 66, 62, 1, 1), "int8", False)
    spec = check("ConvInteger", [x, w, numpy.array(7, "uint8")], {"group": groups})
    (launch,) = spec.launches
    program, ends = CpuProgram([spec]), [0]
    read = [x, apply_packing(w, spec.packings[1]), numpy.array([7], "uint8")]
    sums = numpy.zeros((batch, groups * 66, 60, 59), "int32")
    for block in range(launch.grid[0]):
        buffers = [*read, sums, *(numpy.full(n, POISON, "uint8") for n in spec.workspaces)]
        places = [buffers[i].ctypes.data for i in launch.args]
        pointers = (ctypes.c_void_p * len(places))(*places)
        entry(program, launch.symbol)(pointers, block, block + 1)
        (written,) = numpy.nonzero(buffers[-1] != POISON)
        assert written[0] >= ends[-1]
        ends.append(int(written[-1]))
    assert len(ends) > 3


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("ends", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_the_largest_sums_do_not_saturate(dtype: str, ends: tuple[int, int]) -> None:
    limits = [numpy.iinfo(dtype), numpy.iinfo("int8")]
    left, right = ((limit.min, limit.max)[end] for limit, end in zip(limits, ends, strict=True))
    a = numpy.full((3, 4096), left, dtype)
    b = numpy.full((4096, 40), right, "int8")
    check("MatMulInteger", [a, b, numpy.array(limits[0].max, dtype)], {})
    check("MatMulInteger", [a, b, numpy.array(limits[0].min, dtype)], {}, constant=False)


def test_weights_with_a_zero_point_are_declined() -> None:
    a, b = random_bytes(1, (4, 8), "uint8", False), random_bytes(2, (8, 5), "int8", False)
    zeros = [numpy.array(3, "uint8"), numpy.array(2, "int8")]
    group, _ = single("MatMulInteger", [a, b, *zeros], [TensorInfo("int32", (4, 5))], weights=[1])
    assert template_kernel(group, parse_cpu("cpu")) is None
