// RUN: flowloom opt %s -p "fuse-attention" | filecheck %s

// The Transpose moves into the attention's group; a copy of it stays for the other user.

dataflow.graph @main opset 21 target "cuda:sm_90:tf32" inputs ["q", "k", "v"] outputs ["y", "t"] {
^bb0(%q: tensor<4x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x8xf32>):
  %t = dataflow.op "Transpose" named "turn" (%k) {perm = [1, 0]} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %s = dataflow.op "MatMul" named "scores" (%q, %t) : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %w = dataflow.op "Softmax" named "weights" (%s) {axis = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = dataflow.op "MatMul" named "mix" (%w, %v) : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  dataflow.yield %y, %t : tensor<4x8xf32>, tensor<8x6xf32>
}

// CHECK:      ^bb0(%q: tensor<4x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x8xf32>):
// CHECK-NEXT:   %t = dataflow.op "Transpose" named "turn"(%k)
// CHECK-NEXT:   %y = dataflow.group "Transpose_MatMul_Softmax_{{[0-9a-f]+}}"(%k, %q, %v)
// CHECK:          dataflow.op "Transpose"
// CHECK-NEXT:     dataflow.op "MatMul" named "scores"
// CHECK-NEXT:     dataflow.op "Softmax" named "weights"
// CHECK-NEXT:     dataflow.op "MatMul" named "mix"
// CHECK:        dataflow.yield %y, %t
