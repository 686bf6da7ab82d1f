// RUN: not flowloom opt %s -p "lower-quantised" | filecheck %s

// CHECK: the content of the weight 'w' decides how quantised operators are computed

dataflow.graph @main opset 23 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<2x8xf32>):
  %w = dataflow.weight "w" : tensor<8x4xi8>
  %t = dataflow.constant dense<2.500000e-01> : tensor<f32>
  %b = dataflow.op "DequantizeLinear" named "b" (%w, %t) {axis = 0 : i64} : (tensor<8x4xi8>, tensor<f32>) -> tensor<8x4xf32>
  %y = dataflow.op "MatMul" named "y" (%x, %b) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  dataflow.yield %y : tensor<2x4xf32>
}
