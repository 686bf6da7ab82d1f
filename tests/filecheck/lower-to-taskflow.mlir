// RUN: flowloom opt %s -p "lower-to-taskflow" | filecheck %s

// A partition of two groups is a subflow; the parts of a Concat lie in its place; a Reshape and
// the output that it gives are one buffer; a workspace is a view of the arena.

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<1x4xf32>):
  %w = dataflow.weight "w" : tensor<1x4xf32>
  %a = dataflow.group "Add_1" partition 0 stream 0 cost 5 (%x, %w) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> {
  ^bb1(%p: tensor<1x4xf32>, %q: tensor<1x4xf32>):
    %r = dataflow.op "Add" named "first" (%p, %q) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    dataflow.yield %r : tensor<1x4xf32>
  }
  %b = dataflow.group "Relu_2" partition 0 stream 0 workspaces [100] (%a) : (tensor<1x4xf32>) -> tensor<1x4xf32> {
  ^bb2(%p: tensor<1x4xf32>):
    %r = dataflow.op "Relu" named "second" (%p) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    dataflow.yield %r : tensor<1x4xf32>
  }
  %c = dataflow.op "Concat" (%a, %b) {axis = 1 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
  %d = dataflow.group "Relu_3" stream 1 (%c) : (tensor<1x8xf32>) -> tensor<1x8xf32> {
  ^bb3(%p: tensor<1x8xf32>):
    %r = dataflow.op "Relu" named "third" (%p) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    dataflow.yield %r : tensor<1x8xf32>
  }
  %shape = dataflow.constant dense<8> : tensor<1xi64>
  %y = dataflow.op "Reshape" (%d, %shape) : (tensor<1x8xf32>, tensor<1xi64>) -> tensor<8xf32>
  dataflow.yield %y : tensor<8xf32>
}
