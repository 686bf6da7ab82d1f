"""Transposed convolutions by template against float64 numpy."""

from dataclasses import dataclass
from itertools import product

import numpy
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.target.target import parse_cpu
from tests.kernels.harness import Array
from tests.kernels.template_cases import (
    check,
    expected,
    fused,
    random_array,
    targets,
    template_kernel,
)


@dataclass(frozen=True)
class Case:
    """A transposed convolution; spatial tuples have one or two entries."""

    batch: int
    groups: int
    channels: int
    filters: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    extra: tuple[int, ...]
    prologue: bool = False
    residual: bool = False
    bias: bool = True

    @property
    def full(self) -> tuple[int, ...]:
        """Spatial extents before the pads are removed."""
        axes = zip(self.image, self.kernel, self.strides, self.dilations, self.extra, strict=True)
        return tuple((n - 1) * s + (k - 1) * d + 1 + e for n, k, s, d, e in axes)

    @property
    def output(self) -> tuple[int, ...]:
        """Spatial extents of the result."""
        rank = len(self.image)
        return tuple(n - self.pads[i] - self.pads[rank + i] for i, n in enumerate(self.full))


def reference(case: Case, data: Array, weight: Array, bias: Array | None) -> Array:
    """The transposed convolution in float64: every input element scatters its taps."""
    rank = len(case.image)
    data = data.astype("float64").reshape(case.batch, case.groups, case.channels, *case.image)
    weight = weight.astype("float64").reshape(case.groups, case.channels, *weight.shape[1:])
    total = numpy.zeros((case.batch, case.groups, case.filters, *case.full))
    for tap in product(*map(range, case.kernel)):
        at = [slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in
              zip(tap, case.dilations, case.image, case.strides, strict=True)]  # fmt: skip
        add = numpy.einsum("ngi...,gif->ngf...", data, weight[(..., *tap)])
        total[(slice(None), slice(None), slice(None), *at)] += add
    cut = [slice(case.pads[i], case.pads[i] + n) for i, n in enumerate(case.output)]
    result = total[(slice(None), slice(None), slice(None), *cut)]
    result = result.reshape(case.batch, case.groups * case.filters, *case.output)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Transposed convolutions with at least one result."""
    rank = draw(st.integers(1, 2))

    def extents(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    strides, dilations = extents(1, 3), extents(1, 2)
    room = [max(axis) - 1 for axis in zip(strides, dilations, strict=True)]
    extra = tuple(draw(st.integers(0, n)) for n in room)
    case = Case(
        draw(st.integers(1, 2)),
        draw(st.sampled_from([1, 1, 3])),
        draw(st.sampled_from([1, 2, 9])),
        draw(st.sampled_from([1, 5, 17])),
        extents(1, 18),
        extents(1, 4),
        strides,
        dilations,
        extents(0, 3, 2 * rank),
        extra,
        *(draw(st.booleans()) for _ in range(3)),
    )
    assume(min(case.output) > 0)
    return case


def run(case: Case, target: str) -> None:
    """Check one transposed convolution."""
    rank, filters = len(case.image), case.groups * case.filters
    data = random_array(1, (case.batch, case.groups * case.channels, *case.image))
    weight = random_array(2, (case.groups * case.channels, case.filters, *case.kernel))
    bias = random_array(3, (filters,)) if case.bias else None
    arrays = [data, weight] if bias is None else [data, weight, bias]
    shape = (case.batch, filters, *case.output)
    addend = random_array(4, shape) if case.residual else None
    attributes = {
        "strides": list(case.strides),
        "dilations": list(case.dilations),
        "pads": list(case.pads),
        "output_padding": list(case.extra),
        "group": case.groups,
    }
    assert rank == len(case.output)
    group = fused(
        "ConvTranspose", arrays, shape, attributes, len(arrays) - 1, case.prologue, case.residual
    )
    used = numpy.maximum(data, 0) if case.prologue else data
    results = expected(reference(case, used, weight, bias), addend)
    check(group, arrays if addend is None else [*arrays, addend], results, target)


@settings(max_examples=12, deadline=None)
@given(cases(), targets)
def test_any_transposed_convolution(case: Case, target: str) -> None:
    run(case, target)


SPECIAL = {
    "UNet's": Case(1, 1, 16, 40, (14, 14), (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (0, 0)),
    "rows beyond the stack": Case(1, 2, 2, 3, (6_000,), (4,), (2,), (1,), (1, 1), (0,)),
    "phases without taps": Case(
        1, 1, 3, 4, (5, 6), (1, 1), (2, 3), (1, 1), (0, 0, 0, 0), (1, 2), residual=True
    ),
    "stride shares a factor with dilation": Case(
        1, 1, 2, 3, (6, 7), (3, 3), (2, 4), (4, 2), (2, 1, 1, 3), (0, 0)
    ),
    "pads wider than the kernel": Case(
        1, 1, 2, 3, (9, 9), (2, 2), (1, 1), (1, 1), (3, 3, 3, 3), (0, 0)
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_transposed_convolution(name: str) -> None:
    run(SPECIAL[name], "cpu")


def test_large_strides_are_declined() -> None:
    data, weight = random_array(1, (1, 2, 4, 4)), random_array(2, (2, 3, 8, 8))
    attributes = {"strides": [8, 8]}
    group = fused("ConvTranspose", [data, weight], (1, 3, 32, 32), attributes, weights=1)
    assert template_kernel(group, parse_cpu("cpu")) is None
