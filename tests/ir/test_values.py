"""Attributes and Python's values."""

import pytest
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, f32, i1, i32, i64
from xdsl.ir import Attribute

from compiler.ir.values import attribute_text

NUMBERS = [IntegerAttr(number, i64) for number in (0, 3, -7, 1 << 62)]
OTHERS = [IntegerAttr(1, i1), IntegerAttr(1, i32), FloatAttr(-0.0, f32), StringAttr('a "b"\n')]


@pytest.mark.parametrize(
    "attribute",
    [*NUMBERS, *OTHERS, ArrayAttr(NUMBERS), ArrayAttr(OTHERS), ArrayAttr([ArrayAttr(NUMBERS)])],
    ids=str,
)
def test_the_text_of_an_attribute_is_the_printed_one(attribute: Attribute):
    assert attribute_text(attribute) == str(attribute)
