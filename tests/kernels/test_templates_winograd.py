"""Convolutions by Winograd's filtering: every way against float64, and what they are chosen for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.packing.winograd import POINTS
from compiler.kernels.building.select import Candidate
from compiler.kernels.cpu.templates.conv_choices import ConvConfig
from compiler.kernels.cpu.templates.winograd.choices import WinogradConfig
from compiler.kernels.group import Group
from compiler.target.target import parse_cpu
from tests.kernels.template_cases import candidate_of, check, targets
from tests.kernels.test_templates_convolution import Case, convolution_group

ONES = (1, 1)


def convolution(
    channels: int,
    filters: int,
    image: tuple[int, int],
    pads: tuple[int, int, int, int] = (1, 1, 1, 1),
    batch: int = 1,
    prologue: bool = False,
    residual: bool = False,
    bias: bool = True,
) -> Case:
    """A convolution of three by three taps."""
    return Case(
        batch, 1, channels, filters, image, (3, 3), ONES, ONES, pads, prologue, residual, bias
    )


def ways(group: Group, target: str) -> Candidate:
    """The ways to compute a group."""
    return candidate_of(group, parse_cpu(target))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Convolutions with at least one result, also with padding larger than the image."""
    image = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    before, after = ([draw(st.integers(0, 3)) for _ in range(2)] for _ in range(2))
    missing = (max(0, 3 - n - a - b) for n, a, b in zip(image, before, after, strict=True))
    last = [a + more for a, more in zip(after, missing, strict=True)]
    return convolution(
        draw(st.sampled_from([1, 2, 7, 20])),
        draw(st.sampled_from([1, 3, 16, 33])),
        image,
        (before[0], before[1], last[0], last[1]),
        draw(st.integers(1, 3)),
        *(draw(st.booleans()) for _ in range(3)),
    )


@settings(max_examples=8, deadline=None)
@given(cases(), targets, st.data())
def test_any_way(case: Case, target: str, data: st.DataObject) -> None:
    group, arrays, results = convolution_group(case)
    tunable = ways(group, target)
    known = [f for f, c in tunable.by_fields.items() if isinstance(c, WinogradConfig)]
    check(group, arrays, results, target, data.draw(st.sampled_from(known)))


SPECIAL = {
    "parts of a row": convolution(3, 5, (6, 2050), prologue=True, residual=True),
    "two parts": convolution(2, 3, (3, 770), bias=False),
    "many chunks": convolution(5, 20, (70, 130), batch=2, residual=True),
    "few chunks": convolution(40, 50, (13, 11), (0, 1, 2, 0), prologue=True, residual=True),
    "a row": convolution(4, 9, (1, 30)),
    "a column": convolution(4, 9, (30, 1), batch=9),
}


@pytest.mark.parametrize("results", POINTS)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_convolution(name: str, results: int) -> None:
    group, arrays, expected = convolution_group(SPECIAL[name])
    tunable = ways(group, "cpu")
    for fields, config in list(tunable.by_fields.items()):
        if isinstance(config, WinogradConfig) and config.results == results:
            check(group, arrays, expected, "cpu", fields)
            break
    else:
        pytest.fail("no way has such tiles")


@pytest.mark.parametrize(
    ("case", "results"),
    [
        (convolution(64, 64, (56, 56)), 4),
        (convolution(256, 256, (14, 14)), 4),
        (convolution(512, 512, (10, 10)), 2),
        (convolution(4, 4, (8, 8)), None),
        (Case(1, 1, 64, 64, (56, 56), (3, 3), (2, 2), ONES, (1,) * 4), None),
        (Case(1, 2, 64, 64, (56, 56), (3, 3), ONES, ONES, (1,) * 4), None),
    ],
)
@pytest.mark.parametrize("target", ["cpu:x86-64-v4", "cpu:x86-64-v3"])
def test_the_likeliest_way(case: Case, results: int | None, target: str) -> None:
    group, _, _ = convolution_group(case)
    config = ways(group, target).configs[0]
    if results is None:
        assert isinstance(config, ConvConfig)
    else:
        assert isinstance(config, WinogradConfig)
        assert config.results == results
