// RUN: flowloom opt %s -p "fuse-operators" | filecheck %s

// The Relu follows its convolution with the bias as it is; the scalar moves in; the Reshape is a
// view and stays outside; the output that is the input needs a copy.

dataflow.graph @main opset 21 inputs ["x"] outputs ["y", "z"] {
^bb0(%x: tensor<1x1x4x4xf32>):
  %w = dataflow.weight "w" : tensor<1x1x1x1xf32>
  %two = dataflow.constant dense<2.0> : tensor<f32>
  %a = dataflow.op "Conv" named "conv" (%x, %w) : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = dataflow.op "Mul" named "scale" (%a, %two) : (tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  %c = dataflow.op "Reshape" named "flat" (%b) {shape = [16 : i64]} : (tensor<1x1x4x4xf32>) -> tensor<16xf32>
  dataflow.yield %c, %x: tensor<16xf32>, tensor<1x1x4x4xf32>
}

// CHECK:      ^bb0(%x: tensor<1x1x4x4xf32>):
// CHECK-NEXT:   %w = dataflow.weight "w" : tensor<1x1x1x1xf32>
// CHECK-NEXT:   %b = dataflow.group "Conv_Mul_{{[0-9a-f]+}}"(%x, %w)
// CHECK-NEXT:   ^bb0(%x_1: tensor<1x1x4x4xf32>, %w_1: tensor<1x1x1x1xf32>):
// CHECK-NEXT:     %a = dataflow.op "Conv" named "conv"(%x_1, %w_1)
// CHECK-NEXT:     %two = dataflow.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT:     %b_1 = dataflow.op "Mul" named "scale"(%a, %two)
// CHECK-NEXT:     dataflow.yield %b_1
// CHECK-NEXT:   }
// CHECK-NEXT:   %{{.*}} = dataflow.group "Identity_{{[0-9a-f]+}}"(%x)
// CHECK:        %c = dataflow.op "Reshape" named "flat"(%b) {shape = [16 : i64]}
// CHECK-NEXT:   dataflow.yield %c, %{{.*}}
