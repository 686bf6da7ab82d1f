// RUN: flowloom opt %s -p "assign-layouts{policy=always}" | filecheck %s
// RUN: flowloom opt %s -p "assign-layouts" | filecheck %s
// RUN: flowloom opt %s -p "assign-layouts{policy=never}" | filecheck %s --check-prefix=NEVER
// RUN: flowloom opt %s -p "assign-layouts{block-bytes=12}" | filecheck %s --check-prefix=NEVER
// RUN: not flowloom opt %s -p "assign-layouts{policy=some}" | filecheck %s --check-prefix=POLICY
// RUN: not flowloom opt %s -p "assign-layouts{block-bytes=0}" | filecheck %s --check-prefix=BYTES

// The second convolution reads its image in blocks, the Split before it too; the input, the output
// and what a matrix product reads lie row-major.

dataflow.graph @main opset 21 target "cuda:sm_90:tf32" inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<1x3x4x4xf32>):
  %w = dataflow.weight "w" : tensor<8x3x1x1xf32>
  %v = dataflow.weight "v" : tensor<4x4x1x1xf32>
  %a = dataflow.group "Conv_a" (%x, %w) : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32> {
  ^bb1(%p: tensor<1x3x4x4xf32>, %q: tensor<8x3x1x1xf32>):
    %r = dataflow.op "Conv" (%p, %q) : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
    dataflow.yield %r : tensor<1x8x4x4xf32>
  }
  %b, %c = dataflow.op "Split" (%a) {axis = 1 : i64, sizes = [4 : i64, 4 : i64]} : (tensor<1x8x4x4xf32>) -> (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>)
  %d = dataflow.group "Conv_b" (%b, %v) : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32> {
  ^bb1(%p: tensor<1x4x4x4xf32>, %q: tensor<4x4x1x1xf32>):
    %r = dataflow.op "Conv" (%p, %q) : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
    dataflow.yield %r : tensor<1x4x4x4xf32>
  }
  %y = dataflow.group "MatMul_c" (%d, %d) : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32> {
  ^bb1(%p: tensor<1x4x4x4xf32>, %q: tensor<1x4x4x4xf32>):
    %r = dataflow.op "MatMul" (%p, %q) : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
    dataflow.yield %r : tensor<1x4x4x4xf32>
  }
  dataflow.yield %y : tensor<1x4x4x4xf32>
}

// CHECK:      %a = dataflow.group "Conv_{{[0-9a-f]+}}"(%x, %w) : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32, #dataflow.channels<4>>
// CHECK-NEXT: ^bb0(%p: tensor<1x3x4x4xf32>, %q: tensor<8x3x1x1xf32>):
// CHECK:      %b, %c = dataflow.op "Split"(%a) {axis = 1 : i64, sizes = [4 : i64, 4 : i64]} : (tensor<1x8x4x4xf32, #dataflow.channels<4>>) -> (tensor<1x4x4x4xf32, #dataflow.channels<4>>, tensor<1x4x4x4xf32, #dataflow.channels<4>>)
// CHECK:      %d = dataflow.group "Conv_{{[0-9a-f]+}}"(%b, %v) : (tensor<1x4x4x4xf32, #dataflow.channels<4>>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32> {
// CHECK:      -> tensor<1x4x4x4xf32> {

// NEVER-NOT: channels

// POLICY: unknown policy 'some': use one of target, always, never
// BYTES: block-bytes must be at least 1, not 0
