// RUN: not flowloom opt %s -p "partition-graph" | filecheck %s
// RUN: not flowloom opt %s -p "assign-streams" | filecheck %s
// RUN: not flowloom opt %s -p "order-launches" | filecheck %s

// CHECK: MatMul 'product' is in no group: run fuse-operators before this pass

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4x4xf32>):
  %y = dataflow.op "MatMul" named "product" (%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  dataflow.yield %y : tensor<4x4xf32>
}
