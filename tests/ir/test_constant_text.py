"""Constants are read from text as they were printed, to the bit."""

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.ir.context import parse_module
from compiler.ir.dataflow import ConstantOp
from compiler.ir.values import array_to_attribute, attribute_to_array

DTYPES = [np.dtype(t) for t in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)]
NUMBERS = (
    *(2.0**23, 3 * 2.0**22, -5427084.0, 2.0**24, 2.0**32, 65504.0, 1e10, 1 / 3, 3e38, 1e-45),
    *(0.0, -0.0, np.inf, -np.inf, np.nan),
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_floats_are_read_as_they_were_printed(dtype: np.dtype):
    random = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        arrays = [np.array(number, dtype) for number in NUMBERS]
        large = random.integers(-(2**40), 2**40, 300)
        arrays += [large.astype(dtype), np.array([1.5, *NUMBERS], dtype)]
        arrays += [(random.normal(size=300) * 10.0 ** random.integers(-40, 40, 300)).astype(dtype)]
    text = str(ModuleOp([ConstantOp(array_to_attribute(array)) for array in arrays]))
    for array, op in zip(arrays, parse_module(text).body.block.ops, strict=True):
        assert isinstance(op, ConstantOp)
        found = attribute_to_array(op.value)
        np.testing.assert_array_equal(found.astype("f8"), array.astype("f8"))
        zeros = array == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(array[zeros]))
