"""The verifier of `dataflow.op` follows the operator table."""

import numpy as np
import pytest
from xdsl.dialects.builtin import NoneType, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from compiler.ir.dataflow import ConstantOp, NoneOp, OperatorOp, WeightOp
from compiler.ir.layouts import with_block
from compiler.ir.types import int64, tensor_type
from compiler.ir.values import array_to_attribute, value_to_attribute


def weight(*shape: int) -> WeightOp:
    """A float32 tensor."""
    return WeightOp("w", tensor_type("float32", shape))


def constant(*values: int) -> ConstantOp:
    """A constant vector."""
    return ConstantOp(array_to_attribute(np.array(values, np.int64)))


def test_a_result_of_another_shape():
    op = OperatorOp("Relu", [weight(4)], [tensor_type("float32", (5,))])
    with pytest.raises(VerifyException, match=r"Relu gives tensor<4xf32>.*tensor<5xf32>"):
        op.verify()


def test_a_result_of_another_dtype():
    op = OperatorOp("Relu", [weight(4)], [tensor_type("float16", (4,))])
    with pytest.raises(VerifyException, match=r"gives tensor<4xf32>.*tensor<4xf16>"):
        op.verify()


@pytest.mark.parametrize(
    ("op_type", "attributes", "match"),
    [
        ("Magic", {}, "no operator 'Magic'"),
        ("Relu", {"slope": int64(1)}, "no attribute 'slope'"),
        ("Gelu", {"approximate": StringAttr("sine")}, "'approximate' is 'sine'"),
    ],
)
def test_operators_and_attributes(op_type: str, attributes: dict[str, Attribute], match: str):
    op = OperatorOp(op_type, [weight(4)], [tensor_type("float32", (4,))], attributes)
    with pytest.raises(VerifyException, match=match):
        op.verify()


def test_attributes_decide_shapes():
    result, two = [tensor_type("float32", (2, 2))], array_attribute(2, 2)
    OperatorOp("Reshape", [weight(4)], result, {"shape": two}).verify()
    with pytest.raises(VerifyException, match=r"\[2, 3\]"):
        OperatorOp("Reshape", [weight(4)], result, {"shape": array_attribute(2, 3)}).verify()
    with pytest.raises(VerifyException, match="attributes shape are missing"):
        OperatorOp("Reshape", [weight(4), constant(2, 2)], result).verify()


def test_another_constant_is_another_operator():
    indices = constant(1)
    op = OperatorOp("Gather", [weight(4), indices], [tensor_type("float32", (1,))])
    op.verify()
    op.operands[1] = constant(4).output
    with pytest.raises(VerifyException, match="index 4"):
        op.verify()


def test_what_is_left_out_and_layouts_are_no_mismatch():
    image = tensor_type("float32", (1, 8, 4, 4))
    blocked = WeightOp("w", with_block(image, 4))
    attributes = {"kernel_shape": array_attribute(2, 2), "strides": array_attribute(2, 2)}
    result = with_block(tensor_type("float32", (1, 8, 2, 2)), 4)
    OperatorOp("MaxPool", [blocked], [result, NoneType()], attributes).verify()
    OperatorOp("Clip", [weight(4), NoneOp(), NoneOp()], [tensor_type("float32", (4,))]).verify()


def array_attribute(*values: int) -> Attribute:
    """A list of integers."""
    return value_to_attribute(list(values))
