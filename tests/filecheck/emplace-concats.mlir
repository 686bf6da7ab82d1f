// RUN: flowloom opt %s -p "emplace-concats" | filecheck %s

// Of two images, blocks of channels are joined where they lie; a row-major join is a kernel, and so
// is one whose operand lies there twice.

dataflow.graph @main opset 21 target "cuda:sm_90:tf32" inputs ["x"] outputs ["y", "z", "t"] {
^bb0(%x: tensor<2x4x3x3xf32>):
  %a = dataflow.group "Relu_a" (%x) : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32, #dataflow.channels<4>> {
  ^bb1(%p: tensor<2x4x3x3xf32>):
    %r = dataflow.op "Relu" (%p) : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
    dataflow.yield %r : tensor<2x4x3x3xf32>
  }
  %b = dataflow.group "Exp_b" (%x) : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32, #dataflow.channels<4>> {
  ^bb1(%p: tensor<2x4x3x3xf32>):
    %r = dataflow.op "Exp" (%p) : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
    dataflow.yield %r : tensor<2x4x3x3xf32>
  }
  %c = dataflow.group "Concat_c" (%a, %b) : (tensor<2x4x3x3xf32, #dataflow.channels<4>>, tensor<2x4x3x3xf32, #dataflow.channels<4>>) -> tensor<2x8x3x3xf32, #dataflow.channels<4>> {
  ^bb1(%p: tensor<2x4x3x3xf32>, %q: tensor<2x4x3x3xf32>):
    %r = dataflow.op "Concat" (%p, %q) {axis = 1 : i64} : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x8x3x3xf32>
    dataflow.yield %r : tensor<2x8x3x3xf32>
  }
  %d = dataflow.group "Concat_d" (%a, %a) : (tensor<2x4x3x3xf32, #dataflow.channels<4>>, tensor<2x4x3x3xf32, #dataflow.channels<4>>) -> tensor<2x8x3x3xf32, #dataflow.channels<4>> {
  ^bb1(%p: tensor<2x4x3x3xf32>, %q: tensor<2x4x3x3xf32>):
    %r = dataflow.op "Concat" (%p, %q) {axis = 1 : i64} : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x8x3x3xf32>
    dataflow.yield %r : tensor<2x8x3x3xf32>
  }
  %y = dataflow.group "Relu_y" (%c) : (tensor<2x8x3x3xf32, #dataflow.channels<4>>) -> tensor<2x8x3x3xf32> {
  ^bb1(%p: tensor<2x8x3x3xf32>):
    %r = dataflow.op "Relu" (%p) : (tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32>
    dataflow.yield %r : tensor<2x8x3x3xf32>
  }
  %z = dataflow.group "Exp_z" (%d) : (tensor<2x8x3x3xf32, #dataflow.channels<4>>) -> tensor<2x8x3x3xf32> {
  ^bb1(%p: tensor<2x8x3x3xf32>):
    %r = dataflow.op "Exp" (%p) : (tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32>
    dataflow.yield %r : tensor<2x8x3x3xf32>
  }
  %t = dataflow.group "Concat_t" (%x, %x) : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x8x3x3xf32> {
  ^bb1(%p: tensor<2x4x3x3xf32>, %q: tensor<2x4x3x3xf32>):
    %r = dataflow.op "Concat" (%p, %q) {axis = 1 : i64} : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x8x3x3xf32>
    dataflow.yield %r : tensor<2x8x3x3xf32>
  }
  dataflow.yield %y, %z, %t : tensor<2x8x3x3xf32>, tensor<2x8x3x3xf32>, tensor<2x8x3x3xf32>
}

// CHECK:      %c = dataflow.op "Concat"(%a, %b) {axis = 1 : i64} : (tensor<2x4x3x3xf32, #dataflow.channels<4>>, tensor<2x4x3x3xf32, #dataflow.channels<4>>) -> tensor<2x8x3x3xf32, #dataflow.channels<4>>
// CHECK-NEXT: %d = dataflow.group "Concat_d"(%a, %a)
// CHECK:      dataflow.group "Relu_y"(%c)
// CHECK:      %t = dataflow.group "Concat_t"(%x, %x)
