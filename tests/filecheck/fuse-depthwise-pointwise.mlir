// RUN: flowloom opt %s -p "fuse-operators,fuse-depthwise-pointwise{policy=cost}" | filecheck %s

// Both depthwise convolutions read the Relu, which each then computes itself. One is followed by its
// pointwise convolution; the other one's result is an output as well, so it stays by itself.

dataflow.graph @main opset 21 target "cuda" inputs ["x"] outputs ["p", "q", "r"] {
^bb0(%x: tensor<1x4x6x6xf32>):
  %v = dataflow.weight "v" : tensor<4x1x3x3xf32>
  %w = dataflow.weight "w" : tensor<8x4x1x1xf32>
  %a = dataflow.op "Relu" named "before" (%x) : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %b = dataflow.op "Conv" (%a, %v) {group = 4 : i64} : (tensor<1x4x6x6xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x4x4xf32>
  %c = dataflow.op "Conv" (%b, %w) : (tensor<1x4x4x4xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x4x4xf32>
  %p = dataflow.op "Relu" (%c) : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %u = dataflow.weight "u" : tensor<4x1x1x1xf32>
  %q = dataflow.op "Conv" (%a, %u) {group = 4 : i64} : (tensor<1x4x6x6xf32>, tensor<4x1x1x1xf32>) -> tensor<1x4x6x6xf32>
  %r = dataflow.op "Conv" (%q, %w) : (tensor<1x4x6x6xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x6x6xf32>
  dataflow.yield %p, %q, %r : tensor<1x8x4x4xf32>, tensor<1x4x6x6xf32>, tensor<1x8x6x6xf32>
}

// CHECK:      dataflow.group "Relu_{{[0-9a-f]+}}"(%x)
// CHECK:      dataflow.group "Relu_Conv_Conv_{{[0-9a-f]+}}"(%x, %v, %w)
// CHECK-NEXT: ^bb0
// CHECK-NEXT:   [[A:%[0-9a-z_]+]] = dataflow.op "Relu" named "before"
// CHECK-NEXT:   [[B:%[0-9a-z_]+]] = dataflow.op "Conv"([[A]]
// CHECK-NEXT:   [[C:%[0-9a-z_]+]] = dataflow.op "Conv"([[B]]
// CHECK-NEXT:   dataflow.op "Relu"([[C]])
// CHECK:      dataflow.group "Conv_{{[0-9a-f]+}}"
// CHECK:      dataflow.group "Conv_{{[0-9a-f]+}}"
