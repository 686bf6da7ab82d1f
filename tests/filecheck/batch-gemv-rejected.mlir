// RUN: not flowloom opt %s -p "batch-gemv{max-rows=-1}" | filecheck %s

// CHECK: max-rows must not be negative, not -1

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4xf32>):
  dataflow.yield %x : tensor<4xf32>
}
