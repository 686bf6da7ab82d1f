"""Transposed convolutions by the phases of their strides."""

import itertools
from dataclasses import replace
from math import prod
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.image import find_phases
from compiler.kernels.gpu.templates.gemm.problem import Gather, Triple
from compiler.kernels.group import TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, emulate
from tests.kernels.gpu.of_template import gemm_problems
from tests.kernels.gpu.templates.test_blocked_contraction import error_of, group_of
from tests.kernels.gpu.templates.test_contraction import BOUNDS, draw
from tests.kernels.harness import single
from tests.kernels.test_templates_transposed import Case, reference

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

triples = st.tuples(*[st.integers(1, 4)] * 3)


def transposed(source: Triple, window: Triple, strides: Triple, dilations: Triple,
               pads: Triple, grid: Triple) -> Gather:  # fmt: skip
    """A transposed convolution of one channel, whose result has `grid` strides along each axis."""
    a, b, c = (n * s for n, s in zip(grid, strides, strict=True))
    return Gather(
        channels=1, pixels=a * b * c, image=prod(source), plane=prod(source), taps=prod(window),
        row=1, source=source, result=(a, b, c), window=window, strides=strides, pads=pads,
        dilations=dilations, transposed=True,
    )  # fmt: skip


def read(gather: Gather, at: Triple, tap: int) -> int | None:
    """The pixel that a tap reads for a result, as operands.cuh finds it; None in the padding."""
    taps = numpy.unravel_index(tap, gather.window)
    place = 0
    for axis in range(3):
        if gather.transposed:
            position = at[axis] + gather.pads[axis] - int(taps[axis]) * gather.dilations[axis]
            if position % gather.strides[axis]:
                return None
            position //= gather.strides[axis]
        else:
            position = at[axis] * gather.strides[axis] - gather.pads[axis]
            position += int(taps[axis]) * gather.dilations[axis]
        if not 0 <= position < gather.source[axis]:
            return None
        place = place * gather.source[axis] + position
    return place


@settings(max_examples=60, deadline=None)
@given(triples, triples, triples, triples, triples, triples)
def test_phases_read_the_same_pixels_by_the_same_taps(
    source: Triple, window: Triple, strides: Triple, dilations: Triple, pads: Triple, grid: Triple
):
    gather = transposed(source, window, strides, dilations, pads, grid)
    phases = find_phases(gather)
    if phases is None:
        assert max(dilations) > 1 or any(w % s for w, s in zip(window, strides, strict=True))
        return
    dense, found = phases.gather, numpy.reshape(phases.taps, (phases.count, -1))
    for at in itertools.product(*map(range, gather.result)):
        z, y, x = at
        wanted = {(tap, read(gather, (z, y, x), tap)) for tap in range(gather.taps)}
        phase = numpy.ravel_multi_index([n % s for n, s in zip(at, strides, strict=True)], strides)
        a, b, c = (n // s for n, s in zip(at, strides, strict=True))
        taps = enumerate(found[phase].tolist())
        pixels = [(tap, read(dense, (a, b, c), i)) for i, tap in taps if tap < gather.taps]
        assert {pair for pair in wanted if pair[1] is not None} == {
            pair for pair in pixels if pair[1] is not None
        }
        assert len({tap for tap, _ in pixels}) == len(pixels)


def test_each_phase_has_its_share_of_the_taps():
    gather = transposed((1, 1, 9), (1, 1, 16), (1, 1, 8), (1, 1, 1), (0, 0, 0), (1, 1, 10))
    phases = find_phases(gather)
    assert phases is not None
    assert (phases.count, phases.gather.taps) == (8, 2)
    assert sorted(phases.taps) == list(range(16))
    assert find_phases(replace(gather, result=(1, 1, 81))) is None


CASES: dict[str, tuple[Any, ...]] = {
    "a line": ((2, 16, 9), (16, 3, 8), (2, 3, 40), {"strides": [4]}),
    "padding": ((1, 24, 5, 6), (24, 10, 4, 4), (1, 10, 10, 12),
                {"strides": [2, 2], "pads": [1] * 4}),
    "whole k-steps": ((1, 64, 4, 5), (64, 8, 4, 3), (1, 8, 8, 5),
                      {"strides": [2, 1], "pads": [1] * 4}),
    "dilated, without strides": ((1, 8, 6, 7), (8, 12, 3, 2), (1, 12, 10, 10),
                                 {"dilations": [2, 3]}),
    "a phase without taps": ((1, 8, 4, 4), (8, 16, 1, 2), (1, 16, 8, 8),
                             {"strides": [2, 2], "output_padding": [1, 0]}),
    "a volume": ((1, 8, 2, 3, 3), (8, 4, 2, 4, 2), (1, 4, 4, 6, 6),
                 {"strides": [2, 2, 2], "pads": [0, 1, 0, 0, 1, 0]}),
}  # fmt: skip


@emulated
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [0, 8])
def test_phases_on_the_emulator(name: str, block: int):
    image, weight, result, attributes = CASES[name]
    blocks = (block, block if result[1] % 8 == 0 else 0)
    group = group_of("ConvTranspose", image, weight, result, attributes, blocks, "float16")
    (problem,) = gemm_problems(group, parse_gpu("cuda:sm_90:fp16"))
    assert not problem.gather.transposed
    assert error_of(group, "cuda:sm_90:fp16", Tile(16, 64, 16, 16, 1)) < BOUNDS["fp16"]


@emulated
def test_groups():
    case = Case(2, 2, 8, 12, (4, 4), (2, 4), (2, 2), (1, 1), (0, 1, 0, 1), (0, 0))
    inputs = [draw(2, 16, 4, 4), draw(16, 12, 2, 4)]
    expected = reference(case, inputs[0], inputs[1], None)
    attributes = {"strides": [2, 2], "pads": [0, 1, 0, 1], "group": 2}
    info = TensorInfo("float32", expected.shape)
    group, arrays = single("ConvTranspose", inputs, [info], attributes, weights=(1,))
    (problem,) = gemm_problems(group, parse_gpu("cuda:sm_90:tf32"))
    assert (problem.m, problem.count, problem.gather.taps) == (4 * 12, 2, 1 * 3)
    (result,) = emulate(group, arrays, "cuda:sm_90:tf32")
    assert numpy.linalg.norm(result - expected) < BOUNDS["tf32"] * numpy.linalg.norm(expected)
