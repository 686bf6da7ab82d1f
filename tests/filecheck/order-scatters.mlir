// RUN: flowloom opt %s -p "order-scatters" | filecheck %s

// Two layers add the rows of the same edges, one keeps the largest: they share the order of the
// updates.

dataflow.graph @main opset 21 target "cuda:sm_90:fp32" inputs ["x", "i"] outputs ["b", "c"] {
^bb0(%x: tensor<9x4xf32>, %i: tensor<20xi64>):
  %zeros = dataflow.weight "zeros" : tensor<9x4xf32>
  %axis = dataflow.constant dense<1> : tensor<1xi64>
  %shape = dataflow.constant dense<[20, 4]> : tensor<2xi64>
  %at = dataflow.op "Unsqueeze" named "at" (%i, %axis) : (tensor<20xi64>, tensor<1xi64>) -> tensor<20x1xi64>
  %p = dataflow.op "Gather" named "p" (%x, %i) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<20xi64>) -> tensor<20x4xf32>
  %a = dataflow.op "ScatterND" named "a" (%zeros, %at, %p) {reduction = "add"} : (tensor<9x4xf32>, tensor<20x1xi64>, tensor<20x4xf32>) -> tensor<9x4xf32>
  %q = dataflow.op "Gather" named "q" (%a, %i) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<20xi64>) -> tensor<20x4xf32>
  %wide = dataflow.op "Expand" named "wide" (%at, %shape) : (tensor<20x1xi64>, tensor<2xi64>) -> tensor<20x4xi64>
  %b = dataflow.op "ScatterElements" named "b" (%zeros, %wide, %q) {axis = 0 : i64, reduction = "add"} : (tensor<9x4xf32>, tensor<20x4xi64>, tensor<20x4xf32>) -> tensor<9x4xf32>
  %c = dataflow.op "ScatterND" named "c" (%zeros, %at, %q) {reduction = "max"} : (tensor<9x4xf32>, tensor<20x1xi64>, tensor<20x4xf32>) -> tensor<9x4xf32>
  dataflow.yield %b, %c : tensor<9x4xf32>, tensor<9x4xf32>
}

// CHECK:      [[ROWS:%[0-9a-z_]+]] = dataflow.op "Gather" named "p"
// CHECK-NEXT: [[STARTS:%[0-9a-z_]+]], [[ORDER:%[0-9a-z_]+]] = dataflow.op "ScatterOrder" named "a"(%i) {slots = 9 : i64}
// CHECK-NEXT: [[FIRST:%[0-9a-z_]+]] = dataflow.op "SegmentReduce" named "a"([[ROWS]], %zeros, [[STARTS]], [[ORDER]])
// CHECK-NEXT: [[NEXT:%[0-9a-z_]+]] = dataflow.op "Gather" named "q"([[FIRST]]
// CHECK-NEXT: dataflow.op "SegmentReduce" named "b"([[NEXT]], %zeros, [[STARTS]], [[ORDER]])
// CHECK-NEXT: dataflow.op "SegmentReduce" named "c"([[NEXT]], %zeros, [[STARTS]], [[ORDER]]) {reduction = "max"}
