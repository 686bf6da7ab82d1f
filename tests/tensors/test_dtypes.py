"""ONNX's element types have the dtypes that onnx gives them."""

import onnx
import pytest
from onnx import helper

from compiler.tensors.dtypes import ELEMENTS, numpy_element


def test_every_element_type_has_onnx_dtype():
    assert ELEMENTS.keys() == {number for number in onnx.TensorProto.DataType.values() if number}
    for number in ELEMENTS:
        assert numpy_element(number) == helper.tensor_dtype_to_np_dtype(number)


def test_an_unknown_element_type_is_refused():
    with pytest.raises(ValueError, match="no element type 99"):
        numpy_element(99)
