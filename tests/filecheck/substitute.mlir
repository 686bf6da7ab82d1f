// RUN: flowloom opt %s -p "substitute{policy=taso}" | filecheck %s
// RUN: flowloom opt %s -p "substitute{policy=none}" | filecheck %s --check-prefix=NONE
// RUN: flowloom opt %s -p "substitute" | filecheck %s --check-prefix=NONE
// RUN: not flowloom opt %s -p "substitute{size=9..4}" | filecheck %s --check-prefix=SIZE

// A convolution of both weights in place of two that are added; a CPU gains nothing by default.

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<1x2x4x4xf32>):
  %a = dataflow.weight "a" : tensor<3x2x3x3xf32>
  %b = dataflow.weight "b" : tensor<3x2x3x3xf32>
  %c = dataflow.op "Conv" (%x, %a) {pads = [1, 1, 1, 1]} : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x4xf32>
  %d = dataflow.op "Conv" (%x, %b) {pads = [1, 1, 1, 1]} : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x4xf32>
  %y = dataflow.op "Add" (%c, %d) : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  dataflow.yield %y : tensor<1x3x4x4xf32>
}

// CHECK:      [[W:%[0-9a-z]+]] = dataflow.weight "{{.*}}Add{{.*}}a{{.*}}b{{.*}}" : tensor<3x2x3x3xf32>
// CHECK-NEXT: [[Y:%[0-9a-z]+]] = dataflow.op "Conv"{{.*}}(%x, [[W]])
// CHECK-NEXT: dataflow.yield [[Y]]

// NONE:      dataflow.op "Conv"(%x, %a)
// NONE-NEXT: dataflow.op "Conv"(%x, %b)
// NONE-NEXT: dataflow.op "Add"

// SIZE: size=9..4 is not a range of operators: write size=40..120
