// RUN: flowloom opt %s -p "canonicalize" | filecheck %s

// The Identity, the second Relu and the Tanh go; the Add keeps its name; the padding moves into
// the convolution; adding +0 stays, since it turns -0 into +0.

dataflow.graph @main opset 21 inputs ["x"] outputs ["y", "z"] {
^bb0(%x: tensor<1x1x4x4xf32>):
  %w = dataflow.weight "w" : tensor<1x1x3x3xf32>
  %zero = dataflow.constant dense<0.0> : tensor<f32>
  %pads = dataflow.constant dense<[0, 0, 1, 1, 0, 0, 1, 1]> : tensor<8xi64>
  %a = dataflow.op "Relu" named "first" (%x) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %b = dataflow.op "Identity" named "same" (%a) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %c = dataflow.op "Relu" named "second" (%x) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %d = dataflow.op "Tanh" named "dead" (%x) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %e = dataflow.op "Add" named "sum" (%b, %c) : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %f = dataflow.op "Add" named "zero" (%e, %zero) : (tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %p = dataflow.op "Pad" named "pad" (%x, %pads) : (tensor<1x1x4x4xf32>, tensor<8xi64>) -> tensor<1x1x6x6xf32>
  %g = dataflow.op "Conv" named "conv" (%p, %w) : (tensor<1x1x6x6xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  dataflow.yield %f, %g : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>
}

// CHECK:      ^bb0(%x: tensor<1x1x4x4xf32>):
// CHECK-NEXT:   %w = dataflow.weight "w"
// CHECK-NEXT:   %zero = dataflow.constant
// CHECK-NEXT:   %a = dataflow.op "Relu" named "first"(%x)
// CHECK-NEXT:   %e = dataflow.op "Add" named "sum"(%a, %a)
// CHECK-NEXT:   %f = dataflow.op "Add" named "zero"(%e, %zero)
// CHECK-NEXT:   %g = dataflow.op "Conv" named "conv"(%x, %w) {pads = [1 : i64, 1 : i64, 1 : i64, 1 : i64]}
// CHECK-NEXT:   dataflow.yield %f, %g
