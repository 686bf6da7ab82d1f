"""A condition that simplified an index is asked before the element is read."""

import numpy as np
import pytest
from onnx import parser

import compiler
from tests.fuzz.draw import Draw

TRIANGLE = """
    <ir_version: 10, opset_import: ["" : 21]>
    triangles (float[1, 1, 2] a, float[2, 1, 2] b) => (float[3, 1, 4, 2] y)
    <int64[4] shape = {3, 1, 2, 1}, int64 k = {1}, float five = {5}, int64[1] last = {-1},
     int64[1] least = {-2147483648}, int64[1] back = {-1}, int64[1] axis = {3}>
    {
        x = Concat <axis = 0> (a, b)
        column = Reshape (x, shape)
        upper = Trilu (column, k)
        twice = Concat <axis = 2> (upper, upper)
        divided = Div (twice, five)
        reversed = Slice (divided, last, least, axis, back)
        y = Concat <axis = 3> (divided, reversed)
    }"""


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_what_a_condition_simplified_is_read_under_it(target: str):
    draw = Draw(5)
    feeds = {
        name: draw.numpy.standard_normal((n, 1, 2), np.float32) for name, n in (("a", 1), ("b", 2))
    }
    x = np.concatenate([*feeds.values()])
    upper = np.triu(x.reshape(3, 1, 2, 1), 1)
    expected = np.concatenate([upper, upper], 2).repeat(2, 3) / np.float32(5)
    module = compiler.compile(parser.parse_model(TRIANGLE), target=target, budget=0)
    (y,) = module.run(feeds).values()
    np.testing.assert_array_equal(y, expected)
