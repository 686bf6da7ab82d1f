"""Convolutions by template against float64 numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels.cpu.templates.conv_choices import IMAGE, PANELS, ConvChoices, ConvConfig
from compiler.kernels.cpu.templates.nests import Nest
from compiler.kernels.group import Group
from compiler.target.target import CpuTarget, parse_cpu
from tests.kernels.harness import Array, single
from tests.kernels.template_cases import (
    TensorInfo,
    candidate_of,
    check,
    expected,
    fused,
    random_array,
    targets,
    template_kernel,
)


@dataclass(frozen=True)
class Case:
    """A convolution; spatial tuples have one to three entries."""

    batch: int
    groups: int
    channels: int
    filters: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    prologue: bool = False
    residual: bool = False
    bias: bool = True

    @property
    def output(self) -> tuple[int, ...]:
        """Spatial extents of the result."""
        rank = len(self.image)
        padded = [
            n + self.pads[i] + self.pads[rank + i] - (self.kernel[i] - 1) * self.dilations[i] - 1
            for i, n in enumerate(self.image)
        ]
        return tuple(n // s + 1 for n, s in zip(padded, self.strides, strict=True))


def reference(case: Case, data: Array, weight: Array, bias: Array | None) -> Array:
    """The convolution in float64, tap by tap."""
    rank = len(case.image)
    pads = [(0, 0), (0, 0), *((case.pads[i], case.pads[rank + i]) for i in range(rank))]
    data = numpy.pad(data.astype("float64"), pads)
    data = data.reshape(case.batch, case.groups, case.channels, *data.shape[2:])
    weight = weight.astype("float64").reshape(case.groups, case.filters, *weight.shape[1:])
    total = numpy.zeros((case.batch, case.groups, case.filters, *case.output))
    for tap in product(*map(range, case.kernel)):
        at = [slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in
              zip(tap, case.dilations, case.output, case.strides, strict=True)]  # fmt: skip
        seen = data[(slice(None), slice(None), slice(None), *at)]
        total += numpy.einsum("ngi...,gfi->ngf...", seen, weight[(..., *tap)])
    result = total.reshape(case.batch, case.groups * case.filters, *case.output)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Convolutions with at least one result, also with padding larger than the image."""
    rank = draw(st.integers(1, 3))
    longest = 23 if rank < 3 else 9

    def extents(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    image, kernel, strides = extents(1, longest), extents(1, 5), extents(1, 3)
    dilations, pads = extents(1, draw(st.sampled_from([2, 2, 8]))), list(extents(0, 3, 2 * rank))
    for i in range(rank):
        missing = (kernel[i] - 1) * dilations[i] + 1 - image[i] - pads[i] - pads[rank + i]
        pads[rank + i] += max(0, missing)
    groups = draw(st.sampled_from([1, 1, 1, 2, 5]))
    return Case(
        draw(st.integers(1, 2)),
        groups,
        draw(st.sampled_from([1, 2, 7, 20])),
        draw(st.sampled_from([1, 3, 16, 33])),
        image,
        kernel,
        strides,
        dilations,
        tuple(pads),
        *(draw(st.booleans()) for _ in range(3)),
    )


def run(case: Case, target: str) -> None:
    """Check one convolution."""
    group, arrays, results = convolution_group(case)
    check(group, arrays, results, target)


def convolution_group(case: Case) -> tuple[Group, list[Array], list[Array]]:
    """The group of a convolution, its operands, and its results in float64."""
    filters = case.groups * case.filters
    data = random_array(1, (case.batch, case.groups * case.channels, *case.image))
    weight = random_array(2, (filters, case.channels, *case.kernel))
    bias = random_array(3, (filters,)) if case.bias else None
    arrays = [data, weight] if bias is None else [data, weight, bias]
    shape = (case.batch, filters, *case.output)
    addend = random_array(4, shape) if case.residual else None
    attributes = {
        "strides": list(case.strides),
        "dilations": list(case.dilations),
        "pads": list(case.pads),
        "group": case.groups,
    }
    group = fused("Conv", arrays, shape, attributes, len(arrays) - 1, case.prologue, case.residual)
    used = numpy.maximum(data, 0) if case.prologue else data
    results = expected(reference(case, used, weight, bias), addend)
    return group, arrays if addend is None else [*arrays, addend], results


@settings(max_examples=25, deadline=None)
@given(cases(), targets)
def test_any_convolution(case: Case, target: str) -> None:
    run(case, target)


SQUARE = ((1, 1), (1, 1), (0, 0, 0, 0))

SPECIAL = {
    "pointwise with a tail of one position": Case(1, 1, 9, 20, (7, 7), (1, 1), *SQUARE),
    "pointwise over one position": Case(2, 1, 40, 70, (1, 1), (1, 1), *SQUARE),
    "pointwise with a tail in the last vector": Case(
        2, 1, 5, 11, (13, 19), (1, 1), *SQUARE, residual=True
    ),
    "pointwise after a prologue": Case(
        2, 1, 5, 11, (13, 19), (1, 1), *SQUARE, prologue=True, residual=True
    ),
    "rows that share their padding": Case(
        1, 1, 3, 8, (9, 14), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)
    ),
    "a plane of exactly one page": Case(1, 1, 2, 4, (32, 30), (1, 3), (1, 1), (1, 1), (0, 1, 0, 1)),
    "wide rows": Case(1, 1, 3, 8, (5, 200), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    "stem": Case(1, 1, 3, 13, (33, 35), (7, 7), (2, 2), (1, 1), (3, 3, 3, 3)),
    "stride beyond the kernel": Case(1, 1, 3, 5, (17, 17), (2, 2), (4, 3), (1, 1), (1, 0, 1, 2)),
    "eleven by eleven, stride four": Case(
        1, 1, 3, 6, (40, 37), (11, 11), (4, 4), (1, 1), (2, 2, 2, 2)
    ),
    "patches": Case(2, 1, 3, 20, (12, 15), (4, 5), (4, 5), (1, 1), (0, 0, 0, 0)),
    "patches with padding": Case(1, 1, 2, 5, (11, 14), (5, 6), (4, 4), (1, 1), (2, 1, 1, 2)),
    "large kernel whose row phases skip": Case(
        1, 1, 2, 3, (30, 30), (5, 5), (4, 4), (2, 2), (3, 3, 3, 3)
    ),
    "depthwise": Case(1, 19, 1, 1, (11, 11), (5, 5), (2, 2), (1, 1), (2, 2, 2, 2), prologue=True),
    "four channels a group": Case(1, 8, 4, 4, (14, 14), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    "many channels, small image": Case(
        1, 1, 64, 70, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), residual=True
    ),
    "rows beyond the stack": Case(1, 16, 1, 1, (10_007,), (3,), (1,), (1,), (1, 1), residual=True),
    "two rows beyond the stack": Case(
        1, 1, 2, 5, (3, 9_001), (3, 3), (1, 2), (1, 1), (1, 1, 0, 1), prologue=True
    ),
    "slices, two strides": Case(
        2, 1, 5, 11, (5, 9, 10), (3, 3, 3), (2, 1, 2), (1, 1, 1), (1,) * 6, residual=True
    ),
    "slices alone": Case(1, 1, 9, 20, (4, 7, 7), (3, 1, 1), (1,) * 3, (1,) * 3, (1, 0, 0) * 2),
    "slices in place": Case(
        2, 1, 9, 33, (6, 5, 7), (2, 1, 1), (2, 1, 1), (3, 1, 1), (0,) * 6, residual=True
    ),
    "one slice in groups": Case(
        1, 17, 1, 1, (1, 9, 9), (3, 3, 3), (1,) * 3, (1,) * 3, (1,) * 6, prologue=True
    ),
    "slices without taps": Case(
        1, 1, 3, 5, (2, 4, 9), (2, 1, 3), (1,) * 3, (5, 1, 1), (4, 0, 1) * 2
    ),
    "dilated beyond the rows": Case(
        1, 1, 40, 35, (17, 17), (3, 3), (1, 1), (24, 24), (24,) * 4, residual=True
    ),
    "dilated rows, strided": Case(
        2, 2, 3, 5, (15, 20), (5, 3), (2, 1), (6, 2), (12, 2) * 2, prologue=True
    ),
    "dilated rows of one column": Case(
        1, 1, 8, 9, (17, 16), (3, 1), (1, 1), (12, 1), (12, 0) * 2, residual=True
    ),
    "rows of one vector apart": Case(1, 18, 1, 1, (32, 32), (3, 3), (2, 2), (1, 1), (1,) * 4),
    "rows of some vectors apart": Case(2, 3, 2, 2, (9, 70), (3, 5), (1, 3), (1, 1), (0, 2, 1, 1)),
    "elements four apart": Case(1, 1, 2, 3, (6, 67), (2, 7), (2, 4), (1, 1), (0,) * 4),
    "rows apart, computed": Case(
        1, 4, 2, 3, (19, 41), (3, 3), (2, 2), (1, 1), (1,) * 4, prologue=True
    ),
    "depthwise, rows of taps in two phases": Case(
        2, 5, 1, 1, (23, 40), (5, 3), (2, 1), (1, 1), (2, 1, 1, 1), residual=True
    ),
    "depthwise, dilated": Case(1, 7, 1, 1, (13, 37), (3, 4), (1, 1), (3, 2), (2, 3, 4, 1)),
    "depthwise, a tall kernel": Case(
        1, 17, 1, 1, (12, 33), (31, 7), (1, 1), (1, 1), (15, 3) * 2, prologue=True
    ),
    "129 taps in a row": Case(1, 4, 2, 2, (300,), (129,), (1,), (1,), (64, 64)),
    "taps in a row by stride and dilation": Case(
        1, 1, 2, 3, (2, 900), (1, 200), (1, 3), (1, 2), (0, 5, 0, 7)
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_special_convolution(name: str, target: str) -> None:
    run(SPECIAL[name], target)


TO_MEASURE = {
    "pointwise": Case(2, 1, 40, 36, (9, 11), (1, 1), *SQUARE, residual=True),
    "pointwise, computed": Case(1, 1, 19, 70, (5, 40), (1, 1), *SQUARE, prologue=True),
    "pointwise, strided": Case(1, 1, 20, 24, (9, 10), (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
    "many chunks": Case(1, 1, 3, 5, (30, 43), (1, 1), *SQUARE, bias=True),
    "square": Case(1, 1, 18, 40, (9, 9), (3, 3), (2, 1), (1, 1), (1, 1, 1, 1), bias=True),
    "depthwise": Case(1, 20, 1, 1, (8, 19), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
    "depthwise, parts of rows": Case(2, 3, 1, 1, (9, 75), (3, 3), (1, 1), (1, 1), (1,) * 4),
    "depthwise, two phases": Case(1, 5, 1, 1, (23, 40), (5, 3), (2, 1), (1, 1), (2, 1, 1, 1)),
}


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
@pytest.mark.parametrize("name", TO_MEASURE)
def test_every_kind_of_config_is_right(name: str, target: str) -> None:
    group, arrays, results = convolution_group(TO_MEASURE[name])
    found = candidate_of(group, parse_cpu(target))
    kinds = {config.lanes: fields for fields, config in found.by_fields.items()}
    assert len(kinds) > 1
    for config in kinds.values():
        check(group, arrays, results, target, config)


BEYOND_THE_CACHE = {
    "two lines": Case(
        1, 1, 50, 128, (4, 12), (3, 3), (1, 1), (1, 1), (1,) * 4, prologue=True, residual=True
    ),
    "groups and slices": Case(
        2, 2, 40, 48, (3, 4, 10), (3, 3, 3), (1,) * 3, (1,) * 3, (1,) * 6, residual=True
    ),
    "fewer passes than fit": Case(1, 1, 340, 40, (3, 5), (3, 3), (1, 1), (1, 1), (1,) * 4),
    "a last pass of fewer channels": Case(1, 1, 67, 40, (5, 5), (5, 5), (1, 1), (1, 1), (2,) * 4),
}


def noted_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The passes of all nests from now on, of a core with a tiny second-level cache."""
    passes: list[int] = []

    def tiny(target: CpuTarget) -> int:
        return 16 << 10

    real = ConvChoices.nest

    def noted(*arguments: Any) -> Nest:
        nest = real(*arguments)
        passes.append(nest.passes)
        return nest

    module = "compiler.kernels.cpu.templates.conv2d"
    monkeypatch.setattr(f"{module}.second_cache_bytes", tiny)
    monkeypatch.setattr(ConvChoices, "nest", noted)
    return passes


@pytest.mark.parametrize("name", BEYOND_THE_CACHE)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_weights_beyond_the_cache_are_read_in_passes(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = noted_passes(monkeypatch)
    group, arrays, results = convolution_group(BEYOND_THE_CACHE[name])
    found = candidate_of(group, parse_cpu(target))
    ways = (f for f, c in found.by_fields.items() if isinstance(c, ConvConfig))
    check(group, arrays, results, target, next(ways))
    assert max(passes) > 1


BEYOND_THE_FIRST_CACHE = {
    "a last pass of fewer channels": Case(
        2, 1, 413, 60, (13, 19), (1, 1), *SQUARE, prologue=True, residual=True
    ),
    "blocks that fill panels": Case(1, 2, 500, 70, (45, 33), (1, 1), *SQUARE, residual=True),
    "strides": Case(1, 1, 700, 44, (9, 13), (1, 1), (2, 2), (1, 1), (0, 0, 0, 0)),
}


@pytest.mark.parametrize("name", BEYOND_THE_FIRST_CACHE)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_images_beyond_the_first_cache_are_read_in_passes(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, arrays, results = convolution_group(BEYOND_THE_FIRST_CACHE[name])
    passes = noted_passes(monkeypatch)
    found = candidate_of(group, parse_cpu(target))
    ways = [(f, c.lanes) for f, c in found.by_fields.items() if isinstance(c, ConvConfig)]
    for lanes in {IMAGE, PANELS} & {lanes for _, lanes in ways}:
        check(group, arrays, results, target, next(f for f, own in ways if own == lanes))
    assert max(passes) > 1


@pytest.mark.parametrize(("dtype", "weights"), [("float32", ()), ("float64", (1,))])
def test_what_the_template_declines(dtype: str, weights: Sequence[int]) -> None:
    arrays = [numpy.zeros((1, 2, 4, 4), dtype), numpy.zeros((3, 2, 1, 1), dtype)]
    group, _ = single("Conv", arrays, [TensorInfo(dtype, (1, 3, 4, 4))], weights=weights)
    assert template_kernel(group, parse_cpu("cpu")) is None
