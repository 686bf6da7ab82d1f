// RUN: flowloom opt %s -p "batch-gemv" | filecheck %s

// Two steps need the same matrix and not each other: their rows become one matrix. The third needs
// the first.

dataflow.graph @main opset 21 inputs ["x", "y"] outputs ["a", "b", "c"] {
^bb0(%x: tensor<1x4xf32>, %y: tensor<2x4xf32>):
  %w = dataflow.weight "w" : tensor<4x4xf32>
  %a = dataflow.op "MatMul" named "first" (%x, %w) : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = dataflow.op "MatMul" named "second" (%y, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %c = dataflow.op "MatMul" named "third" (%a, %w) : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  dataflow.yield %a, %b, %c : tensor<1x4xf32>, tensor<2x4xf32>, tensor<1x4xf32>
}

// CHECK:      %w = dataflow.weight "w" : tensor<4x4xf32>
// CHECK-NEXT: [[ROWS:%[0-9a-z]+]] = dataflow.op "Concat"(%x, %y) {axis = 0 : i64}
// CHECK-NEXT: [[ALL:%[0-9a-z]+]] = dataflow.op "MatMul" named "first"([[ROWS]], %w) {{.*}} -> tensor<3x4xf32>
// CHECK-NEXT: [[A:%[0-9a-z]+]], [[B:%[0-9a-z]+]] = dataflow.op "Split"([[ALL]]) {axis = 0 : i64, sizes = [1 : i64, 2 : i64]}
// CHECK-NEXT: %c = dataflow.op "MatMul" named "third"([[A]], %w)
// CHECK-NEXT: dataflow.yield [[A]], [[B]], %c
