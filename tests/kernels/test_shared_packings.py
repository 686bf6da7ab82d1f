"""The packings that memory has of the weights of kernels."""

from compiler.ir.context import parse_module
from compiler.kernels.building.module import distinct_groups
from compiler.kernels.shared_packings import packings_by_key, with_shared_packings

MODULE = """
dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4x4xf32>):
  %u = dataflow.weight "u" : tensor<4x4xf32>
  %v = dataflow.weight "v" : tensor<4x4xf32>
  %1 = "dataflow.group"(%x, %u) <{kernel = "one"}> ({
  ^bb1(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %c = dataflow.op "MatMul" (%a, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    dataflow.yield %c : tensor<4x4xf32>
  }) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "dataflow.group"(%1, %v) <{kernel = "one"}> ({
  ^bb1(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %c = dataflow.op "MatMul" (%a, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    dataflow.yield %c : tensor<4x4xf32>
  }) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  dataflow.yield %2 : tensor<4x4xf32>
}
"""


def packed(*names: str) -> tuple[frozenset[str], ...]:
    """The packings of the inputs of the kernel that reads both weights."""
    module = parse_module(MODULE)
    return with_shared_packings(module, distinct_groups(module), names)["one"].packed


def test_a_kernel_is_marked_with_the_packings_of_all_weights_that_it_reads():
    assert packed("u|pad:1,2|reshape:3", "v|pad:1,2|reshape:3", "v|pad:2") == (
        frozenset(),
        frozenset(["pad:1,2|reshape:3"]),
    )
    assert packed("u", "v") == (frozenset(), frozenset([""]))


def test_a_packing_that_one_weight_lacks_marks_nothing():
    assert packed("u|pad:1", "v|pad:2", "x|pad:1") == ()
    assert packed() == ()


def test_a_key_may_have_the_character_before_packings():
    found = packings_by_key(["a|b|pad:1"])
    assert found["a|b"] == {"pad:1"}
    assert found["a|b|pad:1"] == {""}
