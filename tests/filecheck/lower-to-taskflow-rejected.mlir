// RUN: not flowloom opt %s -p "lower-to-taskflow" | filecheck %s

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4xf32>):
  %y = dataflow.op "Relu" named "act" (%x) : (tensor<4xf32>) -> tensor<4xf32>
  dataflow.yield %y : tensor<4xf32>
}
// CHECK: pass 'lower-to-taskflow': Relu 'act' is in no group and no view: run fuse-operators
