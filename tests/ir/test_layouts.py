"""Layouts in types: text, verification, and the layouts that kernels read."""

import pytest
from xdsl.utils.exceptions import VerifyException

from compiler.graph.signature import signature
from compiler.ir.context import parse_module
from compiler.ir.dataflow import GraphOp
from compiler.kernels.group import extract_group

BLOCKED = "tensor<1x8x3x3xf32, #dataflow.channels<4>>"
PLAIN = "tensor<1x8x3x3xf32>"


def graph(middle: str, inner: str = PLAIN, result: str = PLAIN) -> GraphOp:
    module = parse_module(f"""
dataflow.graph @main opset 21 target "cuda:sm_90:tf32" inputs ["x"] outputs ["y"] {{
^bb0(%x: {PLAIN}):
  %a = dataflow.group "first" (%x) : ({PLAIN}) -> {middle} {{
  ^bb0(%0: {PLAIN}):
    %1 = dataflow.op "Relu" (%0) : ({PLAIN}) -> {inner}
    dataflow.yield %1 : {inner}
  }}
  %y = dataflow.group "second" (%a) : ({middle}) -> {result} {{
  ^bb0(%2: {PLAIN}):
    %3 = dataflow.op "Exp" (%2) : ({PLAIN}) -> {PLAIN}
    dataflow.yield %3 : {PLAIN}
  }}
  dataflow.yield %y : {result}
}}""")
    (found,) = module.ops
    assert isinstance(found, GraphOp)
    return found


def test_a_blocked_tensor_keeps_its_shape_and_its_text():
    blocked = graph(BLOCKED)
    blocked.verify()
    assert BLOCKED in str(blocked)
    assert str(parse_module(str(blocked)).ops.first) == str(blocked)


def test_a_kernel_knows_the_layouts_of_its_reads_and_writes():
    first, second = graph(BLOCKED).groups
    (write,), (read,) = extract_group(first).writes, extract_group(second).reads
    assert (write.shape, write.stored_shape) == ((1, 8, 3, 3), (2, 1, 3, 3, 4))
    assert write == read
    assert extract_group(second).writes[0].stored_shape == (1, 8, 3, 3)


def test_layouts_tell_kernels_apart():
    plain, blocked = (list(graph(middle).groups) for middle in (PLAIN, BLOCKED))
    for one, other in zip(plain, blocked, strict=True):
        assert signature(one) != signature(other)
        assert extract_group(one).content_hash() != extract_group(other).content_hash()


@pytest.mark.parametrize(
    ("middle", "inner", "result", "message"),
    [
        ("tensor<1x8x3x3xf32, #dataflow.channels<3>>", PLAIN, PLAIN, "blocks of 3 do not fit"),
        ("tensor<1x8x3x3xf32, #dataflow.channels<1>>", PLAIN, PLAIN, "blocks of 1 do not fit"),
        (BLOCKED, BLOCKED, PLAIN, "yields the types"),
        (BLOCKED, PLAIN, BLOCKED, "inputs and outputs of a dataflow.graph are row-major"),
    ],
)
def test_layouts_that_cannot_be_are_rejected(middle: str, inner: str, result: str, message: str):
    with pytest.raises(VerifyException, match=message):
        graph(middle, inner, result).verify()
