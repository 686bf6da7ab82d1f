"""Dynamic modules whose segments are compiled once for all sizes."""

import logging

import numpy as np
import pytest

from tests.program.checks import check, compiled, model_of

TOGETHER = """g (float[rows, 8] x, float[others, 8] y) => (float[n, 8] z) {
    s = Sin(x) t = Mul(s, y) z = Softmax(t) }"""

POSITIONS = """g (float[batch, length] x) => (float[a, b] y) {
    axis = Constant <value = int64[1] {1}> ()
    shape = Shape(x)
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    length = Gather(shape, one)
    count = Range(zero, length, one)
    numbers = Cast <to = 1> (count)
    total = Cast <to = 1> (length)
    part = Div(numbers, total)
    scaled = Mul(x, part)
    y = Softmax(scaled) }"""


def compilations(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of the compilations so far."""
    return [text for record in caplog.records if "compiled " in (text := record.getMessage())]


def test_sizes_that_must_be_equal_are_one_symbol(caplog: pytest.LogCaptureFixture):
    module, model = compiled(TOGETHER), model_of(TOGETHER)
    numbers = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for rows, others in ((30, 30), (50, 50), (9, 9), (40, 1), (17, 17)):
            x, y = (numbers.standard_normal((n, 8)).astype("f4") for n in (rows, others))
            check(module, model, {"x": x, "y": y})
    first, second = compilations(caplog)
    assert "for all sizes" in first
    assert "y float32[1, 8]" in second


def test_tensors_are_computed_from_sizes(caplog: pytest.LogCaptureFixture):
    module, model = compiled(POSITIONS), model_of(POSITIONS)
    numbers = np.random.default_rng(1)
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for batch, length in ((3, 40), (7, 64), (2, 2), (64, 3), (5, 129)):
            check(module, model, {"x": numbers.standard_normal((batch, length)).astype("f4")})
    assert len(compilations(caplog)) == 1
