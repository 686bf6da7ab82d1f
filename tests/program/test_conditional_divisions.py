"""Kernels for all sizes that divide by a size under a condition."""

import numpy as np
import pytest

from tests.program.checks import check, compiled, model_of

TEXT = """g (float[n, 4, length] x, float[4, filters, taps] w) => (float[n, m, k] y) {
    y = ConvTranspose<group = GROUPS>(x, w)
}"""


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_a_transposed_convolution_have_any_number_of_filters(groups: int):
    text = TEXT.replace("GROUPS", str(groups))
    module, generator = compiled(text), np.random.default_rng(groups)
    for length, filters, taps in [(7, 3, 5), (9, 2, 4), (33, 3, 5)]:
        inputs = {
            "x": generator.normal(size=(2, 4, length)).astype("f4"),
            "w": generator.normal(size=(4, filters, taps)).astype("f4"),
        }
        check(module, model_of(text), inputs)
