// RUN: not flowloom opt %s -p "canonicalize{level=2}" | filecheck %s

// CHECK: pass 'canonicalize
// CHECK-SAME: the options of canonicalize are none

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4xf32>):
  dataflow.yield %x : tensor<4xf32>
}
